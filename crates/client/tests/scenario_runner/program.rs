//! The program's side of a scenario.

use super::calls::{Call, Ended, State, acquired, extended, released};
use lockstead_client::{Client, Lost, Ticket};
use lockstead_testkit::peer::{Peer, Signals, Timing};
use lockstead_testkit::scenario::{Do, Options, Scenario, is_expected};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// No call ends later after its deadline than this.
const LATENESS: Duration = Duration::from_millis(100);

/// What takes so long hangs.
const HANG: Duration = Duration::from_secs(30);

type Played = Result<(), String>;

/// A ticket, or what is left of it, and the call that gave it.
struct Held {
    ticket: Option<Ticket>,
    lost: JoinHandle<(Lost, Instant)>,
    began: Instant,
}

struct Program<'a> {
    client: Client,
    scenario: &'a Scenario,
    signals: Signals,
    calls: HashMap<&'a str, Vec<Call>>,
    tickets: HashMap<&'a str, Held>,
}

/// Plays the program's side, and ends the client.
pub async fn play(scenario: &Scenario, peer: &Peer) -> Played {
    let client = match (make_client(&scenario.client, peer), scenario.client.refused) {
        (Ok(client), false) => client,
        (Err(_), true) => return Ok(()),
        (Ok(_), true) => return Err("the options are not refused".to_owned()),
        (Err(error), false) => return Err(error),
    };
    let mut program = Program {
        client: client.clone(),
        scenario,
        signals: peer.signals(),
        calls: HashMap::new(),
        tickets: HashMap::new(),
    };
    let mut played = Ok(());
    for (index, step) in scenario.program.iter().enumerate() {
        let step_played =
            timeout(HANG, program.step(step)).await.unwrap_or_else(|_| Err("it hangs".to_owned()));
        played = step_played.map_err(|fault| format!("step {}: {fault}; it was {step:?}", index + 1));
        if played.is_err() {
            break;
        }
    }
    let ended = timeout(HANG, client.shutdown()).await.map_err(|_| "the shutdown hangs".to_owned());
    played.and(ended)
}

fn make_client(options: &Options, peer: &Peer) -> Result<Client, String> {
    let addresses = peer.addresses().iter().map(|(_, socket)| socket.to_string());
    let mut builder = Client::builder().servers(addresses).map_err(|error| error.to_string())?;
    if let Some(ms) = options.allowance_ms {
        builder = builder.answer_allowance(Duration::from_millis(ms));
    }
    if let Some(ms) = options.margin_ms {
        builder = builder.margin(Duration::from_millis(ms));
    }
    if let Some(name) = &options.name {
        builder = builder.name(name);
    }
    if let Some(token) = &options.auth {
        builder = builder.auth_token(token);
    }
    builder.connect().map_err(|error| error.to_string())
}

impl<'a> Program<'a> {
    async fn step(&mut self, step: &'a Do) -> Played {
        match step {
            Do::Acquire { call, .. } => self.acquire(call, step).await?,
            Do::Outcome { call, is, after_ms } => return self.outcome(call, is, *after_ms).await,
            Do::Outcomes { call, are, after_ms } => return self.outcomes(call, are, *after_ms).await,
            Do::Cancel { call } => self.cancel(call).await?,
            Do::Release { call, is, after_ms } => {
                let ticket = self.held(call)?.ticket.take().ok_or("the ticket is gone")?;
                let began = Instant::now();
                let outcome = ticket.release().await;
                return judge(&released(&outcome), is, began, Instant::now(), *after_ms);
            }
            Do::Extend { call, lease_ms, is, after_ms } => {
                let began = Instant::now();
                let outcome = self.ticket(call)?.extend(Duration::from_millis(*lease_ms)).await;
                return judge(&extended(&outcome), is, began, Instant::now(), *after_ms);
            }
            Do::KeepAlive { call, cap_ms } => match cap_ms {
                Some(ms) => self.ticket(call)?.keep_alive_for(Duration::from_millis(*ms)),
                None => self.ticket(call)?.keep_alive(),
            },
            Do::Lost { call, is, after_ms } => {
                let held = self.held(call)?;
                let (why, at) = (&mut held.lost).await.map_err(|error| error.to_string())?;
                return judge(why.as_str(), is, held.began, at, *after_ms);
            }
            Do::Valid { call, is, for_ms } => return valid(self.ticket(call)?, *is, *for_ms),
            Do::Drop { call } => drop(self.held(call)?.ticket.take()),
            Do::Leave { call } => self.held(call)?.ticket.take().ok_or("the ticket is gone")?.leave(),
            Do::Pause { ms } => tokio::time::sleep(Duration::from_millis(*ms)).await,
            Do::Signal { name } => self.signals.signal(name),
            Do::Await { name } => self.await_signal(name).await?,
            Do::Shutdown { after_ms } => {
                let began = Instant::now();
                self.client.shutdown().await;
                return judge("over", "over", began, Instant::now(), *after_ms);
            }
        }
        Ok(())
    }

    async fn await_signal(&self, name: &'a str) -> Played {
        let (signals, name) = (self.signals.clone(), name.to_owned());
        let heard = tokio::task::spawn_blocking(move || signals.await_signal(&name, HANG)).await;
        heard.is_ok_and(|heard| heard).then_some(()).ok_or_else(|| "the peer does not say it".to_owned())
    }

    async fn acquire(&mut self, name: &'a str, step: &Do) -> Played {
        let Do::Acquire { key, key_bytes, wait_ms, lease_ms, times, late, .. } = step else { return Ok(()) };
        let key = key_bytes.map_or(key.clone(), |bytes| key.repeat(bytes));
        let wait_s = wait_ms.div_ceil(1000);
        let deadline = match wait_s {
            0 => Duration::from_secs(5),
            _ => Duration::from_millis(wait_s * 1000 + self.scenario.client.allowance_ms.unwrap_or(2000)),
        };
        let mut calls = Vec::with_capacity(*times);
        for _ in 0..*times {
            let acquire = self.client.acquire(key.clone());
            let acquire =
                acquire.wait(Duration::from_millis(*wait_ms)).lease(Duration::from_millis(*lease_ms));
            let began = Instant::now();
            let state = if *late {
                let mut call = Box::pin(acquire.into_future());
                std::future::poll_fn(|context| {
                    assert!(call.as_mut().poll(context).is_pending(), "a call that is over at once");
                    std::task::Poll::Ready(())
                })
                .await;
                State::Late(call)
            } else {
                State::Watched(tokio::spawn(async move { (acquire.await, Instant::now()) }))
            };
            calls.push(Call { began, state, deadline });
        }
        self.calls.insert(name, calls);
        // Every call has begun when the next step is played.
        tokio::task::yield_now().await;
        Ok(())
    }

    async fn outcome(&mut self, name: &'a str, is: &str, after: Option<Timing>) -> Played {
        let mut calls = self.calls.remove(name).ok_or("there is no such call")?;
        let call = calls.pop().ok_or("there is no such call")?;
        let (began, late) = (call.began, matches!(call.state, State::Late(_)));
        let by_deadline = Timing { earliest: Duration::ZERO, latest: call.deadline + LATENESS };
        let (outcome, at) = call.end().await;
        let came = acquired(&outcome);
        if let Ok(ticket) = outcome {
            let signal = ticket.lost();
            let lost = tokio::spawn(async move { (signal.await, Instant::now()) });
            self.tickets.insert(name, Held { ticket: Some(ticket), lost, began });
        }
        if !late {
            judge(&came, &came, began, at, by_deadline)?;
        }
        judge(&came, is, began, at, after.unwrap_or(Timing { latest: HANG, ..by_deadline }))
    }

    async fn outcomes(
        &mut self,
        name: &str,
        are: &BTreeMap<String, (usize, usize)>,
        after: Option<Timing>,
    ) -> Played {
        let calls = self.calls.remove(name).ok_or("there are no such calls")?;
        let mut counts: BTreeMap<&str, usize> = are.keys().map(|expected| (expected.as_str(), 0)).collect();
        let began = calls.first().map_or_else(Instant::now, |call| call.began);
        let mut last = began;
        for call in calls {
            let latest = call.began + call.deadline + LATENESS;
            let (outcome, at): Ended = call.end().await;
            let came = acquired(&outcome);
            if at > latest {
                return Err(format!("`{came}` came {:?} too late", at - latest));
            }
            last = last.max(at);
            let expected = counts.iter_mut().find(|(expected, _)| is_expected(&came, expected));
            *expected.ok_or_else(|| format!("`{came}` came"))?.1 += 1;
        }
        for (expected, (least, most)) in are {
            let count = counts.get(expected.as_str()).copied().unwrap_or(0);
            if count < *least || count > *most {
                return Err(format!("`{expected}` came {count} times"));
            }
        }
        judge("over", "over", began, last, after.unwrap_or(Timing { earliest: Duration::ZERO, latest: HANG }))
    }

    async fn cancel(&mut self, name: &str) -> Played {
        for call in self.calls.remove(name).ok_or("there is no such call")? {
            if let State::Watched(task) = call.state {
                task.abort();
                if task.await.is_ok() {
                    return Err("the call was over before it was given up".to_owned());
                }
            }
        }
        Ok(())
    }

    fn held(&mut self, name: &str) -> Result<&mut Held, String> {
        self.tickets.get_mut(name).ok_or_else(|| format!("{name} gave no ticket"))
    }

    fn ticket(&mut self, name: &str) -> Result<&Ticket, String> {
        self.held(name)?.ticket.as_ref().ok_or_else(|| format!("the ticket of {name} is gone"))
    }
}

fn valid(ticket: &Ticket, expected: bool, for_ms: Option<Timing>) -> Played {
    let left = ticket.valid_for();
    if ticket.valid() != expected || ticket.lost_reason().is_none() != expected {
        return Err(format!("valid: {}, lost: {:?}", ticket.valid(), ticket.lost_reason()));
    }
    match for_ms {
        Some(timing) if left < timing.earliest || left > timing.latest => {
            Err(format!("it is valid for {left:?}"))
        }
        _ => Ok(()),
    }
}

/// Whether what came is what was expected, and came in time.
fn judge(came: &str, expected: &str, began: Instant, at: Instant, timing: Timing) -> Played {
    let after = at.saturating_duration_since(began);
    if !is_expected(came, expected) {
        return Err(format!("`{came}` came, after {} ms", after.as_millis()));
    }
    if after < timing.earliest || after > timing.latest {
        return Err(format!("`{came}` came after {} ms", after.as_millis()));
    }
    Ok(())
}
