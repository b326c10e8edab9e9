//! What each step of a script does.

use super::address::Address;
use super::connection::{Connection, End};
use super::notation::Request;
use super::player::{HANG, Played, Player, describe};
use super::step::{Ending, Serve, Step, Timing};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Between the pieces of an answer that is cut, so that the client reads each by itself.
const BETWEEN_PIECES: Duration = Duration::from_millis(5);

/// Which bytes of an answer are written, and in what pieces.
#[derive(Debug, Default)]
struct Part {
    first_bytes: Option<usize>,
    cuts: Vec<usize>,
}

impl Player {
    /// Plays one step.
    pub(super) fn step(&mut self, step: &Step) -> Played {
        match step {
            Step::SmallBuffers { at } => self.at(at)?.small_buffers().map_err(|error| error.to_string())?,
            Step::Refuse { at } => self.at(at)?.refuse(),
            Step::Listen { at } => self.at(at)?.listen().map_err(|error| error.to_string())?,
            Step::Accept { on, at, after_ms } => return self.accept(on, at, *after_ms),
            Step::Welcome { on, at, id, after_ms } => return self.welcome(on, at, *id, *after_ms),
            Step::Expect { on, frames, any_order, after_ms } => {
                return self.expect(on, frames, *any_order, *after_ms);
            }
            Step::Answer { on, frames, first_bytes, cuts } => {
                let part = Part { first_bytes: *first_bytes, cuts: cuts.clone() };
                self.answer(on, frames, &part)?;
            }
            Step::Serve { on, acquires, waits, until } => self.serve(on, *acquires, waits, until)?,
            Step::Close { on } => {
                self.connection(on)?.close();
                self.note(format!("{on}: the peer closes it"));
            }
            Step::Reset { on } => {
                self.connection(on)?.reset();
                self.note(format!("{on}: the peer resets it"));
            }
            Step::ExpectClose { on, by, after_ms } => return self.expect_close(on, *by, *after_ms),
            Step::ExpectNothing { ms } => self.expect_nothing(Duration::from_millis(*ms))?,
            Step::StopReading { on } => self.connection(on)?.reading = false,
            Step::ReadOn { on } => self.connection(on)?.reading = true,
            Step::Pause { ms } => {
                let end = Instant::now() + Duration::from_millis(*ms);
                self.until(end, |_| Ok(None::<()>))?;
            }
            Step::Signal { name } => self.inbox.signal(name),
            Step::Await { name } => self.await_signal(name)?,
        }
        self.mark = Instant::now();
        Ok(())
    }

    fn at(&mut self, name: &str) -> Result<&mut Address, String> {
        let found = self.addresses.iter_mut().find(|address| address.name == name);
        found.ok_or_else(|| format!("there is no address {name}"))
    }

    /// Something happened at `at`: was it in time? The next step counts from there.
    fn judge(&mut self, at: Instant, timing: Timing) -> Played {
        let after = at.saturating_duration_since(self.mark);
        self.mark = self.mark.max(at);
        if after < timing.earliest || after > timing.latest {
            return Err(format!("it came after {} ms", after.as_millis()));
        }
        Ok(())
    }

    fn accept(&mut self, on: &str, at: &str, timing: Timing) -> Played {
        self.at(at)?;
        let deadline = self.mark + timing.latest;
        let taken = self.until(deadline, |player| Ok(player.at(at)?.take()))?;
        let (connection, since) = taken.ok_or("no connection comes")?;
        let frames = connection.frames.len();
        self.connections.insert(on.to_owned(), connection);
        self.note(format!("{at}: its connection is {on}"));
        self.note_requests(on, frames);
        self.judge(since, timing)
    }

    fn welcome(&mut self, on: &str, at: &str, id: u64, timing: Timing) -> Played {
        self.accept(on, at, timing)?;
        self.expect(on, &[format!("H 1 $hello-{on} *")], false, Timing::default())?;
        let named = if id == 0 { String::new() } else { format!("id={id:032x} ") };
        let text = format!("server=lockstead/0 {named}session=1 max_key=1024 max_lease=255");
        self.answer(on, &[format!("H 1 $hello-{on} {text}")], &Part::default())?;
        self.mark = Instant::now();
        Ok(())
    }

    fn expect(&mut self, on: &str, frames: &[String], any_order: bool, timing: Timing) -> Played {
        let deadline = self.mark + timing.latest;
        let mut missing: Vec<&String> = frames.iter().collect();
        let mut last = self.mark;
        while !missing.is_empty() {
            let (request, at) = self.next_request(on, deadline, missing[0])?;
            let candidates = if any_order { missing.len() } else { 1 };
            let mut found = None;
            for (index, frame) in missing.iter().enumerate().take(candidates) {
                if self.names.matches(frame, &request)? {
                    found = Some(index);
                    break;
                }
            }
            let index = found.ok_or_else(|| format!("`{}` came instead", self.names.show(&request)))?;
            missing.remove(index);
            last = at;
        }
        self.judge(last, timing)
    }

    /// The next request on a connection.
    fn next_request(
        &mut self,
        on: &str,
        deadline: Instant,
        awaited: &str,
    ) -> Result<(Request, Instant), String> {
        self.connection(on)?;
        let next = self.until(deadline, |player| {
            let connection = player.connection(on)?;
            match connection.frames.pop_front() {
                Some(next) => Ok(Some(next)),
                None if connection.fd().is_none() => {
                    Err(format!("`{awaited}` never came; {}", describe(connection.ended)))
                }
                None => Ok(None),
            }
        })?;
        next.ok_or_else(|| format!("`{awaited}` did not come in time"))
    }

    fn answer(&mut self, on: &str, frames: &[String], part: &Part) -> Played {
        let mut bytes = Vec::new();
        for frame in frames {
            bytes.extend(self.names.answer(frame)?);
        }
        if let Some(first) = part.first_bytes {
            if first > bytes.len() {
                return Err(format!("there are only {} bytes", bytes.len()));
            }
            bytes.truncate(first);
        }
        self.note(format!("{on} > {} ({} bytes)", frames.join(", "), bytes.len()));
        let mut begin = 0;
        for &cut in part.cuts.iter().filter(|cut| **cut < bytes.len()) {
            self.write(on, &bytes[begin..cut])?;
            let end = Instant::now() + BETWEEN_PIECES;
            self.until(end, |_| Ok(None::<()>))?;
            begin = cut;
        }
        self.write(on, &bytes[begin..])
    }

    fn write(&mut self, on: &str, bytes: &[u8]) -> Played {
        self.connection(on)?
            .write(bytes)
            .map_err(|error| format!("the client does not take the answer: {error}"))
    }

    fn serve(&mut self, on: &str, acquires: Serve, waits: &[u64], until: &str) -> Played {
        let deadline = Instant::now() + HANG;
        self.until(deadline, |player| {
            let frames: VecDeque<_> = std::mem::take(&mut player.connection(on)?.frames);
            let mut answers = Vec::new();
            for (request, _) in frames {
                answers.extend(player.plain_answer(&request, acquires, waits)?);
            }
            if !answers.is_empty() {
                player.write(on, &answers)?;
            }
            player.heard(until)
        })?
        .ok_or_else(|| format!("the program does not say {until}"))
    }

    /// What a server would say that is always free, or never.
    fn plain_answer(&mut self, request: &Request, acquires: Serve, waits: &[u64]) -> Result<Vec<u8>, String> {
        let fields = &request.fields;
        let line = match (request.op, acquires) {
            (b'A', _) if !waits.is_empty() && !waits.contains(&fields[0]) => {
                return Err(format!("`{}`: another wait", self.names.show(request)));
            }
            (b'A', Serve::Grant) => {
                self.last_token += 1;
                format!("A {} {} {} 0", fields[2], self.last_token, fields[1])
            }
            (b'A', Serve::Timeout) => format!("T {}", fields[2]),
            (b'R', _) => format!("R {}", fields[0]),
            (b'E', _) => format!("E {} {}", fields[1], fields[0]),
            (b'P', _) => format!("P {}", fields[0]),
            (b'C', _) => return Ok(Vec::new()),
            _ => return Err(format!("nobody expected `{}`", self.names.show(request))),
        };
        self.names.answer(&line)
    }

    fn expect_close(&mut self, on: &str, by: Ending, timing: Timing) -> Played {
        self.connection(on)?.reading = true;
        let deadline = self.mark + timing.latest;
        let ended = self.until(deadline, |player| Ok(player.connection(on)?.ended))?;
        let connection = self.connection(on)?;
        let fits = match ended {
            None => false,
            Some((End::Close, _)) => by != Ending::Reset,
            Some((End::Reset, _)) => by != Ending::Close,
        };
        if !fits {
            return Err(describe(connection.ended));
        }
        if let Some((request, _)) = connection.frames.front().cloned() {
            return Err(format!("before its end came `{}`", self.names.show(&request)));
        }
        let at = ended.map_or(deadline, |(_, at)| at);
        self.judge(at, timing)
    }

    fn expect_nothing(&mut self, span: Duration) -> Played {
        let ended = |connections: &std::collections::HashMap<String, Connection>| {
            connections.values().filter(|connection| connection.ended.is_some()).count()
        };
        let before = ended(&self.connections);
        let deadline = self.mark + span;
        let heard = self.until(deadline, |player| {
            let frame = player.connections.iter().find_map(|(name, c)| Some((name, &c.frames.front()?.0)));
            if let Some((name, request)) = frame {
                return Ok(Some(format!("on {name} came `{}`", player.names.show(request))));
            }
            if player.addresses.iter().any(|address| !address.waiting.is_empty()) {
                return Ok(Some("a connection came".to_owned()));
            }
            Ok((ended(&player.connections) > before).then(|| "the client ended a connection".to_owned()))
        })?;
        heard.map_or(Ok(()), Err)
    }
}
