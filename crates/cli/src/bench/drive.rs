//! The phases of a run, its clock and its signals.

use std::future::pending;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::Signal;
use tokio::select;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep_until};

use super::Run;
use super::live::Live;
use super::session::Session;
use crate::run::signals::Signals;

/// What a whole run took.
pub struct Measured {
    /// How long load was made.
    pub took: Duration,
    /// How many locks were taken before, and how long that took.
    pub filled: Option<(u64, Duration)>,
    /// Whether a signal ended it early.
    pub is_interrupted: bool,
    /// How many locks may still be held, until their leases end.
    pub left_held: u64,
}

/// How a run ended.
pub enum End {
    /// With a result.
    Measured(Measured),
    /// A connection could not be opened.
    Unreached(io::Error),
    /// It was told to stop a second time.
    Killed(Signal),
}

/// Conducts a run.
pub struct Drive {
    run: Rc<Run>,
    signals: Signals,
    stop: watch::Sender<bool>,
    is_interrupted: bool,
    live: Live,
}

impl Drive {
    /// From here on a signal does not end the program by itself.
    pub fn new(run: Rc<Run>) -> anyhow::Result<Self> {
        Ok(Self {
            run,
            signals: Signals::interrupts().context("cannot listen to signals")?,
            stop: watch::Sender::new(false),
            is_interrupted: false,
            live: Live::new(),
        })
    }

    /// Opens the connections, fills the table if the workload wants that, makes load, and gives everything back.
    pub async fn run(&mut self) -> End {
        let end = match self.open().await {
            Ok(sessions) => self.measure(sessions).await.unwrap_or_else(End::Killed),
            Err(end) => end,
        };
        self.live.clear();
        end
    }

    async fn open(&mut self) -> Result<Vec<Session>, End> {
        let opening = async {
            let mut sessions = Vec::new();
            for connection in 0..self.run.plan.connections {
                sessions.push(Session::open(self.run.clone(), connection).await?);
            }
            Ok(sessions)
        };
        select! {
            opened = opening => opened.map_err(End::Unreached),
            signal = self.signals.recv() => Err(End::Killed(signal)),
        }
    }

    async fn measure(&mut self, mut sessions: Vec<Session>) -> Result<End, Signal> {
        let mut filled = None;
        if self.run.plan.fills() {
            let begun = Instant::now();
            let stop = &self.stop;
            let filling = begin(sessions.into_iter().map(|session| session.fill(stop.subscribe())));
            sessions = self.all("takes locks", filling, None).await?;
            let held = sessions.iter().map(Session::held).sum();
            filled = Some((held, begun.elapsed()));
        }

        let begun = Instant::now();
        self.run.tally.set_open(!self.is_interrupted);
        let stop = &self.stop;
        let loading = begin(sessions.into_iter().map(|session| session.load(stop.subscribe())));
        // A duration that no clock can tell is endless.
        let until = begun.checked_add(self.run.plan.duration);
        let sessions = self.all("measures", loading, until).await?;
        let took = begun.elapsed();
        self.run.tally.set_open(false);

        let closing = begin(sessions.into_iter().map(Session::close));
        let left_held = self.all("gives locks back", closing, None).await?.into_iter().sum();
        Ok(End::Measured(Measured { took, filled, is_interrupted: self.is_interrupted, left_held }))
    }

    /// Waits for all tasks, which are told to stop when the time is up or a signal comes. The second signal is an
    /// error.
    async fn all<T: 'static>(
        &mut self,
        doing: &str,
        mut tasks: JoinSet<T>,
        until: Option<Instant>,
    ) -> Result<Vec<T>, Signal> {
        let mut done = Vec::new();
        let mut tick = interval(Live::PERIOD);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let time_is_up = async {
            match until {
                Some(until) => sleep_until(until.into()).await,
                None => pending().await,
            }
        };
        tokio::pin!(time_is_up);
        let mut is_up = false;
        loop {
            select! {
                joined = tasks.join_next() => match joined {
                    Some(result) => done.push(result.expect("no task panics or is aborted")),
                    None => return Ok(done),
                },
                () = &mut time_is_up, if !is_up => {
                    is_up = true;
                    self.stop.send_replace(true);
                }
                signal = self.signals.recv() => {
                    if self.is_interrupted {
                        return Err(signal);
                    }
                    self.is_interrupted = true;
                    self.stop.send_replace(true);
                }
                _ = tick.tick() => self.live.show(doing, &self.run.tally),
            }
        }
    }
}

/// Each of these in a task of its own, on this thread.
fn begin<T: 'static>(doing: impl Iterator<Item = impl Future<Output = T> + 'static>) -> JoinSet<T> {
    let mut tasks = JoinSet::new();
    for future in doing {
        tasks.spawn_local(future);
    }
    tasks
}
