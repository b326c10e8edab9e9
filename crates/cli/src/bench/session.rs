//! One connection's way through a run: it opens, may fill the table, makes load, and gives back what it holds.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Instant;

use lockstead_proto::{Acquire, Answer, CLIENT_ID_BIT};
use tokio::select;
use tokio::sync::watch;
use tokio::time::sleep_until;

use super::Run;
use super::slots::{Place, Slots, lease};
use super::tally::Fault;
use super::wire::Wire;

/// How many requests are sent together when locks are taken or given back in bulk.
const BULK: usize = 512;

/// A connection. It never fails: what goes wrong is counted, and a broken one does nothing more.
pub struct Session {
    run: Rc<Run>,
    wire: Wire,
    slots: Slots,
    /// Acquires of a fill whose answers never came.
    unanswered: usize,
    is_broken: bool,
}

impl Session {
    /// Connects.
    pub async fn open(run: Rc<Run>, connection: u32) -> io::Result<Self> {
        let wire = Wire::open(&run.servers, run.auth.as_deref()).await?;
        Ok(Self { wire, slots: Slots::new(run.clone(), connection), run, unanswered: 0, is_broken: false })
    }

    /// Takes all locks of its places, or as many as it can before it is told to stop.
    pub async fn fill(mut self, stop: watch::Receiver<bool>) -> Self {
        let places = self.slots.places.len();
        for begin in (0..places).step_by(BULK) {
            if self.is_broken || *stop.borrow() {
                break;
            }
            let done = self.acquire(begin, places.min(begin + BULK)).await;
            self.note(done);
        }
        self
    }

    async fn acquire(&mut self, begin: usize, end: usize) -> io::Result<()> {
        let lease_s = self.run.plan.lease_s();
        for place in begin..end {
            let (owner, key) = (CLIENT_ID_BIT | place as u64, self.slots.name(place));
            Acquire { wait_s: 0, lease_s, owner, key }.encode(&mut self.wire.output);
        }
        let sent = Instant::now();
        self.wire.send().await?;
        self.unanswered = end - begin;
        while self.unanswered > 0 {
            self.wire.receive_soon().await?;
            while let Some(answer) = self.wire.answer()? {
                self.unanswered = self.unanswered.saturating_sub(1);
                let fault = match answer {
                    Answer::Acquired(frame) => {
                        let place = usize::try_from(frame.owner & !CLIENT_ID_BIT).unwrap_or(usize::MAX);
                        if (begin..end).contains(&place) {
                            let ends_ms = self.run.ms(sent + lease(frame.lease_s));
                            self.slots.places[place] = Place { token: frame.token, ends_ms };
                            continue;
                        }
                        Fault::Unexpected(format!("{answer:?}"))
                    }
                    Answer::Timeout(_) => Fault::NotFree,
                    Answer::Busy(frame) => Fault::Busy(frame.reason),
                    Answer::Error(frame) => Fault::Rejected(frame.code),
                    other => Fault::Unexpected(format!("{other:?}")),
                };
                self.run.tally.fault(&fault);
            }
        }
        Ok(())
    }

    /// How many locks it holds.
    pub fn held(&self) -> u64 {
        self.slots.places.iter().filter(|place| place.token != 0).count() as u64
    }

    /// Makes load until it is told to stop.
    pub async fn load(mut self, mut stop: watch::Receiver<bool>) -> Self {
        if !self.is_broken && !*stop.borrow() {
            let done = self.turns(&mut stop).await;
            self.note(done);
        }
        self
    }

    async fn turns(&mut self, stop: &mut watch::Receiver<bool>) -> io::Result<()> {
        loop {
            self.slots.ask(&mut self.wire.output);
            self.wire.send().await?;
            let due = self.slots.due();
            select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
                received = self.wire.receive() => received?,
                () = sleep_until(due.unwrap_or(self.run.begun).into()), if due.is_some() => {}
            }
            let now = self.take_answers()?;
            self.slots.wake(now);
        }
    }

    fn take_answers(&mut self) -> io::Result<Instant> {
        let now = Instant::now();
        while let Some(answer) = self.wire.answer()? {
            self.slots.answer(&answer, now);
        }
        Ok(now)
    }

    /// Gives back what it holds; how many locks it may have left.
    pub async fn close(mut self) -> u64 {
        if !self.is_broken {
            let done = self.give_back().await;
            self.note(done);
        }
        self.slots.left() + self.unanswered as u64
    }

    async fn give_back(&mut self) -> io::Result<()> {
        self.slots.stop(&mut self.wire.output);
        self.wire.send().await?;
        while self.slots.in_flight() > 0 {
            self.wire.receive_soon().await?;
            self.take_answers()?;
        }
        let places = self.slots.places.len();
        for begin in (0..places).step_by(BULK) {
            self.release(begin, places.min(begin + BULK)).await?;
        }
        Ok(())
    }

    async fn release(&mut self, begin: usize, end: usize) -> io::Result<()> {
        let mut owed = VecDeque::new();
        for place in begin..end {
            if self.slots.places[place].token != 0 {
                self.slots.release(place, Instant::now(), &mut self.wire.output);
                owed.push_back(place);
            }
        }
        self.wire.send().await?;
        while !owed.is_empty() {
            self.wire.receive_soon().await?;
            let now = Instant::now();
            while let Some(answer) = self.wire.answer()? {
                match (answer, owed.pop_front()) {
                    (Answer::Released(_), Some(place)) => self.slots.places[place].token = 0,
                    (Answer::NotHeld(_), Some(place)) => self.slots.lost(place, now),
                    (Answer::Error(frame), _) => self.run.tally.fault(&Fault::Rejected(frame.code)),
                    (other, _) => self.run.tally.fault(&Fault::Unexpected(format!("{other:?}"))),
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, done: io::Result<()>) {
        if let Err(error) = done {
            self.run.tally.fault(&Fault::Connection(error));
            self.is_broken = true;
        }
    }
}
