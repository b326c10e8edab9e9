//! `lockstead serve`: what it says when it starts, and what it refuses.

// What fails in a helper fails the test.
#![allow(clippy::unwrap_used)]

mod program_support;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;

use lockstead_testkit::{Builder, Raw};
use program_support::{PROGRAM, Program, lockstead, within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

#[test]
fn it_says_where_it_listens_and_nothing_else() {
    let builder = Builder::bare(PROGRAM).listen("127.0.0.1:0").args(&["--durability", "none"]);
    let unix = format!("unix:{}", builder.dir().join("socket").display());
    let mut server = builder.listen(&unix).start();
    let [tcp, second] = server.stdout() else { panic!("two lines: {:?}", server.stdout()) };
    assert!(tcp.starts_with("listening on 127.0.0.1:") && !tcp.ends_with(":0"), "{tcp}");
    assert_eq!(second, &format!("listening on {unix}"));
    for address in server.addresses() {
        Raw::connect(address).ping();
    }
    let log = server.stderr();
    assert!(log.contains("durability is none: held locks are forgotten when the server stops"), "{log}");
    server.terminate();
    let status = server.wait_exit(std::time::Duration::from_secs(20), "a drained server");
    assert_eq!(status.code(), Some(0));
    server.expect_stdout_end();
}

#[test]
fn without_a_journal_paths_of_one_are_ignored_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for option in ["--data-dir", "--boot-id-file"] {
        let args = [option, data.to_str().unwrap()];
        let server = Builder::new(PROGRAM).listen("127.0.0.1:0").args(&args).start();
        let log = server.stderr();
        let warning = log.lines().find(|line| line.contains("WARN")).unwrap_or_else(|| panic!("{log}"));
        assert!(warning.contains("is ignored") && warning.contains(option), "{warning}");
        assert!(!data.exists());
    }
}

/// Where a server with this environment keeps its data, as it says itself.
fn data_dir_said(builder: Builder) -> String {
    let server = builder.listen("127.0.0.1:0").env("LOCKSTEAD_LOG_FORMAT", "json").start();
    let log = server.stderr();
    let first: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert!(first["message"].as_str().unwrap().starts_with("lockstead starts; "), "{first}");
    assert_eq!(first["durability"], "process", "the default");
    first["data_dir"].as_str().unwrap().to_owned()
}

#[test]
fn the_data_directory_is_systemds_or_the_users() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let bare = || {
        let builder = Builder::bare(PROGRAM).env("XDG_STATE_HOME", path("state"));
        builder.env("HOME", path("home"))
    };
    let systemd = format!("{}:{}", path("first"), path("second"));
    let in_unit = || bare().env("STATE_DIRECTORY", &systemd);
    assert_eq!(data_dir_said(in_unit().args(&["--data-dir", &path("given")])), path("given"));
    assert_eq!(data_dir_said(in_unit().env("LOCKSTEAD_DATA_DIR", path("set"))), path("set"));
    assert_eq!(data_dir_said(in_unit()), path("first"));
    assert_eq!(data_dir_said(bare()), path("state/lockstead"));
    assert_eq!(data_dir_said(bare().env("XDG_STATE_HOME", "")), path("home/.local/state/lockstead"));
    let nowhere = bare().env("XDG_STATE_HOME", "relative").env("HOME", "");
    let (status, stdout, stderr) = nowhere.listen("127.0.0.1:0").refused();
    assert_eq!((status.code(), stdout.as_str()), (Some(125), ""));
    assert_eq!(
        stderr,
        "lockstead: there is no default for the data directory, as none of STATE_DIRECTORY, XDG_STATE_HOME and HOME \
         is set to an absolute path: say --data-dir DIR, or serve with --durability none\n"
    );
}

#[test]
fn the_first_line_says_what_survives() {
    for (mode, promise) in [
        ("none", "held locks are forgotten when the server stops, and its next start grants at once"),
        (
            "process",
            "held locks survive the end of the server; after a crash of the machine its next start may",
        ),
        ("machine", "held locks survive the end of the server and of the machine"),
    ] {
        // Not where temporary files are, which may be in memory.
        let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let builder = Builder::bare(PROGRAM).env("XDG_STATE_HOME", disk.path());
        let log = builder.listen("127.0.0.1:0").args(&["--durability", mode]).start().stderr();
        let expected = format!("lockstead starts; durability is {mode}: {promise}");
        assert!(log.lines().next().unwrap().contains(&expected), "{log}");
    }
}

#[test]
fn options_may_come_from_the_environment() {
    let builder = Builder::bare(PROGRAM);
    let unix = format!("unix:{}", builder.dir().join("socket").display());
    let server = builder
        .env("LOCKSTEAD_LISTEN", format!("127.0.0.1:0,{unix}"))
        .env("LOCKSTEAD_DURABILITY", "none")
        .env("LOCKSTEAD_LOG_FORMAT", "json")
        .env("LOCKSTEAD_MAX_LEASE", "7s")
        .expect_listeners(2)
        .start();
    assert_eq!(server.addresses().len(), 2);
    assert_eq!(server.connect().hold(60, 1 << 63, "k").lease().as_secs(), 7);
    let log = server.stderr();
    assert!(log.lines().count() > 0);
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(event["message"].is_string(), "{line}");
        assert!(event["level"].is_string(), "{line}");
    }
}

#[test]
fn what_is_not_there_yet_or_not_safe_is_refused_with_the_reason() {
    for (args, reasons) in [
        (&["--admin", "127.0.0.1:5626"][..], &["admin", "not built yet"][..]),
        (&["--listen", "0.0.0.0:0"], &["--insecure"]),
        (&["--listen", "[::]:0"], &["--insecure"]),
        (&["--listen", "127.0.0.1:0", "--listen", "192.0.2.1:0"], &["192.0.2.1:0", "--insecure"]),
        (&["--listen", "tls://127.0.0.1:0"], &["tls:// addresses are not built yet"]),
        (&["--listen", "localhost"], &["host:port"]),
        (&["--listen", "no-such-host.invalid:1"], &["no-such-host.invalid:1"]),
        (&["--listen", "unix:/no/such/directory/socket"], &["/no/such/directory/socket"]),
        (&["--max-lease", "4m16s"], &["1s to 255s"]),
        (&["--max-keys", "-1"], &["-1"]),
        (&["--config", "lockstead.toml"], &["--config"]),
        (&["--drain-grace", "soon"], &["write it like 10s"]),
        (&["--durability", "disk"], &["none", "process", "machine"]),
        (&["--recovery-pause", "30s"], &["--durability none", "by itself", "lockstead repair --restored"]),
        (&["--durability", "none", "--require-data"], &["contradiction", "--durability none"]),
    ] {
        let (status, stdout, stderr) = Builder::bare(PROGRAM).args(args).refused();
        assert_eq!((status.code(), stdout.as_str()), (Some(125), ""), "{args:?}: {stderr}");
        for reason in reasons {
            assert!(stderr.contains(reason), "{args:?} should say {reason:?}: {stderr}");
        }
    }
}

#[test]
fn insecure_listens_beyond_this_machine() {
    let server = Builder::new(PROGRAM).listen("0.0.0.0:0").args(&["--insecure"]).start();
    assert!(server.stdout()[0].starts_with("listening on 0.0.0.0:"));
}

#[test]
fn an_address_in_use_is_said_once() {
    let first = Builder::new(PROGRAM).listen("127.0.0.1:0").start();
    let address = first.address().to_string();
    let (status, _, stderr) = Builder::new(PROGRAM).args(&["--listen", &address]).refused();
    assert_eq!(status.code(), Some(125));
    let told = stderr.lines().last().unwrap();
    assert!(told.starts_with(&format!("lockstead: cannot listen on {address}: ")), "{told}");
    assert_eq!(told.matches("in use").count(), 1, "{told}");
}

#[test]
fn it_serves_on_when_nobody_reads_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let notify = dir.path().join("notify");
    let systemd = UnixDatagram::bind(&notify).unwrap();
    let socket = dir.path().join("socket");
    let listen = format!("unix:{}", socket.display());

    // Both ends of the program's words are closed before it begins.
    let (out_reader, out_writer) = std::io::pipe().unwrap();
    let (err_reader, err_writer) = std::io::pipe().unwrap();
    drop((out_reader, err_reader));
    let mut command =
        lockstead(&["serve", "--durability", "none", "--listen", &listen, "--log-level", "trace"]);
    command.env("NOTIFY_SOCKET", &notify).stdin(Stdio::null()).stdout(out_writer).stderr(err_writer);
    let mut child = command.spawn().unwrap();
    let id = Pid::from_child(&child);
    drop(command);

    let ready = within("READY=1 for systemd", move || {
        let mut message = [0; 64];
        let len = systemd.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..len]).into_owned()
    });
    assert_eq!(ready.trim_end(), "READY=1");
    let mut raw = Raw::connect(&lockstead_testkit::Address::parse(&listen));
    assert_eq!(raw.query("k"), (0, 0, 0));
    kill_process(id, Signal::TERM).unwrap();
    let status = within("a drained server", move || child.wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert!(fs::metadata(&socket).is_err(), "its socket is gone");
}

#[test]
fn a_second_signal_stops_at_once() {
    let args = ["serve", "--durability", "none", "--listen", "127.0.0.1:0", "--drain-grace", "10m"];
    let mut server = Program::start(lockstead(&args));
    let address = server.line().strip_prefix("listening on ").map(lockstead_testkit::Address::parse).unwrap();
    let mut raw = Raw::connect(&address);
    raw.hold(60, 1 << 63, "k");
    server.signal(Signal::TERM);
    // Draining has begun when the server is busy for that reason.
    let owner = (1 << 63) + 1;
    let request = lockstead_testkit::frame::acquire(0, 60, owner, "other");
    while raw.ask(&request) != (lockstead_testkit::Answer::Busy { owner, reason: 5 }) {}
    server.signal(Signal::INT);
    assert_ne!(server.end(), Some(0));
}

#[test]
fn colours_are_for_terminals() {
    let args = ["serve", "--durability", "none", "--listen", "127.0.0.1:0"];
    let mut terminal = program_support::Terminal::start(lockstead(&args));
    let log = terminal.sees("listening on 127.0.0.1:");
    assert!(log.contains('\x1b'), "{log:?}");
    terminal.types("\x03");
    assert_eq!(terminal.end(), Some(0), "ctrl-C drains");
    let mut in_a_pipe = lockstead(&args);
    in_a_pipe.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = in_a_pipe.spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let line = within("the first line of the log", move || {
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        line
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.contains("lockstead starts") && !line.contains('\x1b'), "{line:?}");
}
