//! A peer that does what its test says, on a real socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use lockstead_client::{Builder, Client, blocking};
use lockstead_proto::{Acquired, Answer, Request, Welcome, decode_request};

pub const SECOND: Duration = Duration::from_secs(1);

/// Longer than anything here may take; a test that waits so long has failed.
pub const LONG: Duration = Duration::from_secs(20);

/// A listener that plays a server.
pub struct Peer {
    listener: TcpListener,
    pub address: SocketAddr,
}

/// One accepted connection.
pub struct Connection {
    pub stream: TcpStream,
    input: Vec<u8>,
}

impl Peer {
    pub fn new() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap())
    }

    pub fn at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        Self { listener, address }
    }

    /// A client that knows this peer.
    pub fn client(&self) -> Client {
        self.builder().connect().unwrap()
    }

    pub fn builder(&self) -> Builder {
        Client::builder().server(&self.address.to_string()).unwrap()
    }

    /// A blocking client that knows this peer.
    pub fn blocking_client(&self) -> blocking::Client {
        blocking::Client::builder().server(&self.address.to_string()).unwrap().connect().unwrap()
    }

    /// Accepts without saying anything.
    pub fn accept(&self) -> Connection {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_nodelay(true).unwrap();
        Connection { stream, input: Vec::new() }
    }

    /// Accepts, and welcomes the client.
    pub fn welcome(&self) -> Connection {
        self.welcome_as("id=00112233445566778899aabbccddeeff")
    }

    /// Accepts, and welcomes the client with this text.
    pub fn welcome_as(&self, text: &str) -> Connection {
        let mut connection = self.accept();
        let (version, id) = connection.expect(|request| match request {
            Request::Hello(hello) => (hello.version, hello.id),
            other => panic!("{other:?} before the welcome"),
        });
        connection.answer(Answer::Welcome(Welcome { version, id, text }));
        connection
    }
}

impl Connection {
    /// Waits for the next request; `None` when the client has closed.
    pub fn next<R>(&mut self, read: impl FnOnce(Request<'_>) -> R) -> Option<R> {
        let mut chunk = [0; 4096];
        loop {
            if let Some((request, used)) = decode_request(&self.input).unwrap() {
                let result = read(request);
                self.input.drain(..used);
                return Some(result);
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(length) => self.input.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The next request.
    pub fn expect<R>(&mut self, read: impl FnOnce(Request<'_>) -> R) -> R {
        self.next(read).expect("the client closed instead of sending")
    }

    /// The owner of the next request, which is an acquire.
    pub fn expect_acquire(&mut self) -> u64 {
        self.expect(|request| match request {
            Request::Acquire(acquire) => acquire.owner,
            other => panic!("{other:?} instead of an acquire"),
        })
    }

    /// The token of the next request, which is a release.
    pub fn expect_release(&mut self) -> u64 {
        self.expect(|request| match request {
            Request::Release(release) => release.token,
            other => panic!("{other:?} instead of a release"),
        })
    }

    pub fn answer(&mut self, answer: Answer<'_>) {
        let mut bytes = Vec::new();
        answer.encode(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }
}

pub fn grant(owner: u64, token: u64, lease_s: u8) -> Answer<'static> {
    Answer::Acquired(Acquired { owner, token, lease_s, waited_ms: 0 })
}
