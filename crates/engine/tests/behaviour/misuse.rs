//! What a caller must not do: each precondition that the documentation names is checked.

use crate::world::{SEED, World};
use lockstead_engine::{Command, Engine, Instant, Limits, SessionId};

fn engine() -> Engine {
    Engine::new(Limits::default(), SEED, Instant(1000), None)
}

#[test]
#[should_panic(expected = "time never goes back")]
fn time_does_not_go_back() {
    let _ = engine().advance(Instant(999), 1, &mut Vec::new());
}

#[test]
#[should_panic(expected = "an instant is below 2^48")]
fn time_is_in_milliseconds() {
    let mut engine = engine();
    let _ = engine.advance(Instant(Instant::LIMIT.0 - 1), 1, &mut Vec::new());
    let _ = engine.advance(Instant::LIMIT, 1, &mut Vec::new());
}

#[test]
#[should_panic(expected = "what is due comes before any request")]
fn commands_wait_for_what_is_due() {
    let mut world = World::new();
    let session = world.open();
    world.take(session, "k", 1);
    let command = Command::Query { id: 1, key: "k" };
    world.engine.run(Instant(1001), session, command, &mut Vec::new());
}

#[test]
#[should_panic(expected = "a block of tokens lies above every earlier token")]
fn tokens_are_not_given_twice() {
    let mut world = World::new();
    let session = world.open();
    world.take(session, "k", 1);
    world.engine.supply_tokens(1, 10);
}

#[test]
#[should_panic(expected = "a block of tokens lies above every earlier token")]
fn restored_tokens_are_not_given_again() {
    let mut engine = engine();
    engine.restore("k", 70, Instant(2000));
    engine.restore("l", 60, Instant(2000));
    engine.supply_tokens(70, 10);
}

#[test]
#[should_panic(expected = "a block of tokens lies above every earlier token")]
fn zero_is_no_token() {
    engine().supply_tokens(0, 10);
}

#[test]
#[should_panic(expected = "the caller supplies tokens before they run out")]
fn tokens_do_not_run_out() {
    let mut engine = engine();
    engine.supply_tokens(5, 2);
    let session = engine.open_session();
    for key in ["k", "l", "m"] {
        let command = Command::Acquire { wait_s: 0, lease_s: 1, owner: 1, key };
        engine.run(Instant(1000), session, command, &mut Vec::new());
    }
}

#[test]
#[should_panic(expected = "a key is restored once")]
fn a_key_is_not_restored_twice() {
    let mut engine = engine();
    engine.restore("k", 1, Instant(2000));
    engine.restore("k", 2, Instant(2000));
}

#[test]
#[should_panic(expected = "leases are restored before tokens are supplied")]
fn leases_are_restored_first() {
    let mut engine = engine();
    engine.supply_tokens(5, 1);
    engine.restore("k", 1, Instant(2000));
}

#[test]
#[should_panic(expected = "in order")]
fn leases_are_restored_in_order() {
    let mut engine = engine();
    engine.restore("k", 1, Instant(2000));
    engine.restore("l", 2, Instant(1999));
}

#[test]
#[should_panic(expected = "the session is open")]
fn a_session_that_is_not_open_is_not_closed() {
    engine().close_session(Instant(1000), SessionId(0), [], &mut Vec::new());
}

#[test]
fn tokens_come_from_the_block_supplied_last() {
    let mut world = World::restored(Limits::default(), None, &[("r", 8, 100), ("s", 3, 100)]);
    assert_eq!((world.engine.last_token(), world.engine.tokens_left()), (8, 1 << 40));
    let session = world.open();
    assert_eq!(world.take(session, "k", 1).token, 9);
    assert_eq!((world.engine.last_token(), world.engine.tokens_left()), (9, (1 << 40) - 1));
    // Unused tokens of the old block may be supplied again, a gap may be left.
    world.engine.supply_tokens(10, 1);
    assert_eq!(world.take(session, "l", 1).token, 10);
    assert_eq!(world.engine.tokens_left(), 0);
    world.engine.supply_tokens(1000, 2);
    assert_eq!((world.engine.last_token(), world.engine.tokens_left()), (10, 2));
    assert_eq!(world.take(session, "m", 1).token, 1000);
}
