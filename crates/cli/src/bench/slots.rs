//! What a connection asks for next: one slot for each request in flight, each a small state machine.
//!
//! A slot stands at a place, which has a key of its own (contended keys have several places). A place that is not held
//! is acquired; one that is held is released, or with [`Workload::KeepAlive`] extended. Then the slot moves on to its
//! next place. The workloads differ in nothing but this, the length of waits and leases, and who shares keys.

use std::collections::VecDeque;
use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lockstead_proto::{Acquire, Acquired, Answer, CLIENT_ID_BIT, Cancel, Extend, Release};

use super::Run;
use super::tally::{Fault, Operation};
use crate::args::Workload;

/// A key with what is known of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// The token that holds it; 0 if none does.
    pub token: u64,
    /// Until when it surely does, in milliseconds of the run.
    pub ends_ms: u32,
}

/// What a slot waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Nothing,
    Acquire,
    Release,
    Extend,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    place: usize,
    asked: Asked,
    sent: Instant,
}

/// All slots of a connection.
pub struct Slots {
    run: Rc<Run>,
    /// The number of the first place's key.
    first: u64,
    pub places: Vec<Place>,
    slots: Vec<Slot>,
    /// Slots that are to ask.
    ready: Vec<usize>,
    /// Slots that hold their lock for a while, the first to release it in front.
    holding: VecDeque<(Instant, usize)>,
    /// Slots that wait for the answers of releases and extends, which come in order.
    owed: VecDeque<usize>,
    in_flight: usize,
    is_stopping: bool,
    /// The key's name of the moment.
    name: String,
}

impl Slots {
    /// The slots of a connection, before anything is asked.
    pub fn new(run: Rc<Run>, connection: u32) -> Self {
        let share = run.plan.share(connection);
        let pipeline = run.plan.pipeline as usize;
        let idle = |place| Slot { place, asked: Asked::Nothing, sent: run.begun };
        Self {
            first: share.start,
            places: vec![Place::default(); (share.end - share.start) as usize],
            slots: (0..pipeline).map(idle).collect(),
            ready: (0..pipeline).collect(),
            holding: VecDeque::new(),
            owed: VecDeque::new(),
            in_flight: 0,
            is_stopping: false,
            name: String::new(),
            run,
        }
    }

    /// How many requests are not answered yet.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many locks there may be that were not given back and whose leases last.
    pub fn left(&self) -> u64 {
        let now_ms = self.run.ms(Instant::now());
        let held = self.places.iter().filter(|place| place.token != 0 && place.ends_ms > now_ms).count();
        let asked = self.slots.iter().filter(|slot| slot.asked == Asked::Acquire).count();
        (held + asked) as u64
    }

    /// Appends the next request of each slot that is ready.
    pub fn ask(&mut self, out: &mut Vec<u8>) {
        let now = Instant::now();
        let mut ready = mem::take(&mut self.ready);
        for slot in ready.drain(..) {
            self.ask_one(slot, now, out);
        }
        self.ready = ready;
    }

    fn ask_one(&mut self, index: usize, now: Instant, out: &mut Vec<u8>) {
        let place = self.slots[index].place;
        let (wait_s, lease_s) = (self.run.plan.wait_s(), self.run.plan.lease_s());
        let asked = match (self.places[place].token, self.run.plan.workload) {
            (0, _) => {
                let owner = CLIENT_ID_BIT | index as u64;
                Acquire { wait_s, lease_s, owner, key: self.name(place) }.encode(out);
                Asked::Acquire
            }
            (token, Workload::KeepAlive) => {
                Extend { lease_s, token, key: self.name(place) }.encode(out);
                Asked::Extend
            }
            _ => {
                self.release(place, now, out);
                Asked::Release
            }
        };
        if asked != Asked::Acquire {
            self.owed.push_back(index);
        }
        let slot = &mut self.slots[index];
        (slot.asked, slot.sent) = (asked, now);
        self.in_flight += 1;
    }

    /// Appends the release of a place that is held.
    pub fn release(&mut self, place: usize, now: Instant, out: &mut Vec<u8>) {
        if self.run.plan.is_contended() {
            self.run.contended.borrow_mut().released(self.number(place), now);
        }
        let token = self.places[place].token;
        Release { token, key: self.name(place) }.encode(out);
    }

    /// When the next slot has held its lock long enough.
    pub fn due(&self) -> Option<Instant> {
        self.holding.front().map(|(due, _)| *due)
    }

    /// Slots that have held their lock long enough are to release it.
    pub fn wake(&mut self, now: Instant) {
        while let Some((_, slot)) = self.holding.pop_front_if(|(due, _)| *due <= now) {
            self.ready.push(slot);
        }
    }

    /// From now on nobody asks for more. Appends a cancel for each attempt that may wait.
    pub fn stop(&mut self, out: &mut Vec<u8>) {
        self.is_stopping = true;
        self.ready.clear();
        self.holding.clear();
        if self.run.plan.wait_s() == 0 {
            return;
        }
        for index in 0..self.slots.len() {
            if self.slots[index].asked == Asked::Acquire {
                let place = self.slots[index].place;
                Cancel { owner: CLIENT_ID_BIT | index as u64, key: self.name(place) }.encode(out);
            }
        }
    }

    /// Takes one answer, which was read at `now`.
    pub fn answer(&mut self, answer: &Answer<'_>, now: Instant) {
        match answer {
            Answer::Acquired(frame) => self.granted(frame, now),
            Answer::Timeout(frame) => self.timed_out(frame.owner, now, answer),
            Answer::Busy(frame) => self.refused(frame.owner, &Fault::Busy(frame.reason), answer),
            Answer::Error(frame) => self.refused(frame.id, &Fault::Rejected(frame.code), answer),
            Answer::Released(frame) => {
                if let Some(index) = self.answered(frame.token, Asked::Release, answer) {
                    self.places[self.slots[index].place].token = 0;
                    self.run.tally.record(Operation::Release, now - self.slots[index].sent);
                    self.go_on(index, self.run.plan.workload == Workload::Pairs);
                }
            }
            Answer::Extended(frame) => {
                if let Some(index) = self.answered(frame.token, Asked::Extend, answer) {
                    let Slot { place, sent, .. } = self.slots[index];
                    self.places[place].ends_ms = self.run.ms(sent + lease(frame.lease_s));
                    self.run.tally.record(Operation::Extend, now - sent);
                    self.go_on(index, true);
                }
            }
            Answer::NotHeld(frame) => {
                if let Some(index) = self.owed.front().copied() {
                    let asked = self.slots[index].asked;
                    if self.answered(frame.token, asked, answer).is_some() {
                        self.lost(self.slots[index].place, now);
                        self.go_on(index, false);
                    }
                } else {
                    self.unexpected(answer);
                }
            }
            _ => self.unexpected(answer),
        }
    }

    fn granted(&mut self, frame: &Acquired, now: Instant) {
        let Some(index) = self.acquirer(frame.owner) else {
            return self.unexpected(&Answer::Acquired(*frame));
        };
        let Slot { place, sent, .. } = self.slots[index];
        let until = sent + Duration::from_millis(frame.waited_ms.into()) + lease(frame.lease_s);
        self.places[place] = Place { token: frame.token, ends_ms: self.run.ms(until) };
        let run = &self.run;
        if run.plan.is_contended() {
            let grant = run.contended.borrow_mut().granted(self.number(place), sent, now, until);
            if grant.is_second {
                run.tally.fault(&Fault::TwoHolders);
            }
            if let Some(took) = grant.handed_off {
                run.tally.record(Operation::HandOff, took);
            }
        } else {
            run.tally.record(Operation::Acquire, now - sent);
        }
        match run.plan.hold() {
            Some(_) if self.is_stopping => {}
            Some(hold) => self.holding.push_back((now + hold, index)),
            None => self.go_on(index, self.run.plan.workload == Workload::Keys),
        }
    }

    fn timed_out(&mut self, owner: u64, now: Instant, answer: &Answer<'_>) {
        let Some(index) = self.acquirer(owner) else { return self.unexpected(answer) };
        let tally = &self.run.tally;
        let wait = Duration::from_secs(self.run.plan.wait_s().into());
        match (now - self.slots[index].sent).checked_sub(wait) {
            _ if self.is_stopping && !wait.is_zero() => {} // it was cancelled
            _ if self.run.plan.workload != Workload::Wait => tally.fault(&Fault::NotFree),
            None => tally.fault(&Fault::EarlyTimeout),
            Some(late) => tally.record(Operation::Timeout, late),
        }
        self.go_on(index, false);
    }

    /// A request was not done. `id` is the owner of an acquire or the token of another request.
    fn refused(&mut self, id: u64, fault: &Fault, answer: &Answer<'_>) {
        let index = match self.owed.front().copied() {
            _ if id & CLIENT_ID_BIT != 0 => self.acquirer(id),
            Some(index) => self.answered(id, self.slots[index].asked, answer),
            None => None,
        };
        self.run.tally.fault(fault);
        if let Some(index) = index {
            self.go_on(index, false);
        }
    }

    /// The server says that a place's token no longer holds.
    pub fn lost(&mut self, place: usize, now: Instant) {
        let place = &mut self.places[place];
        place.token = 0;
        if self.run.ms(now) < place.ends_ms {
            self.run.tally.fault(&Fault::NotHeld);
        } else {
            self.run.tally.lease_ended();
        }
    }

    /// The slot whose acquire has this owner; it is answered with this.
    fn acquirer(&mut self, owner: u64) -> Option<usize> {
        let index = usize::try_from(owner.checked_sub(CLIENT_ID_BIT)?).ok()?;
        let slot = self.slots.get_mut(index).filter(|slot| slot.asked == Asked::Acquire)?;
        slot.asked = Asked::Nothing;
        self.in_flight -= 1;
        Some(index)
    }

    /// The slot that is owed the next answer in order, if this can be that answer.
    fn answered(&mut self, token: u64, asked: Asked, answer: &Answer<'_>) -> Option<usize> {
        let index = self.owed.pop_front_if(|index| {
            let slot = &self.slots[*index];
            slot.asked == asked && self.places[slot.place].token == token
        });
        match index {
            Some(index) => {
                self.slots[index].asked = Asked::Nothing;
                self.in_flight -= 1;
            }
            None => self.unexpected(answer),
        }
        index
    }

    fn unexpected(&self, answer: &Answer<'_>) {
        self.run.tally.fault(&Fault::Unexpected(format!("{answer:?}")));
    }

    /// The slot asks again, from its next place if it moves.
    fn go_on(&mut self, index: usize, moves: bool) {
        if moves {
            // Each slot has every so-manieth place, so no two meet.
            let next = self.slots[index].place + self.slots.len();
            self.slots[index].place = if next < self.places.len() { next } else { index };
        }
        if !self.is_stopping {
            self.ready.push(index);
        }
    }

    /// The number of a place's key.
    fn number(&self, place: usize) -> u64 {
        let number = self.first + place as u64;
        if self.run.plan.is_contended() { number % u64::from(self.run.plan.keys) } else { number }
    }

    /// The name of a place's key.
    pub fn name(&mut self, place: usize) -> &str {
        let number = self.number(place);
        self.run.plan.names.write(number, &mut self.name);
        &self.name
    }
}

/// The time that a lease of the wire lasts.
pub fn lease(lease_s: u8) -> Duration {
    Duration::from_secs(lease_s.into())
}

#[cfg(test)]
mod tests;
