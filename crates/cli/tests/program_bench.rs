//! `lockstead bench` against a real server: each workload, what it prints and draws, and that it leaves nothing held.

// What fails in a helper fails the test.
#![allow(clippy::unwrap_used)]

mod program_support;

use std::fs;

use lockstead_testkit::Builder;
use program_support::{Outcome, PROGRAM, Terminal, World, outcome};
use serde_json::Value;

/// How many keys the servers here may hold.
const KEYS: u64 = 600;

fn world() -> World {
    World::with(&["--max-keys", &KEYS.to_string()])
}

fn json(got: &Outcome) -> Value {
    assert_eq!(got.stdout.lines().count(), 1, "one object: {got:?}");
    serde_json::from_str(&got.stdout).unwrap()
}

/// The server can still grant all the keys that it may, so nothing is held.
fn assert_nothing_is_held(world: &World) {
    let keys = KEYS.to_string();
    let got = world.outcome(&["bench", "keys", "--keys", &keys, "--duration", "1ms", "--json"]);
    let json = json(&got);
    assert_eq!((got.code, &json["filled"]["locks"]), (Some(0), &KEYS.into()), "{json}");
}

/// The rows of a result, after a look at all that every result has.
fn operations(json: &Value) -> Vec<(String, u64)> {
    for field in ["connections", "pipeline", "keys", "key_bytes", "ended_leases", "left_held"] {
        assert!(json[field].is_u64(), "{field} in {json}");
    }
    for field in ["workload", "server", "key_prefix"] {
        assert!(json[field].is_string(), "{field} in {json}");
    }
    let seconds = json["seconds"].as_f64().unwrap();
    assert!(json["errors"].is_object() && json["interrupted"].is_boolean() && seconds >= 0.0, "{json}");
    let row = |row: &Value| {
        let latency = &row["latency_us"];
        let values = ["p50", "p90", "p99", "p99_9", "max"].map(|name| latency[name].as_f64().unwrap());
        assert!(values.is_sorted() && values[0] > 0.0, "{row}");
        let count = row["count"].as_u64().unwrap();
        let per_second = row["per_second"].as_f64().unwrap();
        assert!((per_second * seconds / count as f64 - 1.0).abs() < 0.05, "{row} in {seconds} s");
        (row["operation"].as_str().unwrap().to_owned(), count)
    };
    json["operations"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn each_workload_runs_clean_and_gives_everything_back() {
    let world = world();
    for (workload, options, expected) in [
        ("pairs", "--connections 3 --pipeline 4 --keys 30", ["acquire", "release"].as_slice()),
        ("pairs", "--connections 1", &["acquire", "release"]),
        ("handoff", "--connections 5 --pipeline 2 --keys 3 --key-size 1024", &["release", "hand-off"]),
        ("keys", "--connections 4 --pipeline 8 --keys 500", &["acquire", "release"]),
        ("keep-alive", "--connections 2 --pipeline 3 --keys 100 --key-size 24", &["extend"]),
    ] {
        let mut args = vec!["bench", workload, "--duration", "200ms", "--json"];
        args.extend(options.split(' '));
        let got = world.outcome(&args);
        assert_eq!((got.code, got.stderr.as_str()), (Some(0), ""), "{got:?}");
        let json = json(&got);
        let found = operations(&json);
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), expected, "{json}");
        assert!(found.iter().all(|(_, count)| *count > 0), "{json}");
        assert_eq!(json["workload"], workload);
        assert_eq!((&json["left_held"], &json["ended_leases"]), (&0.into(), &0.into()), "{json}");
        assert_eq!(
            (&json["errors"], &json["interrupted"]),
            (&Value::Object(Default::default()), &false.into())
        );
        assert!(json["seconds"].as_f64().unwrap() >= 0.2, "{json}");
        assert_nothing_is_held(&world);
    }
}

#[test]
fn waits_end_with_the_lock_or_in_time() {
    let world = world();
    let got = world.outcome(&[
        "bench",
        "wait",
        "--connections",
        "4",
        "--pipeline",
        "10",
        "--duration",
        "1600ms",
        "--json",
    ]);
    assert_eq!(got.code, Some(0), "{got:?}");
    let json = json(&got);
    assert_eq!(json["keys"], 2, "twenty for each");
    let found = operations(&json);
    assert_eq!(
        found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["release", "hand-off", "timeout"]
    );
    // Two keys, each held for 100 ms at a time.
    let turns = json["seconds"].as_f64().unwrap() * 10.0;
    assert!(found[1].1 as f64 <= 2.0 * turns, "{json}");
    // Of twenty, eleven at most had their turn in the first second.
    assert!(found[2].1 >= 2 * 9, "{json}");
    assert_nothing_is_held(&world);
}

#[test]
fn people_read_a_table() {
    let world = world();
    let got = world.outcome(&["bench", "--connections", "1", "--duration", "100ms"]);
    assert_eq!((got.code, got.stderr.as_str()), (Some(0), ""), "{got:?}");
    let lines: Vec<&str> = got.stdout.lines().collect();
    let [title, head, acquire, release] = lines[..] else { panic!("four lines: {got:?}") };
    let server = world.server.address().to_string();
    assert!(title.starts_with(&format!(
        "pairs on {server}: 1 connection, 1 request in flight on each, 1 key of 32 bytes, 0."
    )));
    assert_eq!(
        head.split_whitespace().collect::<Vec<_>>(),
        ["per", "second", "p50", "p90", "p99", "p99.9", "max"]
    );
    for (line, name) in [(acquire, "acquire"), (release, "release")] {
        assert_eq!(line.split_whitespace().next(), Some(name));
        assert_eq!(line.chars().count(), head.chars().count(), "columns in line: {got:?}");
    }
}

#[test]
fn the_plot_is_well_formed_whatever_the_address() {
    let builder = Builder::new(PROGRAM);
    let (address, plot) = (format!("unix:{}/<a>&b", builder.dir().display()), builder.dir().join("plot.svg"));
    let world = World { server: builder.listen(&address).start() };
    let plot_file = plot.to_str().unwrap();
    let options = ["--connections", "4", "--duration", "200ms", "--plot", plot_file];
    let got = world.outcome(&[&["bench", "handoff"], options.as_slice()].concat());
    assert_eq!(got.code, Some(0), "{got:?}");
    let svg = fs::read_to_string(plot).unwrap();
    let elements = elements(&svg);
    assert_eq!(elements[0], "svg");
    assert_eq!(elements.iter().filter(|name| *name == "polyline").count(), 2, "{svg}");
    assert!(svg.contains("&lt;a&gt;&amp;b") && svg.contains(">hand-off<") && svg.contains(">99 %<"), "{svg}");
}

/// The names of all elements of a document without comments and the like, each of which must be closed in its turn.
fn elements(document: &str) -> Vec<String> {
    let (mut names, mut open) = (Vec::new(), Vec::new());
    let mut pieces = document.split('<');
    assert_eq!(pieces.next(), Some(""), "nothing before the first element");
    for piece in pieces {
        let (tag, text) = piece.split_once('>').unwrap_or_else(|| panic!("not closed: {piece}"));
        assert!(!text.contains('>'), "{piece}");
        for entity in text.split('&').skip(1).chain(tag.split('&').skip(1)) {
            assert!(["lt;", "gt;", "amp;"].iter().any(|known| entity.starts_with(known)), "{piece}");
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "{piece}");
            continue;
        }
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        assert_eq!(tag.matches('"').count() % 2, 0, "{piece}");
        let name = tag.split(' ').next().unwrap().to_owned();
        names.push(name.clone());
        if !is_empty {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    names
}

#[test]
fn ctrl_c_ends_it_early_with_a_result_and_nothing_held() {
    let world = world();
    for workload in ["pairs", "handoff", "wait", "keys --keys 500", "keep-alive --keys 500"] {
        let mut args = vec!["bench"];
        args.extend(workload.split(' '));
        let mut terminal = Terminal::start(world.command(&[args, vec!["--duration", "1h"]].concat()));
        // The first line has counted nothing yet.
        terminal.sees("measures: ");
        terminal.sees("measures: ");
        terminal.types("\x03");
        let before = terminal.sees("interrupted");
        assert!(!before.contains("held"), "{before}");
        assert_eq!(terminal.end(), Some(0), "{workload}");
        assert_nothing_is_held(&world);
    }
}

#[test]
fn a_second_ctrl_c_ends_it_at_once() {
    let world = world();
    let mut terminal =
        Terminal::start(world.command(&["bench", "keys", "--keys", "500", "--duration", "1h"]));
    terminal.sees("measures: ");
    world.server.pause();
    terminal.types("\x03");
    terminal.sees("gives locks back: ");
    terminal.types("\x03");
    terminal.sees("end by themselves within 255 s");
    assert_eq!(terminal.end(), Some(130));
}

#[test]
fn a_server_that_dies_is_an_error_and_the_end() {
    let mut world = world();
    let mut terminal =
        Terminal::start(world.command(&["bench", "keep-alive", "--keys", "500", "--duration", "1h"]));
    terminal.sees("measures: ");
    world.server.kill();
    terminal.sees("50 errors connection: ");
    terminal.sees("500 locks may still be held, until their leases end; they begin with bench-");
    assert_eq!(terminal.end(), Some(1));
}

#[test]
fn answers_that_do_not_belong_to_the_workload_are_counted_by_kind() {
    let world = world();
    let got = world.outcome(&["bench", "keys", "--keys", "1000", "--duration", "100ms", "--json"]);
    let found = json(&got);
    assert_eq!(got.code, Some(1), "{found}");
    assert_eq!(found["filled"]["locks"], KEYS, "{found}");
    assert!(found["errors"]["busy_3"].as_u64().unwrap() >= 400, "{found}");
    assert_eq!(found["left_held"], 0, "{found}");
    let got = world.outcome(&["bench", "keys", "--keys", "1000", "--duration", "100ms"]);
    assert!(got.stdout.contains(" errors busy_3: the server has all the keys it may have"), "{got:?}");
    assert_nothing_is_held(&world);
}

#[test]
fn a_lease_that_ends_before_its_turn_is_no_error() {
    let world = World::with(&["--max-lease", "1s"]);
    // One request at a time comes round far too late.
    let options = ["--connections", "1", "--keys", "200000", "--duration", "1500ms", "--json"];
    let got = world.outcome(&[&["bench", "keys"], options.as_slice()].concat());
    let json = json(&got);
    assert_eq!((got.code, &json["errors"]), (Some(0), &Value::Object(Default::default())), "{json}");
    assert!(json["ended_leases"].as_u64().unwrap() > 0, "{json}");
    assert_eq!(json["left_held"], 0, "{json}");
}

#[test]
fn what_cannot_be_done_is_said_before_anything_is() {
    let world = world();
    let refused = world.outcome(&["bench", "handoff", "--connections", "1"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(125), ""));
    assert!(refused.stderr.contains("two contenders for each key"), "{refused:?}");
    let refused = world.outcome(&["bench", "--plot", "/no/such/directory/plot.svg"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(125), ""));
    assert!(refused.stderr.contains("/no/such/directory/plot.svg"), "{refused:?}");
    let mut nobody = world.command(&["bench", "--json"]);
    nobody.env("LOCKSTEAD_SERVER", "unix:/no/such/socket");
    let unreached = outcome(nobody);
    assert_eq!(unreached.code, Some(122), "{unreached:?}");
    assert_eq!(json(&unreached)["outcome"], "unsent");
}
