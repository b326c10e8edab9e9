//! Runs scenarios (docs/scenarios.md) against this client.
#![allow(dead_code)] // each test program uses its own part of it

mod calls;
mod program;
mod steadiness;

use lockstead_testkit::peer::{Peer, Verdict};
use lockstead_testkit::scenario::Scenario;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use steadiness::Steadiness;

/// A machine that lets no thread wait for longer than this keeps time.
const STEADY: Duration = Duration::from_millis(25);

/// How often a scenario is tried on a machine that does not keep time.
const MOST_TRIES: usize = 6;

/// Plays both sides of a scenario; says what was wrong.
pub fn run(scenario: &Scenario) -> Result<(), String> {
    let (played, verdict) = play(scenario)?;
    let faults: Vec<String> = played
        .err()
        .into_iter()
        .map(|fault| format!("program: {fault}"))
        .chain(verdict.faults.iter().map(|fault| format!("peer: {fault}")))
        .collect();
    if faults.is_empty() {
        return Ok(());
    }
    Err(format!("{}\n{}\n{}", scenario.name, faults.join("\n"), verdict.log.join("\n")))
}

/// Plays both sides: what the program found wrong, and what the peer saw.
pub fn play(scenario: &Scenario) -> Result<(Result<(), String>, Verdict), String> {
    let peer =
        Peer::play(&scenario.servers, scenario.peer.clone()).map_err(|error| format!("peer: {error}"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("runtime: {error}"))?;
    Ok(runtime.block_on(async {
        let played = program::play(scenario, &peer).await;
        // The client's task must go on while its connections are watched to their end.
        let verdict = tokio::task::spawn_blocking(|| peer.finish()).await;
        (played, verdict.expect("the peer does not panic"))
    }))
}

/// Runs many scenarios, some at a time; gives the faults, and prints how long each took that was slow.
pub fn run_all(scenarios: &[Scenario], at_a_time: usize) -> Vec<String> {
    judge_all(scenarios, at_a_time, run)
}

/// The same with another judge.
pub fn judge_all(
    scenarios: &[Scenario],
    at_a_time: usize,
    judge: impl Fn(&Scenario) -> Result<(), String> + Sync,
) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let faults = Mutex::new(Vec::new());
    let steadiness = Steadiness::watch();
    std::thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(fault) = try_again(scenario, &steadiness, &judge) {
                        faults.lock().expect("no thread panics with the lock").push(fault);
                    }
                }
            });
        }
    });
    faults.into_inner().expect("no thread panics with the lock")
}

/// A fault counts only if the machine kept time meanwhile: scenarios are about tens of milliseconds, and a machine that
/// lets a thread wait for longer says nothing about the client. On a steady machine the first fault is the last.
fn try_again(
    scenario: &Scenario,
    steadiness: &Steadiness,
    judge: impl Fn(&Scenario) -> Result<(), String>,
) -> Result<(), String> {
    for _ in 0..MOST_TRIES {
        let began = Instant::now();
        let result = judge(scenario);
        if began.elapsed() > Duration::from_secs(6) {
            println!("{} took {:?}", scenario.name, began.elapsed());
        }
        let lateness = steadiness.worst_since(began);
        if result.is_ok() || lateness < STEADY {
            return result;
        }
        println!("{} once more: a thread was {lateness:?} late", scenario.name);
    }
    Err(format!("{}: the machine is too busy to tell", scenario.name))
}
