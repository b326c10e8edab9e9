//! P10: the wall clock of a running server jumps by a day, forward and back.

use lockstead_testkit::wall_clock::WallClock;
use lockstead_testkit::{Builder, Ends, Grant, Raw, Server, frame, load};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
const SECOND: Duration = Duration::from_secs(1);
const DAY_S: i64 = 86_400;
const DAY_US: u64 = 86_400_000_000;

/// More grants than any block of tokens has.
const MOST_GRANTS: u64 = 4_000_000;

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_micros() as u64
}

/// A held key of 5 s with a waiter, both of which the jump must not touch.
struct Lease {
    session: Raw,
    key: &'static str,
    held: Grant,
    sent: Instant,
}

impl Lease {
    fn begin(server: &Server, key: &'static str) -> Self {
        let mut session = server.connect();
        let held = session.hold(5, 1, key);
        let sent = Instant::now();
        session.send(&frame::acquire(60, 60, 2, key));
        session.ping();
        Self { session, key, held, sent }
    }

    /// Waits for its end; the next token.
    fn end(mut self, ends: &mut Ends) -> u64 {
        // Whoever polls from now on may not change it either.
        let next = self.session.granted(2, self.sent, 10 * SECOND, "the end of a lease across the jump");
        ends.judge(self.held.begun(), 5 * SECOND, next.at);
        self.session.release(next.token, self.key);
        next.token
    }
}

/// Year, month and day of an instant, by the proleptic Gregorian calendar (days since 1970).
fn date(unix_s: i64) -> String {
    let mut days = unix_s.div_euclid(DAY_S);
    let mut year = 1970;
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    while days >= 365 + i64::from(leap(year)) {
        days -= 365 + i64::from(leap(year));
        year += 1;
    }
    let february = 28 + i64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", days + 1)
}

#[test]
fn p10_a_jump_of_the_wall_clock_changes_no_end_and_no_order() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let clock = WallClock::new(dir.path());
    let mut builder = Builder::new(PROGRAM).listen("127.0.0.1:0").args(&["--drain-grace", "0s"]);
    for (name, value) in clock.env() {
        builder = builder.env(name, value);
    }
    let mut server = builder.start();
    let mut session = server.connect();
    let mut ends = Ends::of("P10: lease of 5 s across a jump of the wall clock");
    let first = session.hold(1, 1, "first").token;
    assert!(first.abs_diff(now_us()) < 600_000_000, "token {first} is not the wall clock's microseconds");

    // Forward. That the clock has really jumped inside the server is seen in the tokens, when a new block
    // begins.
    let lease = Lease::begin(&server, "forward");
    thread::sleep(SECOND / 2);
    clock.set_offset_s(DAY_S);
    let mut last = 0;
    let mut jumped = false;
    let grants = load::acquire_and_release(&mut session, "f", 0, MOST_GRANTS, |token| {
        jumped |= token > first + DAY_US / 2;
        last = token;
        !jumped
    });
    assert!(jumped, "after {grants} grants the tokens do not show the jump: last {last}, first {first}");
    println!("P10: the jump showed within {grants} grants: {first} … {last}");
    assert!(last.abs_diff(now_us() + DAY_US) < 600_000_000, "token {last} is not the shifted wall clock");
    let token = lease.end(&mut ends);
    assert!(token > first);

    // Back, to a day before the truth. Tokens go on rising (the load checks each), across a new block too.
    let lease = Lease::begin(&server, "back");
    thread::sleep(SECOND / 2);
    clock.set_offset_s(-DAY_S);
    let before = last;
    load::acquire_and_release(&mut session, "b", 0, grants + 10_000, |token| {
        last = token;
        true
    });
    assert!(last > before);
    let token = lease.end(&mut ends);
    assert!(token > before, "token {token} after {before}");
    ends.finish();

    // That it has really gone back is seen in the log.
    session.hold(60, 1, "forgotten");
    server.terminate();
    let true_s = now_us() as i64 / 1_000_000;
    assert!(server.wait_exit(10 * SECOND, "the end of the drain").success());
    let log = server.stderr();
    let yesterday = [date(true_s - DAY_S), date(true_s - DAY_S + 10)];
    assert!(yesterday.iter().any(|date| log.contains(date)), "no line of {yesterday:?} in the log:\n{log}");
}

#[test]
fn dates_are_counted_rightly() {
    assert_eq!(date(0), "1970-01-01");
    assert_eq!(date(951_782_400), "2000-02-29");
    assert_eq!(date(1_735_689_599), "2024-12-31");
    assert_eq!(date(1_735_689_600), "2025-01-01");
}
