//! What can happen.

use proptest::prelude::*;

/// One thing that happens. Indices choose among what is there, modulo their number.
#[derive(Clone, Debug)]
pub enum Step {
    Acquire {
        key: u8,
        wait_ms: u16,
        lease_s: u8,
    },
    Take(u8),
    Cancel(u8),
    Release(u8),
    Drop(u8),
    Leave(u8),
    Extend {
        ticket: u8,
        lease_s: u8,
    },
    KeepAlive {
        ticket: u8,
        max_s: Option<u8>,
    },
    Ping,
    Query(u8),
    /// The transport is open.
    Connect(u8),
    /// The kernel accepts so many bytes.
    Room {
        session: u8,
        bytes: u8,
    },
    /// The server reads so many bytes.
    ToServer {
        session: u8,
        bytes: u8,
    },
    /// So many bytes reach the client.
    ToClient {
        session: u8,
        bytes: u8,
    },
    /// The connection breaks.
    Cut(u8),
    /// An answer that nobody asked for here.
    Stray {
        session: u8,
        call: u8,
    },
    /// Everything moves and every ready outcome is taken.
    Flow,
    Pass(u16),
}

pub fn step() -> impl Strategy<Value = Step> {
    use Step::{
        Acquire, Cancel, Connect, Cut, Drop, Extend, Flow, KeepAlive, Leave, Pass, Ping, Query, Release,
        Room, Stray, Take, ToClient, ToServer,
    };
    let waits = prop_oneof![Just(0_u16), 1..3_000_u16, 3_000..20_000_u16];
    let few = prop_oneof![1..40_u8, Just(255)];
    prop_oneof![
        8 => (0..3_u8, waits, 1..12_u8).prop_map(|(key, wait_ms, lease_s)| Acquire { key, wait_ms, lease_s }),
        6 => any::<u8>().prop_map(Take),
        3 => any::<u8>().prop_map(Cancel),
        3 => any::<u8>().prop_map(Release),
        2 => any::<u8>().prop_map(Drop),
        1 => any::<u8>().prop_map(Leave),
        3 => (any::<u8>(), 1..30_u8).prop_map(|(ticket, lease_s)| Extend { ticket, lease_s }),
        2 => (any::<u8>(), prop::option::of(1..20_u8)).prop_map(|(ticket, max_s)| KeepAlive { ticket, max_s }),
        1 => Just(Ping),
        1 => (0..3_u8).prop_map(Query),
        6 => any::<u8>().prop_map(Connect),
        6 => (any::<u8>(), few.clone()).prop_map(|(session, bytes)| Room { session, bytes }),
        8 => (any::<u8>(), few.clone()).prop_map(|(session, bytes)| ToServer { session, bytes }),
        8 => (any::<u8>(), few).prop_map(|(session, bytes)| ToClient { session, bytes }),
        1 => any::<u8>().prop_map(Cut),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(session, call)| Stray { session, call }),
        6 => Just(Flow),
        6 => prop_oneof![0..50_u16, 50..1_500_u16, 1_500..7_000_u16].prop_map(Pass),
    ]
}
