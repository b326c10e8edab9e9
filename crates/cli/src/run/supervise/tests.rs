//! Real commands under a lock that is only said to be there.

use std::cell::Cell;
use std::io::{self, BufRead as _, BufReader, PipeReader, Read as _};
use std::process::Command;

use tokio::sync::Notify;

use super::*;

const S: Duration = Duration::from_secs(1);

/// A lock that ends when it is told to.
struct Pretended {
    until: Cell<Instant>,
    taken: Cell<bool>,
    changed: Notify,
}

impl Pretended {
    fn lasting(span: Duration) -> Self {
        Self { until: Cell::new(Instant::now() + span), taken: Cell::new(false), changed: Notify::new() }
    }

    /// As if the server had said that it is not held.
    fn take(&self) {
        self.taken.set(true);
        self.changed.notify_waiters();
    }

    fn extend(&self, span: Duration) {
        self.until.set(Instant::now() + span);
        self.changed.notify_waiters();
    }
}

impl Guard for Pretended {
    fn valid_for(&self) -> Duration {
        match self.taken.get() {
            true => Duration::ZERO,
            false => self.until.get().duration_since(Instant::now()),
        }
    }

    fn loss(&self) -> Option<Lost> {
        let over = self.until.get() <= Instant::now();
        let taken = self.taken.get().then_some(Lost::NotHeld);
        taken.or(over.then_some(Lost::Expired))
    }

    async fn lost(&self) -> Lost {
        loop {
            if let Some(loss) = self.loss() {
                return loss;
            }
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep_until(self.until.get()) => {}
            }
        }
    }
}

/// What a command says; its end is the end of the last process that could still say something.
type Said = BufReader<PipeReader>;

/// Starts a script and returns when it has said `ready`.
fn ready(script: &str) -> (Group, Said) {
    let (group, mut said) = start(script);
    assert_eq!(line(&mut said), "ready");
    (group, said)
}

fn start(script: &str) -> (Group, Said) {
    let (reader, writer) = io::pipe().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(writer);
    (Group::spawn(command, None).unwrap(), BufReader::new(reader))
}

fn line(said: &mut Said) -> String {
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn rest(said: &mut Said) -> String {
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    rest
}

/// Supervises to the end; also how long that took.
fn end_of(group: Group, guard: &Pretended, kill_after: Duration) -> (Ended, Duration) {
    with(group, guard, kill_after, async {})
}

/// Supervises to the end, while something happens.
fn with(
    group: Group,
    guard: &Pretended,
    kill_after: Duration,
    meanwhile: impl Future<Output = ()>,
) -> (Ended, Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let begun = Instant::now();
        let mut signals = Signals::of_children().unwrap();
        let ended = async { supervise(group, None, &mut signals, guard, kill_after).await.unwrap() };
        let (ended, ()) = tokio::join!(ended, meanwhile);
        (ended, begun.elapsed())
    })
}

fn ended(exit: Exit, lost: bool) -> Ended {
    Ended { exit, lost }
}

#[test]
fn an_undisturbed_command_ends_as_it_ends() {
    for (script, exit) in [
        ("exit 0", Exit::Code(0)),
        ("exit 130", Exit::Code(130)),
        ("kill -USR1 $$", Exit::Signal(libc::SIGUSR1)),
    ] {
        let (group, _said) = start(script);
        assert_eq!(end_of(group, &Pretended::lasting(60 * S), S).0, ended(exit, false), "{script}");
    }
}

#[test]
fn what_a_command_leaves_behind_goes_on() {
    let (group, mut said) = start("{ read wait; echo still there; } <&0 & exit 3");
    // Standard input of a background process is /dev/null unless it is named, so `read` ends at once.
    assert_eq!(end_of(group, &Pretended::lasting(60 * S), S).0, ended(Exit::Code(3), false));
    assert_eq!(rest(&mut said), "still there\n");
}

#[test]
fn p33_the_command_is_told_in_time_and_may_end_by_itself() {
    let (group, _said) = ready("trap 'exit 7' TERM; echo ready; sleep 99 & wait");
    let (end, took) = end_of(group, &Pretended::lasting(S), S / 2);
    assert_eq!(end, ended(Exit::Code(7), true));
    assert!(took >= S / 2 && took < S, "{took:?}");
}

#[test]
fn p33_all_of_the_group_is_killed_when_the_lock_is_lost() {
    let (group, mut said) = ready("trap '' TERM; sleep 99 & echo ready; sleep 99");
    let (end, took) = end_of(group, &Pretended::lasting(S), S / 2);
    assert_eq!(end, ended(Exit::Signal(libc::SIGKILL), true));
    assert!(took >= S && took < S + S / 2, "{took:?}");
    assert_eq!(rest(&mut said), "", "the end of the output is the end of the last process");
}

#[test]
fn p33_the_rest_of_a_group_has_its_time_too_when_its_leader_has_ended() {
    let (group, mut said) =
        ready("sh -c 'trap \"sleep 0.2; echo tidy; exit\" TERM; echo ready; sleep 99 & wait' & wait");
    let (end, took) = end_of(group, &Pretended::lasting(3 * S), 3 * S - S / 10);
    assert_eq!(end, ended(Exit::Signal(libc::SIGTERM), true));
    assert!(took < 2 * S, "{took:?}");
    assert_eq!(rest(&mut said), "tidy\n");
}

#[test]
fn after_a_plain_no_the_command_is_told_at_once_and_killed_after_its_time() {
    let (group, _said) = ready("trap '' TERM; echo ready; sleep 99");
    let guard = Pretended::lasting(60 * S);
    let (end, took) = with(group, &guard, S / 2, async { guard.take() });
    assert_eq!(end, ended(Exit::Signal(libc::SIGKILL), true));
    assert!(took >= S / 2 && took < S, "{took:?}");
}

#[test]
fn a_plain_no_after_term_does_not_give_more_time() {
    let (group, mut said) = ready("trap 'echo told' TERM; echo ready; while :; do sleep 99 & wait; done");
    let guard = Pretended::lasting(S);
    let (end, took) = with(group, &guard, 9 * S / 10, async {
        sleep_until(Instant::now() + S / 2).await;
        guard.take();
    });
    assert_eq!(end, ended(Exit::Signal(libc::SIGKILL), true));
    assert!(took >= S && took < S + S / 4, "{took:?}");
    assert_eq!(rest(&mut said), "told\n", "once");
}

#[test]
fn a_stopped_command_hears_that_it_must_end() {
    let (group, _said) = ready("trap 'exit 7' TERM; echo ready; kill -STOP $$; sleep 99 & wait");
    let guard = Pretended::lasting(S);
    assert_eq!(end_of(group, &guard, 9 * S / 10).0, ended(Exit::Code(7), true));
}

#[test]
fn an_extended_lock_is_no_reason_to_end() {
    let (group, _said) = ready("echo ready; sleep 1; exit 5");
    let guard = Pretended::lasting(S / 2);
    let (end, _) = with(group, &guard, S / 10, async {
        sleep_until(Instant::now() + S / 4).await;
        guard.extend(60 * S);
    });
    assert_eq!(end, ended(Exit::Code(5), false));
}

#[test]
fn a_lock_lost_before_the_end_was_seen_counts_as_lost() {
    let (group, mut said) = start("exit 0");
    assert_eq!(rest(&mut said), "");
    let guard = Pretended::lasting(Duration::ZERO);
    assert!(end_of(group, &guard, S / 10).0.lost);
}
