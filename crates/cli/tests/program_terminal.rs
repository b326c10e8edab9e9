//! `lockstead run` on a terminal: who is in the foreground, ctrl-C, ctrl-Z and fg.

// What fails in a helper fails the test.
#![allow(clippy::unwrap_used)]

mod program_support;

use program_support::{PROGRAM, Terminal, World};

/// Says who it is, which group it is in, and which group is in the foreground.
const WHO: &str = "read a b c d group f g foreground rest </proc/$$/stat; echo who $$ $group $foreground.";

fn shell(world: &World) -> Terminal {
    let mut terminal = Terminal::shell(&world.command(&[]));
    terminal.types("echo sta''rted\n");
    terminal.sees("started");
    terminal
}

fn script(world: &World, script: &str) -> Terminal {
    let mut command = world.command(&[]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script]).envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    std::mem::swap(&mut command, &mut shell);
    Terminal::start(command)
}

#[test]
fn the_command_is_in_the_foreground() {
    let world = World::new();
    let mut terminal = script(&world, &format!("{PROGRAM} run job -- sh -c '{WHO}'"));
    terminal.sees("who ");
    let line = terminal.sees(".");
    let ids: Vec<&str> = line.split(' ').collect();
    assert_eq!(ids[0], ids[1], "the leader of its own group");
    assert_eq!(ids[1], ids[2], "which is in the foreground");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn the_foreground_is_given_back() {
    let world = World::new();
    // A script without job control: nobody but run itself can put the foreground right.
    let read = "read line && echo read $line.";
    for command in ["true", "sh -c 'exit 3'", "/no/such/command", "/"] {
        let mut terminal = script(&world, &format!("{PROGRAM} run job -- {command}; {read}"));
        terminal.types("hello\n");
        terminal.sees("read hello.");
        assert_eq!(terminal.end(), Some(0));
    }
}

#[test]
fn ctrl_c_reaches_the_command_and_its_status_the_shell() {
    let world = World::new();
    let mut terminal = shell(&world);
    terminal.types(&format!("{PROGRAM} run job -- sh -c 'echo run''ning; read line'; echo code $?.\n"));
    terminal.sees("running");
    terminal.types("\x03");
    terminal.sees("code 130.");
    assert_eq!(world.state("job"), "free");
}

#[test]
fn ctrl_c_while_waiting_ends_the_wait() {
    let world = World::new();
    world.hold("job", "1m");
    // The script hears of ctrl-C too, and goes on.
    let wait = "run job --wait 1m -- echo running";
    let mut terminal = script(&world, &format!("trap : INT; {PROGRAM} {wait}; echo code $?."));
    world.await_waiters("job", 1);
    terminal.types("\x03");
    assert!(!terminal.sees("code 130.").contains("running"));
    world.await_waiters("job", 0);
}

#[test]
fn ctrl_z_stops_the_job_and_fg_lets_it_go_on() {
    let world = World::new();
    let mut terminal = shell(&world);
    let command = "sh -c 'echo run''ning; while read line; do echo got $line.; done; exit 6'";
    terminal.types(&format!("{PROGRAM} run job -- {command}; echo code $?.\n"));
    terminal.sees("running");
    for _ in 0..2 {
        terminal.types("\x1a");
        terminal.sees("Stopped");
        terminal.types("fg; echo code $?.\n");
        terminal.types("hello\n");
        terminal.sees("got hello.");
    }
    // The end of the input.
    terminal.types("\x04");
    terminal.sees("code 6.");
    assert_eq!(world.state("job"), "free");
}

#[test]
fn a_stopped_job_whose_lock_was_lost_does_not_go_on() {
    let world = World::new();
    let mut terminal = shell(&world);
    let command = format!("{PROGRAM} run job --lease 1s -- sh -c 'echo run''ning; read line'");
    terminal.types(&format!("{command}\n"));
    terminal.sees("running");
    terminal.types("\x1a");
    terminal.sees("Stopped");
    assert_eq!(world.outcome(&["acquire", "job", "--wait", "10s"]).code, Some(0));
    terminal.types("fg; echo code $?.\n");
    let seen = terminal.sees("code 120.");
    assert!(seen.contains("its time is over"), "{seen:?}");
}

#[test]
fn a_job_in_the_background_gets_the_terminal_when_it_is_brought_back() {
    let world = World::new();
    let mut terminal = shell(&world);
    terminal.types(&format!("{PROGRAM} run job -- sh -c 'echo run''ning; read line; echo got $line.' &\n"));
    terminal.sees("running");
    // It wants to read and may not: the job is stopped, and the shell's line is the shell's.
    terminal.types("wait $!; echo code $?.\n");
    terminal.sees("code ");
    terminal.types("fg\n");
    terminal.types("hello\n");
    terminal.sees("got hello.");
}

#[test]
fn in_a_pipeline_the_terminal_is_the_commands_only_when_it_wants_it() {
    let world = World::new();
    let mut terminal = shell(&world);
    let not_in_the_foreground = "test $group != $foreground && echo le''ft.";
    terminal.types(&format!("{PROGRAM} run job -- sh -c '{WHO} {not_in_the_foreground}' | cat\n"));
    terminal.sees("left.");
    terminal.types(&format!("{PROGRAM} run job -- sh -c 'read line; echo got $line.' | cat\n"));
    terminal.types("hello\n");
    terminal.sees("got hello.");
    // And ctrl-C reaches it there too.
    let sleep = "sh -c 'trap \"exit 1\" INT; echo run''ning; while :; do sleep 1; done'";
    terminal.types(&format!("{PROGRAM} run job -- {sleep} | (trap '' INT; cat; echo do''ne.)\n"));
    terminal.sees("running");
    terminal.types("\x03");
    terminal.sees("done.");
    assert_eq!(world.outcome(&["acquire", "job", "--wait", "10s"]).code, Some(0));
}

#[test]
fn without_a_shell_to_continue_it_ctrl_z_does_nothing() {
    let world = World::new();
    let mut terminal = Terminal::start(world.command(&[
        "run",
        "job",
        "--",
        "sh",
        "-c",
        "echo running; read line; echo got $line.",
    ]));
    terminal.sees("running");
    terminal.types("\x1ahello\n");
    terminal.sees("got hello.");
    assert_eq!(terminal.end(), Some(0));
}
