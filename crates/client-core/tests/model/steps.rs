//! What can happen.

use lockstead_proto::ErrorCode;
use proptest::prelude::*;

/// One thing that happens. Indices choose among what is there, modulo their number.
#[derive(Clone, Debug)]
pub enum Step {
    /// The program does something.
    Program(Deed),
    /// Bytes move, or a connection changes.
    Network(Event),
    /// A server does something.
    Server(Whim),
    /// Everything moves and every ready outcome is taken.
    Flow,
    /// Time passes; what becomes due on the way is done at its own instant.
    Pass(u16),
    /// Time passes without anybody looking: the process or the machine was stopped.
    Sleep(u16),
    /// The very instant at which something is due is here, and something else comes first.
    ToNextDue,
}

/// What the program does.
#[derive(Clone, Debug)]
pub enum Deed {
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
    /// It releases by its token a lock that it has left.
    ReleaseLeft(u8),
    Forget(u8),
    Shutdown,
}

/// What the network does.
#[derive(Clone, Debug)]
pub enum Event {
    /// The transport is open.
    Connect(u8),
    /// The kernel accepts so many bytes.
    Room { wire: u8, bytes: u8 },
    /// The server reads so many bytes.
    ToServer { wire: u8, bytes: u8 },
    /// So many bytes reach the client.
    ToClient { wire: u8, bytes: u8 },
    /// The connection breaks.
    Cut(u8),
    /// Nothing gets through any more, or again.
    Mute { wire: u8, mute: bool },
    /// From now on the address leads to this server.
    Lead { address: u8, server: u8 },
}

/// What a server does.
#[derive(Clone, Copy, Debug)]
pub enum Whim {
    /// It answers hellos like this from now on.
    Greet { server: u8, how: Greeting },
    /// It grants, or tells everybody that it is busy and extends nothing.
    Fail { server: u8, failing: bool },
    /// It claims a far too long wait with its next grant.
    Lie(u8),
    /// It refuses its next acquire as such.
    Reject(u8),
    /// It answers an attempt that this connection did not send, or not any more.
    Stray { wire: u8, call: u8, granted: bool },
    /// It sends its last answer of one of these kinds again.
    Repeat(u8),
    /// It gives the session up with an error: about a call, or about nothing.
    GiveUp { wire: u8, call: Option<u8>, closing: bool },
    /// It sends nonsense.
    Garbage(u8),
}

/// How a server answers a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    Welcome,
    OldVersion,
    Refuse(ErrorCode),
    Silence,
}

fn deed() -> impl Strategy<Value = Deed> {
    use Deed::{
        Acquire, Cancel, Drop, Extend, Forget, KeepAlive, Leave, Ping, Query, Release, ReleaseLeft, Shutdown,
        Take,
    };
    let waits = prop_oneof![Just(0_u16), 1..3_000_u16, 3_000..20_000_u16];
    prop_oneof![
        80 => (0..3_u8, waits, 1..25_u8).prop_map(|(key, wait_ms, lease_s)| Acquire { key, wait_ms, lease_s }),
        60 => any::<u8>().prop_map(Take),
        30 => any::<u8>().prop_map(Cancel),
        30 => any::<u8>().prop_map(Release),
        20 => any::<u8>().prop_map(Drop),
        10 => any::<u8>().prop_map(Leave),
        30 => (any::<u8>(), 1..30_u8).prop_map(|(ticket, lease_s)| Extend { ticket, lease_s }),
        20 => (any::<u8>(), prop::option::of(1..20_u8)).prop_map(|(ticket, max_s)| KeepAlive { ticket, max_s }),
        10 => Just(Ping),
        10 => (0..3_u8).prop_map(Query),
        10 => any::<u8>().prop_map(ReleaseLeft),
        5 => any::<u8>().prop_map(Forget),
        1 => Just(Shutdown),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    use Event::{Connect, Cut, Lead, Mute, Room, ToClient, ToServer};
    let few = prop_oneof![1..40_u8, Just(255)];
    prop_oneof![
        6 => any::<u8>().prop_map(Connect),
        6 => (any::<u8>(), few.clone()).prop_map(|(wire, bytes)| Room { wire, bytes }),
        8 => (any::<u8>(), few.clone()).prop_map(|(wire, bytes)| ToServer { wire, bytes }),
        8 => (any::<u8>(), few).prop_map(|(wire, bytes)| ToClient { wire, bytes }),
        1 => any::<u8>().prop_map(Cut),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(wire, mute)| Mute { wire, mute }),
        1 => (0..2_u8, 0..3_u8).prop_map(|(address, server)| Lead { address, server }),
    ]
}

fn whim() -> impl Strategy<Value = Whim> {
    use Whim::{Fail, Garbage, GiveUp, Greet, Lie, Reject, Repeat, Stray};
    let codes = [
        ErrorCode::NotAuthenticated,
        ErrorCode::Forbidden,
        ErrorCode::UnsupportedVersion,
        ErrorCode::OverLimits,
        ErrorCode::BadKey,
    ];
    let greeting = prop_oneof![
        6 => Just(Greeting::Welcome),
        1 => Just(Greeting::OldVersion),
        2 => prop::sample::select(codes.to_vec()).prop_map(Greeting::Refuse),
        1 => Just(Greeting::Silence),
    ];
    let call = prop::option::of(any::<u8>());
    prop_oneof![
        3 => (0..3_u8, greeting).prop_map(|(server, how)| Greet { server, how }),
        3 => (0..3_u8, any::<bool>()).prop_map(|(server, failing)| Fail { server, failing }),
        3 => (0..3_u8).prop_map(Lie),
        2 => (0..3_u8).prop_map(Reject),
        3 => (any::<u8>(), any::<u8>(), any::<bool>())
            .prop_map(|(wire, call, granted)| Stray { wire, call, granted }),
        3 => any::<u8>().prop_map(Repeat),
        2 => (any::<u8>(), call, any::<bool>()).prop_map(|(wire, call, closing)| GiveUp { wire, call, closing }),
        1 => any::<u8>().prop_map(Garbage),
    ]
}

pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        30 => deed().prop_map(Step::Program),
        30 => event().prop_map(Step::Network),
        6 => whim().prop_map(Step::Server),
        7 => Just(Step::Flow),
        6 => prop_oneof![0..50_u16, 50..1_500_u16, 1_500..7_000_u16].prop_map(Step::Pass),
        1 => prop_oneof![0..50_u16, 50..1_500_u16, 1_500..20_000_u16].prop_map(Step::Sleep),
        3 => Just(Step::ToNextDue),
    ]
}
