//! `lockstead run` in pipes: exit statuses, signals, and a command that never outlives its lock.

// What fails in a helper fails the test.
#![allow(clippy::unwrap_used)]

mod program_support;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use program_support::{Program, World, outcome, within};
use rustix::process::{Pid, Signal, kill_process};

const S: Duration = Duration::from_secs(1);

/// Says `ready`, then each line that it reads.
const ECHO: &str = "echo ready; while read line; do echo \"said $line\"; done";

/// Says `ready`, and `told` when it is told to end; ends only by KILL.
const STUBBORN: &str = "trap 'echo told' TERM; echo ready; while :; do sleep 99 & wait; done";

fn run(world: &World, options: &[&str], script: &str) -> Program {
    let mut args = vec!["run", "job"];
    args.extend(options);
    args.extend(["--", "sh", "-c", script]);
    let program = world.start(&args);
    assert_eq!(program.line(), "ready");
    program
}

#[test]
fn the_lock_is_held_while_the_command_runs_and_free_after() {
    let world = World::new();
    let script = "echo ready; echo $LOCKSTEAD_KEY; echo $LOCKSTEAD_TOKEN; read line; exit 7";
    let mut run = run(&world, &["--lease", "20s"], script);
    assert_eq!(run.line(), "job");
    let token: u64 = run.line().parse().unwrap();
    assert_eq!(world.state("job"), "held");
    run.say("");
    assert_eq!(run.end(), Some(7));
    assert_eq!(run.stderr(), "");
    assert_eq!(world.state("job"), "free");
    let next: u64 = world.hold("job", "20s").parse().unwrap();
    assert!(next > token, "the token is a fencing token");
}

#[test]
fn it_ends_as_the_command_does() {
    let world = World::new();
    for (command, code) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 3"], 3),
        (&["sh", "-c", "kill -KILL $$"], 128 + 9),
        (&["sh", "-c", "kill -USR1 $$"], 128 + 10),
        (&["/no/such/command"], 127),
        (&["no-such-command-anywhere"], 127),
        (&["/etc/passwd"], 126),
        (&["/"], 126),
    ] {
        let mut args = vec!["run", "job", "--"];
        args.extend(command);
        let got = world.outcome(&args);
        assert_eq!(got.code, Some(code), "{command:?}: {got:?}");
        assert_eq!(got.stderr.is_empty(), code != 126 && code != 127, "{got:?}");
        assert_eq!(world.state("job"), "free", "after {command:?}");
    }
}

#[test]
fn options_of_the_command_are_the_commands() {
    let world = World::new();
    let got = world.outcome(&["run", "job", "--wait", "1s", "--", "echo", "--wait", "--", "-x"]);
    assert_eq!((got.code, got.stdout.as_str()), (Some(0), "--wait -- -x\n"));
}

#[test]
fn the_lock_is_kept_alive() {
    let world = World::new();
    let mut run = run(&world, &["--lease", "1s"], ECHO);
    // Another client waits for longer than the lease.
    assert_eq!(world.outcome(&["acquire", "job", "--wait", "3s"]).code, Some(124));
    run.say("hello");
    assert_eq!(run.line(), "said hello");
    drop(run);
}

#[test]
fn a_shorter_lease_than_asked_for_is_no_reason_to_end() {
    let world = World::with(&["--max-lease", "2s"]);
    let mut run = run(&world, &["--lease", "30s", "--kill-after", "9s"], "echo ready; sleep 3; exit 4");
    assert_eq!(run.end(), Some(4));
    let told = run.stderr();
    assert!(told.contains("--kill-after becomes a third"), "{told}");
}

#[test]
fn the_command_runs_in_a_group_of_its_own() {
    let world = World::new();
    let run =
        run(&world, &[], "echo ready; read p c s parent group r </proc/$$/stat; echo $$ $group; read x");
    let line = run.line();
    let (id, group) = line.split_once(' ').unwrap();
    assert_eq!(id, group);
}

#[test]
fn the_command_starts_with_no_signal_blocked_or_ignored() {
    let world = World::new();
    let outside = outcome({
        let mut command = std::process::Command::new("grep");
        command.args(["-E", "SigBlk|SigIgn", "/proc/self/status"]);
        command
    });
    let inside = world.outcome(&["run", "job", "--", "grep", "-E", "SigBlk|SigIgn", "/proc/self/status"]);
    assert_eq!(inside.stdout, outside.stdout);
    assert!(inside.stdout.contains("SigBlk:\t0000000000000000"), "{}", inside.stdout);
}

#[test]
fn signals_are_passed_on() {
    let world = World::new();
    let traps: String = ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "ALRM", "WINCH"]
        .map(|name| format!("trap 'echo {name}' {name};"))
        .concat();
    let run = run(&world, &[], &format!("{traps} echo ready; while :; do sleep 99 & wait; done"));
    for (signal, name) in [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::TERM, "TERM"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::ALARM, "ALRM"),
        (Signal::WINCH, "WINCH"),
    ] {
        run.signal(signal);
        assert_eq!(run.line(), name);
    }
}

#[test]
fn a_signal_that_ends_the_command_is_its_exit_status() {
    let world = World::new();
    for (signal, code) in [(Signal::TERM, 128 + 15), (Signal::INT, 128 + 2), (Signal::HUP, 128 + 1)] {
        let mut run = run(&world, &[], ECHO);
        run.signal(signal);
        assert_eq!(run.end(), Some(code));
        assert_eq!(world.state("job"), "free");
    }
}

#[test]
fn a_signal_reaches_the_whole_group() {
    let world = World::new();
    // The sleep would keep the pipe open.
    let mut run = run(&world, &[], "sleep 99 & echo ready; wait");
    run.signal(Signal::TERM);
    assert_eq!(run.end(), Some(128 + 15));
    assert_eq!(run.last_lines(), [""; 0]);
}

#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    let world = World::new();
    let program = program_support::PROGRAM;
    let script = format!("trap '' HUP; exec {program} run job -- sh -c 'echo ready; sleep 99'");
    let mut command = world.command(&[]);
    let envs: Vec<_> = command.get_envs().map(|(k, v)| (k.to_owned(), v.map(ToOwned::to_owned))).collect();
    command = std::process::Command::new("sh");
    command.args(["-c", &script]);
    for (name, value) in envs {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut nohup = Program::start(command);
    assert_eq!(nohup.line(), "ready");
    nohup.signal(Signal::HUP);
    nohup.signal(Signal::TERM);
    assert_eq!(nohup.end(), Some(128 + 15), "not by HUP");
}

#[test]
fn p33_a_dead_server_ends_the_command_before_its_lock_can_be_somebody_elses() {
    let mut world = World::new();
    let asked = Instant::now();
    let mut run =
        run(&world, &["--lease", "3s"], "trap 'echo told; exit 5' TERM; echo ready; sleep 99 & wait");
    world.server.kill();
    assert_eq!(run.line(), "told");
    assert!(asked.elapsed() < 4 * S, "told after {:?}", asked.elapsed());
    assert_eq!(run.end(), Some(120));
    assert!(run.stderr().contains("about to be lost"));
}

#[test]
fn p33_a_mute_server_ends_all_of_a_stubborn_group() {
    let world = World::new();
    let mut run = run(&world, &["--lease", "2s", "--kill-after", "600ms"], STUBBORN);
    world.server.pause();
    let paused = Instant::now();
    assert_eq!(run.line(), "told");
    assert_eq!(run.last_lines(), [""; 0], "told once, and then nobody of the group is left");
    assert!(paused.elapsed() < 2 * S, "{:?}", paused.elapsed());
    assert_eq!(run.end(), Some(120));
    world.server.go_on();
}

#[test]
fn after_a_plain_no_the_command_is_told_at_once() {
    let world = World::new();
    let mut run = run(&world, &["--lease", "3s"], &format!("echo ready; echo $LOCKSTEAD_TOKEN; {STUBBORN}"));
    let token = run.line();
    assert_eq!(run.line(), "ready");
    // Somebody else gives the lock away: the next keep-alive is answered with a no.
    assert_eq!(world.outcome(&["release", "job", &token]).code, Some(0));
    assert_eq!(run.line(), "told");
    assert_eq!(run.last_lines(), [""; 0]);
    assert_eq!(run.end(), Some(120));
    let told = run.stderr();
    assert!(told.contains("the server says that it is not held"), "{told}");
}

#[test]
fn p11_a_stopped_program_kills_its_command_before_anything_else_when_it_goes_on() {
    let world = World::new();
    let mut run = run(&world, &["--lease", "2s"], STUBBORN);
    run.signal(Signal::STOP);
    run.await_stop();
    assert_eq!(world.outcome(&["acquire", "job", "--wait", "10s"]).code, Some(0));
    run.signal(Signal::CONT);
    assert_eq!(run.end(), Some(120));
    assert_eq!(run.last_lines(), [""; 0], "killed, not told");
}

#[test]
fn the_command_dies_with_the_program() {
    let world = World::new();
    let mut run = run(&world, &[], "trap '' HUP INT TERM; echo ready; exec sleep 99");
    run.signal(Signal::KILL);
    assert_eq!(run.end(), None);
    assert_eq!(run.last_lines(), [""; 0]);
}

#[test]
fn a_stop_stops_the_command_too_and_both_go_on() {
    let world = World::new();
    let mut run = run(&world, &[], ECHO);
    run.signal(Signal::TSTP);
    run.await_stop();
    await_stopped(child_of(run.id()));
    run.say("hello");
    run.signal(Signal::CONT);
    assert_eq!(run.line(), "said hello");
}

#[test]
fn a_command_that_does_not_listen_is_stopped_all_the_same() {
    let world = World::new();
    let mut run = run(&world, &[], &format!("trap '' TSTP; {ECHO}"));
    run.signal(Signal::TSTP);
    run.await_stop();
    await_stopped(child_of(run.id()));
    run.say("hello");
    run.signal(Signal::CONT);
    assert_eq!(run.line(), "said hello");
}

#[test]
fn a_stop_that_is_taken_back_in_time_does_not_happen() {
    let world = World::new();
    let script = "trap '' TSTP; echo ready; read line; echo \"said $line\"; sleep 0.7; echo still here";
    let mut run = run(&world, &[], script);
    run.signal(Signal::TSTP);
    run.say("hello");
    assert_eq!(run.line(), "said hello");
    run.signal(Signal::CONT);
    assert_eq!(run.line(), "still here", "after the time that the command has to stop by itself");
    assert_eq!(run.end(), Some(0));
}

#[test]
fn a_command_that_somebody_stopped_keeps_its_lock_and_goes_on_with_the_program() {
    let world = World::new();
    let mut run = run(&world, &["--lease", "1s"], ECHO);
    let command = child_of(run.id());
    kill_process(Pid::from_raw(command).unwrap(), Signal::STOP).unwrap();
    await_stopped(command);
    assert_eq!(world.outcome(&["acquire", "job", "--wait", "2s"]).code, Some(124));
    run.say("hello");
    run.signal(Signal::CONT);
    assert_eq!(run.line(), "said hello");
}

#[test]
fn a_command_does_not_go_on_when_its_lock_was_lost_meanwhile() {
    let world = World::new();
    let mut run = run(&world, &["--lease", "2s"], ECHO);
    run.signal(Signal::TSTP);
    run.await_stop();
    assert_eq!(world.outcome(&["acquire", "job", "--wait", "10s"]).code, Some(0));
    run.say("hello");
    run.signal(Signal::CONT);
    assert_eq!(run.end(), Some(120));
    assert_eq!(run.last_lines(), [""; 0], "not one step more");
    assert!(run.stderr().contains("its time is over"));
}

#[test]
fn what_the_command_leaves_running_is_not_waited_for() {
    let world = World::new();
    let mut run = run(&world, &[], "exec 3<&0; { read line <&3; echo 'still there'; } & echo ready; exit 0");
    assert_eq!(run.end(), Some(0));
    assert_eq!(world.state("job"), "free");
    run.say("");
    assert_eq!(run.last_lines(), ["still there"]);
}

#[test]
fn a_dead_server_does_not_hold_up_the_end() {
    let mut world = World::new();
    let mut run = run(&world, &["--lease", "1m"], "echo ready; read line; exit 3");
    world.server.kill();
    run.say("");
    let begun = Instant::now();
    assert_eq!(run.end(), Some(3));
    assert!(begun.elapsed() < 6 * S, "{:?}", begun.elapsed());
}

#[test]
fn one_at_a_time() {
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "mkdir {0} && rmdir {0} && echo $LOCKSTEAD_TOKEN || echo clash",
        dir.path().join("busy").display()
    );
    let ran: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    outcome(world.command(&["run", "job", "--wait", "20s", "--", "sh", "-c", &script]))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut tokens: Vec<u64> = ran.iter().map(|got| got.stdout.trim().parse().unwrap()).collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 8);
}

/// The one child of a process.
fn child_of(id: Pid) -> i32 {
    let id = id.as_raw_nonzero();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    children.trim().parse().unwrap_or_else(|_| panic!("one child of {id}: {children:?}"))
}

/// Waits until a process that is nobody's child here is stopped: the signal was sent, but another processor may take it.
fn await_stopped(id: i32) {
    within("a stopped command", move || {
        let stopped = || {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
            stat.rsplit_once(") ").unwrap().1.starts_with('T')
        };
        while !stopped() {
            thread::yield_now();
        }
    });
}
