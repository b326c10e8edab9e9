//! A client and a process that forks (docs/client-contract.md, rule 15).

// These are tests: what must not happen may panic.
#![allow(clippy::unwrap_used)]

#[path = "it/peer.rs"]
#[allow(dead_code)]
mod peer;

use std::io::Write;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lockstead_client::{
    AcquireError, CallError, ExtendError, IndeterminateCause, Lost, ReleaseOutcome, Stats, UnsentCause,
    blocking,
};
use lockstead_proto::{Answer, Extended, Pong, Released, Request};
use peer::{Peer, SECOND, grant};

/// A forked child. Killed when dropped.
struct Child(libc::pid_t);

/// Forks: `None` in the child, which then [`run`]s something.
fn fork() -> Option<Child> {
    // SAFETY: the child makes only what a program may do after a fork, and ends with `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    (pid > 0).then(|| Child(pid))
}

/// The whole life of a child: its status is 0 when `life` does not panic.
fn run(life: impl FnOnce()) -> ! {
    let panic = catch_unwind(AssertUnwindSafe(life)).err();
    if let Some(panic) = &panic {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        // Around the capture of the test harness, which ends with its parent.
        let _ = std::io::stderr().write_all(format!("in the child: {text}\n").as_bytes());
    }
    // SAFETY: it ends the process, and nothing of the parent's runs in it.
    unsafe { libc::_exit(i32::from(panic.is_some())) }
}

impl Child {
    /// Waits for its end, which must be a good one.
    fn join(self) {
        let mut status = 0;
        // SAFETY: `status` may be written to.
        let pid = unsafe { libc::waitpid(self.0, &mut status, 0) };
        assert_eq!((pid, status), (self.0, 0), "the child failed; its stderr says why");
        std::mem::forget(self);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the child was not waited for, so the number is still its own.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// The descriptors of this process that are connected to `address`.
fn sockets_to(address: SocketAddr) -> Vec<i32> {
    (0..1024)
        .filter(|&fd| {
            // SAFETY: it is only looked at, and `forget` leaves it to its owner.
            let socket = unsafe { <socket2::Socket as std::os::fd::FromRawFd>::from_raw_fd(fd) };
            let peer = socket.peer_addr();
            std::mem::forget(socket);
            peer.is_ok_and(|peer| peer.as_socket() == Some(address))
        })
        .collect()
}

/// A peer that grants one lock and then takes an extend and a release, and nothing else.
fn one_lock(peer: Peer) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect_acquire();
        connection.answer(grant(owner, 41, 30));
        connection.expect(|request| match request {
            Request::Extend(extend) => assert_eq!(extend.token, 41),
            other => panic!("{other:?}"),
        });
        connection.answer(Answer::Extended(Extended { token: 41, lease_s: 60 }));
        assert_eq!(connection.expect_release(), 41);
        connection.answer(Answer::Released(Released { token: 41 }));
        assert!(connection.next(|request| panic!("{request:?}")).is_none());
    })
}

#[test]
fn rule15_in_a_forked_child_tickets_and_sessions_are_dead() {
    let peer = Peer::new();
    let address = peer.address;
    let client = peer.blocking_client();
    let script = one_lock(peer);
    let ticket = client.acquire("k").call().unwrap();
    let lost = ticket.lost();
    assert_eq!(sockets_to(address).len(), 1);
    let Some(child) = fork() else {
        run(move || {
            assert_eq!(sockets_to(address), [0; 0], "the descriptors are closed");
            assert!(!ticket.valid() && ticket.valid_for().is_zero());
            assert_eq!(ticket.lost_reason(), Some(Lost::ForkedChild));
            assert_eq!(lost.wait(), Lost::ForkedChild);
            ticket.keep_alive();
            assert_eq!(ticket.extend(SECOND), Err(ExtendError::Lost(Lost::ForkedChild)));
            let unsent = || UnsentCause::ForkedChild;
            assert_eq!(client.acquire("k").call().unwrap_err(), AcquireError::Unsent(unsent()));
            assert_eq!(client.release("k", 41), Ok(ReleaseOutcome::Unsent(unsent())));
            assert_eq!(client.extend("k", 41, SECOND), Err(ExtendError::Unsent(unsent())));
            assert_eq!(client.query("k"), Err(CallError::Unsent(unsent())));
            assert_eq!(client.ping(), Err(CallError::Unsent(unsent())));
            assert_eq!(client.stats(), Stats::default());
            client.shutdown();
            assert_eq!(ticket.release(), ReleaseOutcome::Unsent(unsent()));
            drop(client);
        })
    };
    child.join();
    assert!(ticket.valid());
    assert_eq!(ticket.extend(60 * SECOND).unwrap().lease, 60 * SECOND);
    assert_eq!(ticket.release(), ReleaseOutcome::Released);
    client.shutdown();
    script.join().unwrap();
}

/// The child has its parent's runtime too, and with it the poller that both share.
#[test]
fn rule15_a_child_that_ends_the_parents_runtime_does_the_parent_no_harm() {
    let peer = Peer::new();
    let builder = peer.builder();
    let script = one_lock(peer);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (client, ticket, child) = runtime.block_on(async {
        let client = builder.connect().unwrap();
        let ticket = client.acquire("k").await.unwrap();
        (client, ticket, fork())
    });
    let Some(child) = child else {
        run(move || {
            assert_eq!(ticket.lost_reason(), Some(Lost::ForkedChild));
            drop((ticket, client));
            runtime.block_on(tokio::task::yield_now());
            drop(runtime);
        })
    };
    child.join();
    runtime.block_on(async {
        ticket.extend(60 * SECOND).await.unwrap();
        assert_eq!(ticket.release().await, ReleaseOutcome::Released);
        client.shutdown().await;
    });
    script.join().unwrap();
}

/// What the parent had sent before the fork is not unsent in the child.
#[test]
fn rule15_a_child_does_not_know_how_its_parents_calls_end() {
    let peer = Peer::new();
    let builder = peer.builder();
    let (sent, is_sent) = tokio::sync::oneshot::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        assert_eq!(connection.expect_release(), 7);
        let owner = connection.expect_acquire();
        sent.send(()).unwrap();
        goes_on.recv().unwrap();
        connection.answer(grant(owner, 41, 30));
        connection.answer(Answer::Released(Released { token: 7 }));
        assert!(connection.next(|request| panic!("{request:?}")).is_none());
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = builder.connect().unwrap();
        let mut call = pin!(client.acquire("k").into_future());
        let mut release = pin!(client.release("other", 7));
        tokio::select! {
            outcome = &mut call => panic!("{outcome:?}"),
            outcome = &mut release => panic!("{outcome:?}"),
            () = async { is_sent.await.unwrap() } => {}
        }
        let Some(child) = fork() else {
            run(|| {
                let mut context = Context::from_waker(Waker::noop());
                let Poll::Ready(call) = call.as_mut().poll(&mut context) else { panic!("it is over") };
                let parents = IndeterminateCause::ForkedChild;
                assert_eq!(call.unwrap_err(), AcquireError::Indeterminate(parents));
                let Poll::Ready(release) = release.as_mut().poll(&mut context) else { panic!("it is over") };
                assert_eq!(release, Ok(ReleaseOutcome::Unknown));
            })
        };
        child.join();
        go_on.send(()).unwrap();
        let (call, release) = tokio::join!(call, release);
        assert_eq!((call.unwrap().leave(), release), ((), Ok(ReleaseOutcome::Released)));
        client.shutdown().await;
    });
    script.join().unwrap();
}

#[test]
fn rule15_a_child_does_not_keep_the_parents_connection_open() {
    let peer = Peer::new();
    let client = peer.blocking_client();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect_acquire();
        connection.answer(grant(owner, 41, 30));
        // The end of the stream comes while the child lives.
        assert!(connection.next(|request| panic!("{request:?}")).is_none());
    });
    client.acquire("k").call().unwrap().leave();
    let Some(child) = fork() else {
        run(|| thread::sleep(Duration::from_secs(600)));
    };
    drop(client);
    script.join().unwrap();
    drop(child);
}

#[test]
fn rule15_a_child_may_make_a_client_of_its_own() {
    let peer = Peer::new();
    let address = peer.address;
    let client = peer.blocking_client();
    let child_builder = || blocking::Client::builder().server(&address.to_string()).unwrap();
    let script = thread::spawn(move || {
        let mut parents = peer.welcome();
        let owner = parents.expect_acquire();
        parents.answer(grant(owner, 41, 30));
        let mut childs = peer.welcome();
        let owner = childs.expect_acquire();
        childs.answer(grant(owner, 42, 30));
        assert_eq!(childs.expect_release(), 42);
        childs.answer(Answer::Released(Released { token: 42 }));
        assert_eq!(parents.expect_release(), 41);
        parents.answer(Answer::Released(Released { token: 41 }));
    });
    let ticket = client.acquire("k").call().unwrap();
    let Some(child) = fork() else {
        run(move || {
            let own = child_builder().connect().unwrap();
            let second = own.acquire("k").call().unwrap();
            assert_eq!((second.token(), second.valid()), (42, true));
            assert!(!ticket.valid());
            assert_eq!(second.release(), ReleaseOutcome::Released);
            assert_eq!(sockets_to(address).len(), 1);
        })
    };
    child.join();
    assert_eq!(ticket.release(), ReleaseOutcome::Released);
    script.join().unwrap();
}

#[test]
fn rule15_sockets_are_close_on_exec() {
    let peer = Peer::new();
    let address = peer.address;
    let client = peer.blocking_client();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let id = connection.expect(|request| match request {
            Request::Ping(ping) => ping.id,
            other => panic!("{other:?}"),
        });
        connection.answer(Answer::Pong(Pong { id }));
        assert!(connection.next(|request| panic!("{request:?}")).is_none());
    });
    client.ping().unwrap();
    let sockets = sockets_to(address);
    assert_eq!(sockets.len(), 1);
    for fd in sockets {
        // SAFETY: it asks for the flags of a descriptor.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    }
    drop(client);
    script.join().unwrap();
}
