//! The judges' own canaries: histories that no server may produce, each with one planted fault, beside the same
//! histories without it.

use super::*;
use crate::journal::Tenure;

const LIMIT: Duration = Duration::from_millis(500);

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A history of runs of ten seconds with nothing in between.
fn runs(count: u64) -> History {
    let run = |n: u64| Run {
        spawned: at(10_000 * n),
        ended: at(10_000 * (n + 1)),
        kept: Kept { begun_ms: 10_000 * n + 1, tenures: Vec::new() },
    };
    History { runs: (0..count).map(run).collect(), calls: Vec::new() }
}

impl History {
    /// A request about the key `k` and its answer, with when they were sent and read.
    fn call(&mut self, times: (u64, u64), request: Request, said: Said) -> &mut Self {
        let reply = Some(Reply { said, at: at(times.1) });
        self.push(times.0, request, reply)
    }

    fn unanswered(&mut self, sent: u64, request: Request) -> &mut Self {
        self.push(sent, request, None)
    }

    fn push(&mut self, sent: u64, request: Request, reply: Option<Reply>) -> &mut Self {
        let run = (sent / 10_000) as usize;
        self.calls.push(Call { run, key: "k".to_owned(), request, sent: at(sent), reply, left: None });
        self
    }

    /// A grant with a lease of 5 s.
    fn grant(&mut self, times: (u64, u64), token: u64) -> &mut Self {
        let request = Request::Acquire { wait_s: 0, lease_s: 5 };
        self.call(times, request, Said::Granted { token, lease_s: 5, waited_ms: 0 })
    }

    /// What a run's journal says of a token.
    fn tenure(&mut self, run: usize, tenure: Tenure) -> &mut Self {
        self.runs[run].kept.tenures.push(tenure);
        self
    }

    fn service(&self) -> Vec<String> {
        judge_service(self, LIMIT).faults
    }
}

fn tenure(token: u64, from_ms: u64, end_ms: u64) -> Tenure {
    let key = "k".to_owned();
    Tenure { key, token, from_ms, first_end_ms: end_ms, end_ms, over_ms: None, is_restored: false }
}

fn restored(token: u64, from_ms: u64, end_ms: u64) -> Tenure {
    Tenure { is_restored: true, ..tenure(token, from_ms, end_ms) }
}

/// Exactly one fault, of this kind.
fn found(faults: &[String], kind: &str) {
    assert!(faults.len() == 1 && faults[0].contains(kind), "`{kind}` expected, found {faults:#?}");
}

fn nothing(faults: &[String]) {
    assert!(faults.is_empty(), "{faults:#?}");
}

const WAIT: Request = Request::Acquire { wait_s: 9, lease_s: 5 };
const TRY: Request = Request::Acquire { wait_s: 0, lease_s: 5 };

const fn release(token: u64) -> Request {
    Request::Release { token }
}

const fn extend(token: u64) -> Request {
    Request::Extend { token, lease_s: 5 }
}

#[test]
fn a_key_that_is_granted_twice_is_found() {
    nothing(&judge_safety(runs(1).grant((100, 110), 1).grant((5_200, 5_210), 2)));
    found(&judge_safety(runs(1).grant((100, 110), 1).grant((5_000, 5_090), 2)), "granted twice");
    // An extend that was answered, and a release that was not, move what is sure.
    let mut extended = runs(1);
    extended.grant((100, 110), 1).call((3_000, 3_010), extend(1), Said::Extended(5));
    found(&judge_safety(extended.grant((7_900, 7_910), 2)), "granted twice");
    let mut released = runs(1);
    released.grant((100, 110), 1).unanswered(200, release(1));
    nothing(&judge_safety(released.grant((300, 310), 2)));
    // Over a restart.
    found(&judge_safety(runs(2).grant((9_000, 9_010), 1).grant((10_100, 10_110), 2)), "granted twice");
}

#[test]
fn a_key_that_is_granted_although_a_grant_that_nobody_heard_of_goes_on_is_found() {
    let mut history = runs(2);
    history.unanswered(9_000, TRY).tenure(0, tenure(1, 9_000, 14_001));
    found(&judge_safety(history.grant((13_900, 13_950), 2)), "granted twice");
    history.calls.pop();
    nothing(&judge_safety(history.grant((13_990, 14_010), 2)));
}

#[test]
fn tokens_that_are_repeated_or_fall_are_found() {
    let mut history = runs(2);
    history.grant((100, 110), 7).grant((10_100, 10_110), 7);
    found(&judge_safety(&history), "given twice");
    let mut history = runs(2);
    history.grant((100, 110), 7).grant((10_100, 10_110), 6);
    history.calls[1].key = "another".to_owned();
    found(&judge_safety(&history), "tokens fell");
    // At the same time they may come in either order.
    let mut history = runs(1);
    history.grant((100, 200), 7).grant((150, 160), 6);
    history.calls[1].key = "another".to_owned();
    nothing(&judge_safety(&history));
}

#[test]
fn a_grant_that_is_lost_is_found() {
    for request in [release(1), extend(1)] {
        let mut history = runs(2);
        history.grant((9_000, 9_010), 1);
        found(&judge_safety(history.call((10_100, 10_110), request, Said::NotHeld)), "lost");
        history.calls.pop();
        nothing(&judge_safety(history.call((13_990, 14_010), request, Said::NotHeld)));
        history.calls.pop();
        // Somebody may have released it.
        history.unanswered(9_900, release(1));
        nothing(&judge_safety(history.call((10_100, 10_110), request, Said::NotHeld)));
    }
    let mut history = runs(2);
    history.grant((9_000, 9_010), 1).call((10_100, 10_110), Request::Query, Said::State(0));
    found(&judge_safety(&history), "called free");
}

#[test]
fn a_token_that_outlives_its_lease_or_its_release_is_found() {
    let mut history = runs(2);
    history.grant((9_000, 9_010), 1).call((14_050, 14_060), extend(1), Said::Extended(5));
    found(&judge_safety(&history), "outlived");
    history.unanswered(9_900, extend(1));
    nothing(&judge_safety(&history));
    let mut history = runs(2);
    history.grant((9_000, 9_010), 1).call((9_100, 9_110), release(1), Said::Released);
    history.call((9_200, 9_210), extend(1), Said::Extended(5));
    found(&judge_safety(&history), "outlived");
    history.calls.pop();
    // A run that was killed may have forgotten the release.
    nothing(&judge_safety(history.call((10_200, 10_210), extend(1), Said::Extended(5))));
}

#[test]
fn answers_that_are_wrong_by_themselves_are_found() {
    found(&judge_safety(runs(1).call((0, 8_900), WAIT, Said::TimedOut)), "cut short");
    nothing(&judge_safety(runs(1).call((0, 9_001), WAIT, Said::TimedOut)));
    let overstated = Said::Granted { token: 1, lease_s: 5, waited_ms: 20 };
    found(&judge_safety(runs(1).call((0, 10), WAIT, overstated)), "overstated");
    let longer = Said::Granted { token: 1, lease_s: 6, waited_ms: 0 };
    found(&judge_safety(runs(1).call((0, 10), WAIT, longer)), "another lease");
    for said in [Said::Busy(6), Said::Refused(10)] {
        found(&judge_safety(runs(1).call((0, 10), WAIT, said)), "does not belong here");
    }
    found(&judge_safety(runs(1).call((0, 10), Request::Query, Said::State(2))), "does not belong here");
}

#[test]
fn a_waiter_that_is_left_waiting_is_found() {
    let late = |heard: u64| {
        let mut history = runs(1);
        history.tenure(0, tenure(1, 100, 5_101)).tenure(0, tenure(2, 5_101, 9_999));
        history.call((200, heard), WAIT, Said::Granted { token: 2, lease_s: 5, waited_ms: 4_900 });
        judge_service(&history, LIMIT)
    };
    nothing(&late(5_150).faults);
    assert_eq!(late(5_152).late, [at(50)]);
    found(&late(5_700).faults, "not served");
    // One that nobody ever answers is found, too, and one that is sent away.
    let mut history = runs(1);
    history.tenure(0, tenure(1, 100, 5_101)).unanswered(200, WAIT);
    found(&history.service(), "not served");
    history.calls[0].left = Some(at(5_200));
    nothing(&history.service());
    let mut history = runs(1);
    history.tenure(0, tenure(1, 100, 5_101)).call((200, 9_201), WAIT, Said::TimedOut);
    found(&history.service(), "not served");
}

#[test]
fn a_lease_that_is_restored_with_a_later_end_is_found() {
    // The journal says that the key is free from 12,000 on.
    let mut history = runs(2);
    history.tenure(1, restored(1, 10_001, 12_000)).call((10_100, 19_101), WAIT, Said::TimedOut);
    found(&history.service(), "not served");
}

#[test]
fn a_try_that_is_refused_although_nobody_holds_the_key_is_found() {
    let mut history = runs(1);
    history.tenure(0, tenure(1, 100, 5_101)).call((5_200, 5_210), TRY, Said::TimedOut);
    found(&history.service(), "nobody held");
    history.unanswered(5_150, TRY);
    nothing(&history.service());
    let mut history = runs(1);
    history.tenure(0, tenure(1, 100, 5_101)).call((5_100, 5_110), TRY, Said::TimedOut);
    nothing(&history.service());
}

#[test]
fn an_answer_that_the_journal_does_not_know_is_found() {
    let history = |tenure: Option<Tenure>| {
        let mut history = runs(1);
        history.grant((9_000, 9_010), 1).call((9_100, 9_110), extend(1), Said::Extended(5));
        history.runs[0].kept.tenures.extend(tenure);
        judge_durability(&history)
    };
    let good = Tenure { end_ms: 14_105, ..tenure(1, 9_004, 14_005) };
    nothing(&history(Some(good.clone())));
    found(&history(None), "lacks");
    found(&history(Some(Tenure { key: "another".to_owned(), ..good.clone() })), "lacks");
    found(&history(Some(Tenure { first_end_ms: 13_999, ..good.clone() })), "does not end between");
    found(&history(Some(Tenure { first_end_ms: 14_013, ..good.clone() })), "does not end between");
    found(&history(Some(Tenure { end_ms: 14_005, ..good.clone() })), "another end");
    found(&history(Some(Tenure { end_ms: 14_200, ..good.clone() })), "another end");
    found(&history(Some(Tenure { over_ms: Some(9_500), ..good })), "given up");
}

#[test]
fn a_release_that_is_forgotten_although_a_later_grant_was_kept_is_found() {
    let mut history = runs(1);
    history.grant((1_000, 1_010), 1).call((1_100, 1_110), release(1), Said::Released);
    history.tenure(0, tenure(1, 1_004, 6_005));
    nothing(&judge_durability(&history));
    history.grant((1_200, 1_210), 2).tenure(0, Tenure { key: "l".to_owned(), ..tenure(2, 1_204, 6_205) });
    history.calls[2].key = "l".to_owned();
    found(&judge_durability(&history), "forgotten");
    history.runs[0].kept.tenures[0].over_ms = Some(1_105);
    nothing(&judge_durability(&history));
}

#[test]
fn a_start_that_goes_on_with_something_else_is_found() {
    let history = |restored: Option<Tenure>| {
        let mut history = runs(2);
        history.tenure(0, tenure(1, 9_000, 14_001));
        history.runs[1].kept.tenures.extend(restored);
        judge_durability(&history)
    };
    nothing(&history(Some(restored(1, 10_001, 14_001))));
    found(&history(None), "was not restored");
    found(&history(Some(restored(1, 10_001, 14_002))), "was restored as");
    let mut two = runs(2);
    two.tenure(1, restored(2, 10_001, 14_001));
    found(&judge_durability(&two), "not left by");
}
