//! Reads the values of options: durations, keys, tokens, addresses. Each refusal is a sentence that says what would
//! have been right.

use std::time::Duration;

use lockstead_client::{Address, AddressError};

/// The longest wait, and the longest lease: what one byte of the wire can say in seconds.
pub const LONGEST: Duration = Duration::from_secs(255);

/// A duration like `10s`, `1m30s` or `500ms`.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 10s, 1m30s or 500ms"))
}

/// How long to wait for a lock: at most 255 s; 0 asks once and does not queue.
pub fn wait(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        wait if wait > LONGEST => Err("a wait is at most 255s; there is no endless wait".to_owned()),
        wait => Ok(wait),
    }
}

/// How long a lock is kept without a word from its holder: more than 0, at most 255 s.
pub fn lease(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        lease if lease.is_zero() || lease > LONGEST => {
            Err("a lease is more than 0s and at most 255s".to_owned())
        }
        lease => Ok(lease),
    }
}

/// The longest lease that a server grants: whole seconds, 1 to 255.
pub fn max_lease_s(text: &str) -> Result<u8, String> {
    let longest = duration(text)?;
    u8::try_from(longest.as_secs())
        .ok()
        .filter(|s| *s > 0 && longest.subsec_nanos() == 0)
        .ok_or_else(|| "the longest lease is whole seconds, from 1s to 255s".to_owned())
}

/// A key: 1 to 1024 bytes, no newline.
pub fn key(text: &str) -> Result<String, lockstead_client::KeyError> {
    lockstead_proto::check_key(text).map(|()| text.to_owned())
}

/// An address: `host:port` or `unix:/path`.
pub fn address(text: &str) -> Result<Address, AddressError> {
    Address::parse(text)
}

/// A duration for people, in tenths of a second and rounded down: what is said to be valid must be. Options take
/// this form too.
pub fn seconds(span: Duration) -> String {
    format!("{}.{}s", span.as_secs(), span.subsec_millis() / 100)
}

/// A duration for programs: milliseconds, rounded down.
pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A number of things that the server may hold: at least `least`, and few enough for its table.
pub fn count(least: u32) -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(least)..i64::from(1_u32 << 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_people_write_them() {
        assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("28.4s"), Ok(Duration::from_millis(28_400)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for bad in ["", "10", "s", "-1s", "ten"] {
            let why = duration(bad).unwrap_err();
            assert!(why.ends_with("write it like 10s, 1m30s or 500ms"), "{bad}: {why}");
        }
    }

    #[test]
    fn waits_and_leases_have_ends() {
        assert_eq!(wait("0s"), Ok(Duration::ZERO));
        assert_eq!(wait("255s"), Ok(LONGEST));
        assert!(wait("255001ms").is_err());
        assert_eq!(lease("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(lease("255s"), Ok(LONGEST));
        assert!(lease("0s").is_err());
        assert!(lease("256s").is_err());
        assert_eq!(max_lease_s("4m15s"), Ok(255));
        for bad in ["0s", "500ms", "1500ms", "256s", "512s"] {
            assert!(max_lease_s(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_validity_is_never_overstated() {
        assert_eq!(seconds(Duration::from_millis(28_499)), "28.4s");
        assert_eq!(seconds(Duration::from_millis(99)), "0.0s");
        assert_eq!(millis(Duration::from_micros(1_999)), 1);
    }
}
