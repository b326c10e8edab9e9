//! What always holds, one function for each property; tests and simulators call them after every step.
//!
//! Some properties show in the table itself ([`check`] calls all of these), others only in what was asked and
//! answered: [`History`] watches that. A function names what it found when its property does not hold.

mod history;
mod state;

pub use history::History;
pub use state::{
    check, counts_agree_with_contents, free_keys_without_waiters_take_no_memory, keys_have_one_active_token,
    nobody_waits_while_nothing_will_be_granted, timers_are_in_order, waiters_of_free_keys_wait_for_recovery,
};

use alloc::string::String;

/// `Err` tells what does not hold.
pub type Check = Result<(), String>;

/// Makes a failed property a sentence.
fn holds(condition: bool, sentence: impl FnOnce() -> String) -> Check {
    if condition { Ok(()) } else { Err(sentence()) }
}
