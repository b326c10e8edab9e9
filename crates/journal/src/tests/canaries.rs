//! Each fault that the random runs are to find, planted: they find it.

use crate::canary::Canary;
use crate::tests::crash::{Plan, runs};
use crate::tests::model::Habits;

const FIRST: u64 = 500_000;
const MOST: u64 = 300;

fn finds(plan: Plan, canary: Option<Canary>, like: &str) {
    let error = runs(FIRST, MOST, plan, canary).expect_err("the fault is not found");
    assert!(error.contains(like), "found something else: {error}");
    // Without the fault, the same runs are clean.
    let clean = runs(FIRST, 3, Plan { habits: Habits::default(), ..plan }, None);
    clean.unwrap_or_else(|error| panic!("{error}"));
}

fn with_faults() -> Plan {
    Plan { faults: true, ..Plan::default() }
}

#[test]
fn canary_a_forgotten_directory_sync_is_found() {
    let habits = Habits { forgets_names: true, ..Habits::default() };
    finds(Plan { habits, ..Plan::default() }, None, "cut off");
}

#[test]
fn canary_an_answer_before_the_write_returns_is_found() {
    let habits = Habits { answers_early: true, ..Habits::default() };
    finds(Plan { habits, ..Plan::default() }, None, "is lost");
}

#[test]
fn canary_a_dropped_recovery_end_is_found() {
    finds(Plan::default(), Some(Canary::DropRecoveryEnd), "could be granted");
}

#[test]
fn canary_an_end_read_under_another_boot_identity_is_found() {
    finds(Plan::default(), Some(Canary::ForeignEnds), "cut off");
}

#[test]
fn canary_an_append_after_a_failed_write_is_found() {
    finds(with_faults(), Some(Canary::AppendAfterFailure), "damaged at offset");
}

#[test]
fn canary_a_lease_above_a_ceiling_that_is_not_synced_is_found() {
    finds(Plan::default(), Some(Canary::LeaseCeilingUnsynced), "could be granted");
}

#[test]
fn canary_a_token_above_a_ceiling_that_is_not_synced_is_found() {
    finds(Plan::default(), Some(Canary::TokensUnsynced), "token");
}

#[test]
fn canary_old_segments_that_are_void_too_early_are_found() {
    finds(Plan::default(), Some(Canary::VoidUnsynced), "no complete segment");
}
