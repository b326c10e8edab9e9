//! Killed again and again at random moments, under load, on one directory.

use crate::load::{Client, Progress, Visit};
use crate::support::{Place, SECOND};
use lockstead_testkit::history::{History, Kept, Run, Said, judge_durability, judge_safety, judge_service};
use lockstead_testkit::journal::{self, Log};
use lockstead_testkit::rng::Rng;
use lockstead_testkit::{boottime, timing};
use std::fs;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const CLIENTS: u64 = 4;

/// How long a key may be free while somebody waits, on a machine that is busy with other tests.
const TOLERANCE: Duration = Duration::from_secs(2);

/// How long the middle one of all waiters may wait for a key that is free.
const PROMISED: Duration = Duration::from_millis(100);

/// docs/guarantees.md, mode `process`: over any number of kills no key is granted while an answered lease of any run
/// could still run, tokens rise, nothing answered is lost, and each lease ends at its true end.
#[test]
fn kill_9_in_a_loop() {
    let rounds = number("DURABILITY_ROUNDS").unwrap_or(50);
    kill_9("process", rounds as usize);
}

/// The same of mode `machine`, in which more waits for the disk.
#[test]
fn kill_9_in_a_loop_in_mode_machine() {
    kill_9("machine", 12);
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

fn kill_9(mode: &str, rounds: usize) {
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = number("DURABILITY_SEED").unwrap_or_else(clock);
    println!("{mode}: {rounds} kills; DURABILITY_SEED={seed}");
    let place = Place::new();
    let mut rng = Rng::new(seed);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|number| Client::new(number, seed)).collect();
    let mut history = History::default();
    let mut faults = Vec::new();
    let mut server_id = None;
    for round in 0..=rounds {
        let is_last = round == rounds;
        let spawned = boottime::now();
        let mut server = place.serve(mode).start();
        let address = server.address().clone();
        let progress = Progress::default();
        // Towards the end leases are short, so that they have ended when the last run waits for all of them.
        let longest_s = ((rounds - round) / 2).clamp(1, 20) as u8;
        let visit = Visit { address: &address, run: round, longest_s, progress: &progress };
        let mut ended = Duration::MAX;
        thread::scope(|scope| {
            let visit = &visit;
            let work = |client: &mut Client| if is_last { client.settle(visit) } else { client.work(visit) };
            let threads: Vec<_> =
                clients.iter_mut().map(|client| scope.spawn(move || work(client))).collect();
            if !is_last {
                await_moment(&mut rng, &progress);
                server.kill();
                ended = boottime::now();
            }
            history.calls.extend(threads.into_iter().flat_map(|thread| thread.join().unwrap()));
        });
        if is_last {
            server.kill();
            ended = boottime::now();
        }
        match journal::log(&place.data()) {
            Ok(log) => {
                faults.extend(log.faults());
                faults.extend(strange_run(&log, round, mode, &mut server_id));
                history.runs.push(Run { spawned, ended, kept: Kept::of(&log) });
            }
            Err(fault) => panic!("after kill {round}: {fault}; the directory is {}", place.keep().display()),
        }
    }
    faults.extend(judge(&history));
    if !faults.is_empty() {
        let some: Vec<String> = faults.iter().take(10).map(|fault| format!("- {fault}")).collect();
        let (count, kept) = (faults.len(), place.keep());
        panic!("{count} faults, DURABILITY_SEED={seed}, directory {}:\n{}", kept.display(), some.join("\n"));
    }
    was_worth_it(&history, rounds);
}

/// Soon after the start, in the middle of much, or at any time.
fn await_moment(rng: &mut Rng, progress: &Progress) {
    match rng.below(4) {
        0 => progress.wait(rng.below(40), SECOND),
        1 => progress.wait(rng.below(4_000), SECOND),
        _ => progress.wait(u64::MAX, Duration::from_millis(50 + rng.below(850))),
    }
}

/// Who wrote a log, against what is known of that run.
fn strange_run(log: &Log, round: usize, mode: &str, server_id: &mut Option<[u8; 16]>) -> Option<String> {
    let run = log.run();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let expected = if mode == "process" { journal::PROCESS } else { journal::MACHINE };
    let is_known = *server_id.get_or_insert(run.server_id) == run.server_id
        && run.number == round as u64 + 1
        && run.mode == expected
        && run.boot.starts_with(&format!("{}/", boot.trim()))
        && run.recovery_end_ms == 0;
    (!is_known).then(|| format!("the journal of run {} says {run:?}", round + 1))
}

fn judge(history: &History) -> Vec<String> {
    let mut faults = judge_safety(history);
    faults.extend(judge_durability(history));
    let mut service = judge_service(history, TOLERANCE);
    faults.append(&mut service.faults);
    service.late.sort_unstable();
    let late = service.late;
    let [median, p99, most] = [50.0, 99.0, 100.0].map(|percent| timing::percentile(&late, percent));
    println!("{} waiters were granted, late by median {median:?}, p99 {p99:?}, most {most:?}", late.len());
    if median > PROMISED {
        faults.push(format!("the middle waiter is served {median:?} late"));
    }
    faults
}

/// A run in which too little happened has judged nothing.
fn was_worth_it(history: &History, rounds: usize) {
    let count = |is: &dyn Fn(Said) -> bool| {
        history.calls.iter().filter_map(|call| call.said()).filter(|&said| is(said)).count()
    };
    let grants = count(&|said| matches!(said, Said::Granted { .. }));
    let extends = count(&|said| matches!(said, Said::Extended(_)));
    let releases = count(&|said| said == Said::Released);
    let restored = history.runs.iter().flat_map(|run| &run.kept.tenures).filter(|t| t.is_restored).count();
    let (calls, unheard) =
        (history.calls.len(), history.calls.iter().filter(|call| call.reply.is_none()).count());
    println!(
        "{calls} requests, {unheard} without an answer; {grants} grants, {extends} extends, {releases} releases; \
         {restored} leases were restored"
    );
    for (what, count) in [("grants", grants), ("extends", extends), ("releases", releases)] {
        assert!(count > 10 * rounds, "only {count} {what}");
    }
    assert!(unheard > rounds, "only {unheard} requests were cut off");
    assert!(restored > 5 * rounds, "only {restored} leases were restored");
}
