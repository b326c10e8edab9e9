//! Clients that keep a server busy until it is killed, and write down what they see.

use lockstead_testkit::Address;
use lockstead_testkit::history::{Call, Heard, Recorder, Request, Said};
use lockstead_testkit::rng::Rng;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// Keys that all clients want.
const HOT: u64 = 12;
/// Keys of one client alone.
const OWN: u64 = 40;
/// Requests without an answer at one time.
const MOST_OPEN: usize = 40;
/// Above so many, no more is asked that waits.
const MOST_WAITING: usize = 16;
/// Requests of one client in one run.
const MOST_ASKED: usize = 1_500;
/// Tokens that a client remembers.
const MOST_TICKETS: usize = 100;

/// How many answers have come, for whoever waits for them.
#[derive(Default)]
pub struct Progress {
    answers: Mutex<u64>,
    more: Condvar,
}

impl Progress {
    fn add(&self) {
        *self.answers.lock().unwrap() += 1;
        self.more.notify_all();
    }

    /// Waits until so many answers have come, at most until the time is over.
    pub fn wait(&self, count: u64, at_most: Duration) {
        let answers = self.answers.lock().unwrap();
        drop(self.more.wait_timeout_while(answers, at_most, |answers| *answers < count).unwrap());
    }
}

/// One client; it remembers its tokens over restarts of the server.
pub struct Client {
    number: u64,
    rng: Rng,
    tickets: Vec<(String, u64)>,
}

/// One run of the server, as a client sees it.
pub struct Visit<'a> {
    pub address: &'a Address,
    pub run: usize,
    /// The longest lease to ask for, in seconds.
    pub longest_s: u8,
    pub progress: &'a Progress,
}

impl Client {
    pub fn new(number: u64, seed: u64) -> Self {
        Self { number, rng: Rng::new(seed.wrapping_add(number << 40)), tickets: Vec::new() }
    }

    fn connect(&self, visit: &Visit<'_>) -> Option<Recorder> {
        Recorder::connect(visit.address, visit.run, self.number)
    }

    /// Asks this and that until the server is gone.
    pub fn work(&mut self, visit: &Visit<'_>) -> Vec<Call> {
        let mut calls = Vec::new();
        let Some(mut recorder) = self.connect(visit) else { return calls };
        // Some come in a storm, some take their time.
        let pace = Duration::from_millis(self.rng.below(3));
        loop {
            let may_ask = recorder.asked() < MOST_ASKED && recorder.open() < MOST_OPEN;
            if may_ask {
                for _ in 0..=self.rng.below(8) {
                    let (key, request) = self.choose(visit.longest_s, recorder.open() < MOST_WAITING);
                    recorder.ask(&key, request);
                }
                // If the server is gone, its end is heard below.
                recorder.send();
            }
            let patience = if may_ask { pace } else { Duration::from_millis(100) };
            if !self.listen(&mut recorder, patience, visit.progress) {
                calls.extend(recorder.finish());
                return calls;
            }
            if self.rng.below(300) == 0 {
                calls.extend(recorder.leave());
                match self.connect(visit) {
                    Some(next) => recorder = next,
                    None => return calls,
                }
            }
        }
    }

    /// Releases everything it knows and waits for every key that all want, until all is answered.
    pub fn settle(&mut self, visit: &Visit<'_>) -> Vec<Call> {
        let mut recorder =
            self.connect(visit).expect("the last run is not killed before its clients have ended");
        for (key, token) in std::mem::take(&mut self.tickets) {
            recorder.ask(&key, Request::Release { token });
        }
        for key in 0..HOT {
            recorder.ask(&hot(key), Request::Acquire { wait_s: 30, lease_s: 1 });
        }
        assert!(recorder.send(), "the last run takes all requests");
        let begun = Instant::now();
        while recorder.open() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} calls have no answer", recorder.open());
            assert!(self.listen(&mut recorder, Duration::from_secs(1), visit.progress), "the server is gone");
            for (key, token) in std::mem::take(&mut self.tickets) {
                recorder.ask(&key, Request::Release { token });
            }
            recorder.send();
        }
        recorder.finish()
    }

    /// Hears what there is, waiting so long for the first answer. False when the connection has ended.
    fn listen(&mut self, recorder: &mut Recorder, patience: Duration, progress: &Progress) -> bool {
        let mut within = patience;
        loop {
            match recorder.next(within) {
                Heard::Answer(index) => {
                    let call = recorder.call(index);
                    if let Some(Said::Granted { token, .. }) = call.said() {
                        self.tickets.push((call.key.clone(), token));
                        if self.tickets.len() > MOST_TICKETS {
                            let forgotten = self.rng.below(MOST_TICKETS as u64) as usize;
                            self.tickets.swap_remove(forgotten);
                        }
                    }
                    progress.add();
                    within = Duration::ZERO;
                }
                Heard::Nothing => return true,
                Heard::End => return false,
            }
        }
    }

    fn choose(&mut self, longest_s: u8, may_wait: bool) -> (String, Request) {
        match self.rng.below(20) {
            // Some releases are sent again later, and some tokens are never let go.
            0..=5 if !self.tickets.is_empty() => {
                let at = self.rng.below(self.tickets.len() as u64) as usize;
                let again = self.rng.below(10) == 0;
                let (key, token) =
                    if again { self.tickets[at].clone() } else { self.tickets.swap_remove(at) };
                (key, Request::Release { token })
            }
            6..=9 if !self.tickets.is_empty() => {
                let at = self.rng.below(self.tickets.len() as u64) as usize;
                let (key, token) = self.tickets[at].clone();
                (key, Request::Extend { token, lease_s: self.lease_s(longest_s) })
            }
            10 => (self.key(), Request::Query),
            11..=14 if may_wait => {
                let wait_s = 1 + self.rng.below(4) as u8;
                (hot(self.rng.below(HOT)), Request::Acquire { wait_s, lease_s: self.lease_s(longest_s) })
            }
            _ => (self.key(), Request::Acquire { wait_s: 0, lease_s: self.lease_s(longest_s) }),
        }
    }

    fn key(&mut self) -> String {
        match self.rng.below(3) {
            0 => hot(self.rng.below(HOT)),
            _ => format!("own/{}/{}", self.number, self.rng.below(OWN)),
        }
    }

    /// Mostly short, so that many end while others wait.
    fn lease_s(&mut self, longest_s: u8) -> u8 {
        let lease_s = match self.rng.below(10) {
            0..=6 => 1 + self.rng.below(2),
            7 | 8 => 3 + self.rng.below(3),
            _ => 6 + self.rng.below(15),
        };
        (lease_s as u8).min(longest_s)
    }
}

fn hot(number: u64) -> String {
    format!("hot/{number}")
}
