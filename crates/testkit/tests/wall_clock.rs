//! The shifted wall clock, shown on a program that prints the time.

use lockstead_testkit::wall_clock::WallClock;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

const DAY_S: i64 = 86_400;

fn seconds_shown(clock: &WallClock) -> i64 {
    let output = Command::new("date").arg("+%s").envs(clock.env()).output().expect("date(1) runs");
    String::from_utf8(output.stdout).expect("date prints ASCII").trim().parse().expect("date prints a number")
}

fn seconds_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs() as i64
}

#[test]
fn the_wall_clock_of_a_preloaded_program_jumps_as_told() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let clock = WallClock::new(dir.path());
    for offset_s in [0, DAY_S, -DAY_S, 0] {
        clock.set_offset_s(offset_s);
        let shift = seconds_shown(&clock) - seconds_now();
        assert!((shift - offset_s).abs() <= 2, "shifted by {shift} s instead of {offset_s} s");
    }
}
