//! Plays a script: waits for what the client does, keeps the log, and gives the verdict at the end.

use super::address::Address;
use super::connection::{Connection, End};
use super::control::Inbox;
use super::notation::Names;
use super::ready::wait_readable;
use super::{Step, Verdict};
use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

/// How long the connections may take to close after the client has ended.
const LAST_CLOSES: Duration = Duration::from_secs(1);

/// How long a program may take to end, or to say a signal: only a hang takes longer.
pub(super) const HANG: Duration = Duration::from_secs(60);

/// The log has no more lines than this, for scenarios with thousands of calls.
const LONGEST_LOG: usize = 300;

/// Something is wrong: what the client did, or the script itself.
pub(super) type Played = Result<(), String>;

/// A script under way.
#[derive(Debug)]
pub(super) struct Player {
    pub(super) addresses: Vec<Address>,
    pub(super) connections: HashMap<String, Connection>,
    pub(super) names: Names,
    pub(super) inbox: Inbox,
    /// The end of the step before.
    pub(super) mark: Instant,
    /// The greatest token granted by `serve`.
    pub(super) last_token: u64,
    owners: HashMap<u64, String>,
    faults: Vec<String>,
    log: Vec<String>,
    began: Instant,
}

impl Player {
    pub(super) fn new(addresses: Vec<Address>, inbox: Inbox) -> Self {
        let now = Instant::now();
        Self {
            addresses,
            connections: HashMap::new(),
            names: Names::default(),
            inbox,
            mark: now,
            last_token: 1_000,
            owners: HashMap::new(),
            faults: Vec::new(),
            log: Vec::new(),
            began: now,
        }
    }

    /// Plays some steps, until one fails.
    pub(super) fn play(&mut self, script: &[Step]) -> Played {
        for (index, step) in script.iter().enumerate() {
            self.step(step).map_err(|fault| format!("step {}: {fault}; it was {step:?}", index + 1))?;
        }
        Ok(())
    }

    /// Waits until `check` gives something, or the deadline has passed.
    pub(super) fn until<T>(
        &mut self,
        deadline: Instant,
        mut check: impl FnMut(&mut Self) -> Result<Option<T>, String>,
    ) -> Result<Option<T>, String> {
        loop {
            if let Some(found) = check(self)? {
                return Ok(Some(found));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            self.look(deadline).map_err(|error| format!("poll: {error}"))?;
        }
    }

    /// Waits for one thing to happen, and takes in all that has.
    fn look(&mut self, deadline: Instant) -> io::Result<()> {
        let named = self.connections.values();
        let unnamed = self.addresses.iter().flat_map(|address| &address.waiting);
        let readable = named.chain(unnamed).filter_map(Connection::fd);
        let listening = self.addresses.iter().filter_map(Address::fd);
        let fds: Vec<_> = [self.inbox.fd()].into_iter().chain(readable).chain(listening).collect();
        let ready = wait_readable(&fds, deadline)?;
        if ready[0] {
            self.inbox.clear();
        }
        if ready.iter().any(|ready| *ready) {
            self.take_in()?;
        }
        Ok(())
    }

    /// Waits for a signal of the program.
    pub(super) fn await_signal(&mut self, name: &str) -> Played {
        let heard = |player: &mut Self| player.heard(name);
        self.until(Instant::now() + HANG, heard)?.ok_or_else(|| format!("the program does not say {name}"))
    }

    /// Whether the program has said something; a fault when it has ended without.
    pub(super) fn heard(&self, name: &str) -> Result<Option<()>, String> {
        match self.inbox.heard(name) {
            true => Ok(Some(())),
            false if self.inbox.client_has_ended() => {
                Err(format!("the program ends and has not said {name}"))
            }
            false => Ok(None),
        }
    }

    /// Reads every connection that is read at all, and lets in new ones. Sockets with nothing to say give nothing.
    pub(super) fn take_in(&mut self) -> io::Result<()> {
        let mut news = Vec::new();
        for (name, connection) in self.connections.iter_mut().filter(|(_, c)| c.fd().is_some()) {
            let count = connection.read();
            news.push((name.clone(), count, connection.ended));
        }
        for (name, count, ended) in news {
            self.note_requests(&name, count);
            if let Some((end, _)) = ended {
                self.note(format!("{name}: the client ends it: {end:?}"));
            }
        }
        for address in &mut self.addresses {
            for connection in address.waiting.iter_mut().filter(|connection| connection.fd().is_some()) {
                connection.read();
            }
        }
        for index in 0..self.addresses.len() {
            let count = self.addresses[index].let_in()?;
            for _ in 0..count {
                self.note(format!("{}: a connection", self.addresses[index].name));
            }
        }
        Ok(())
    }

    /// The last `count` requests of a connection are new.
    pub(super) fn note_requests(&mut self, name: &str, count: usize) {
        let Some(connection) = self.connections.get(name) else { return };
        let frames = connection.frames.len();
        let new: Vec<_> =
            connection.frames.range(frames - count..).map(|(request, _)| request.clone()).collect();
        for request in new {
            self.note(format!("{name} < {}", self.names.show(&request)));
            if let Some(owner) = request.owner()
                && let Some(first) = self.owners.insert(owner, name.to_owned())
            {
                self.faults.push(format!("owner {owner:#x} was sent on {first} and again on {name}"));
            }
        }
        if let Some(fault) = self.connections.get(name).and_then(|c| c.malformed.clone()) {
            self.faults.push(format!("{name}: {fault}"));
        }
    }

    /// One line of the log.
    pub(super) fn note(&mut self, line: String) {
        if self.log.len() < LONGEST_LOG {
            self.log.push(format!("{:>6} ms  {line}", self.began.elapsed().as_millis()));
        }
    }

    /// The connection that the script means.
    pub(super) fn connection(&mut self, name: &str) -> Result<&mut Connection, String> {
        self.connections.get_mut(name).ok_or_else(|| format!("there is no connection {name}"))
    }

    /// Waits for the end of the client, and judges what nobody expected.
    pub(super) fn finish(mut self, played: Played) -> Verdict {
        self.inbox.end();
        let result = match played {
            Ok(()) => self.wait_for_client().map(|()| self.judge_the_rest()),
            Err(fault) => {
                self.note(format!("FAULT: {fault}"));
                // A client that is left alone comes to its end. What else it does follows from the fault.
                self.addresses.iter_mut().for_each(Address::refuse);
                self.connections.values_mut().for_each(Connection::reset);
                self.wait_for_client().and(Err(fault))
            }
        };
        self.faults.extend(result.err());
        Verdict { faults: self.faults, log: self.log }
    }

    fn wait_for_client(&mut self) -> Played {
        let ended = |player: &mut Self| Ok(player.inbox.client_has_ended().then_some(()));
        if self.until(Instant::now() + HANG, ended)?.is_none() {
            return Err("the program does not end".to_owned());
        }
        self.connections.values_mut().for_each(|connection| connection.reading = true);
        // Connections that the client made and ended since the last look are there now.
        self.take_in().map_err(|error| error.to_string())?;
        let closed = |player: &mut Self| {
            let unnamed = player.addresses.iter().flat_map(|address| &address.waiting);
            let open = player.connections.values().chain(unnamed).any(Connection::is_open);
            Ok((!open).then_some(()))
        };
        self.until(Instant::now() + LAST_CLOSES, closed).map(drop)
    }

    fn judge_the_rest(&mut self) {
        let mut faults = Vec::new();
        for (name, connection) in &self.connections {
            let frames = connection.frames.iter().map(|(request, _)| self.names.show(request));
            faults.extend(frames.map(|frame| format!("{name}: nobody expected `{frame}`")));
            if connection.is_open() && connection.malformed.is_none() {
                faults.push(format!("{name} is still open after the client has ended"));
            }
        }
        for address in &self.addresses {
            if address.waiting.iter().any(Connection::is_open) {
                faults.push(format!(
                    "a connection of {} is still open after the client has ended",
                    address.name
                ));
            }
            let spoken = address.spoken_unasked(&self.names);
            faults.extend(
                spoken.into_iter().map(|line| format!("{}: before the welcome: `{line}`", address.name)),
            );
        }
        self.faults.extend(faults);
    }
}

/// Words for a verdict.
pub(super) fn describe(end: Option<(End, Instant)>) -> String {
    end.map_or_else(|| "it stays open".to_owned(), |(end, _)| format!("it ended by {end:?}"))
}
