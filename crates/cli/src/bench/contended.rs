//! Keys that several want: who holds them by the generator's own account, and when they were given back.

use std::time::{Duration, Instant};

/// One such key.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// Until when its holder surely holds it.
    held_until: Option<Instant>,
    /// When its last release was about to be sent, until somebody has it again.
    released: Option<Instant>,
}

/// What a grant showed.
#[derive(Debug, PartialEq, Eq)]
pub struct Grant {
    /// How long the hand-off took, if the new holder had been waiting at the release.
    pub handed_off: Option<Duration>,
    /// Whether the lease of another holder still lasts, which must never be.
    pub is_second: bool,
}

/// All contended keys of a run, by number.
#[derive(Debug)]
pub struct Contended(Vec<Use>);

impl Contended {
    /// So many keys, all free.
    pub fn new(keys: u32) -> Self {
        Self(vec![Use::default(); keys as usize])
    }

    /// The holder of this key is about to release it.
    pub fn released(&mut self, key: u64, now: Instant) {
        self.0[key as usize] = Use { held_until: None, released: Some(now) };
    }

    /// Somebody who asked at `asked` learns that this key is theirs until `until`.
    pub fn granted(&mut self, key: u64, asked: Instant, now: Instant, until: Instant) -> Grant {
        let key = &mut self.0[key as usize];
        let is_second = key.held_until.is_some_and(|until| now < until);
        let released = key.released.take().filter(|released| asked < *released);
        key.held_until = Some(until);
        Grant { handed_off: released.map(|released| now - released), is_second }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_off_lasts_from_the_release_to_the_grant_of_one_who_waited() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut keys = Contended::new(2);
        assert_eq!(keys.granted(1, at(0), at(1), at(100)), Grant { handed_off: None, is_second: false });
        keys.released(1, at(5));
        let next = keys.granted(1, at(2), at(7), at(100));
        assert_eq!(next, Grant { handed_off: Some(Duration::from_millis(2)), is_second: false });
        keys.released(1, at(10));
        let late = keys.granted(1, at(11), at(12), at(100));
        assert_eq!(late, Grant { handed_off: None, is_second: false }, "nobody waited");
    }

    #[test]
    fn a_second_holder_is_seen_until_the_first_one_s_lease_ends() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        for (now, is_second) in [(99, true), (100, false)] {
            let mut keys = Contended::new(1);
            keys.granted(0, at(0), at(1), at(100));
            assert_eq!(keys.granted(0, at(2), at(now), at(200)).is_second, is_second);
        }
    }
}
