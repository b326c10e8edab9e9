//! A TCP relay with faults, to stand between a client and its server.
//!
//! It relays bytes and ends as they come until it is told a [`Command`]. A fault holds for all connections, those that
//! are made later too, until [`Command::Heal`].

mod faults;
mod link;

use faults::Shared;
use link::Link;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// A fault, or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// What goes this way arrives so much later.
    Delay(Direction, Duration),
    /// What goes this way arrives one byte at a time.
    Split(Direction),
    /// Nothing goes this way, ends included; what was sent arrives after the healing. With `Up` no new connection
    /// reaches the server either.
    Blackhole(Direction),
    /// The connection on which so many more bytes have gone this way is then ended on both sides.
    Cut {
        /// Which way.
        direction: Direction,
        /// How many bytes still arrive.
        bytes: u64,
        /// By a reset, or by end of stream.
        reset: bool,
    },
    /// The next answer with this op vanishes.
    DropAnswer(u8),
    /// Every connection is reset on both sides; new ones are relayed.
    Reset,
    /// New connections are reset at once.
    Refuse,
    /// No more faults; what was held back goes on.
    Heal,
}

/// A proxy at work. Dropping it resets its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    links: Arc<Mutex<Vec<Weak<Link>>>>,
}

impl Proxy {
    /// Relays from a free port to `to`.
    ///
    /// # Errors
    /// When no socket can be opened.
    pub fn start(to: SocketAddr) -> io::Result<Self> {
        Self::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), to)
    }

    /// Relays from `listen` to `to`.
    ///
    /// # Errors
    /// When the socket cannot be opened.
    pub fn listen(listen: SocketAddr, to: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        let proxy = Self { address: listener.local_addr()?, shared: Arc::default(), links: Arc::default() };
        let (shared, links) = (proxy.shared.clone(), proxy.links.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if shared.ended() {
                    return;
                }
                let (shared, links) = (shared.clone(), links.clone());
                std::thread::spawn(move || relay(client, to, &shared, &links));
            }
        });
        Ok(proxy)
    }

    /// Where clients find it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Brings a fault about, or ends all.
    pub fn apply(&self, command: Command) {
        match command {
            Command::Reset => self.reset(),
            fault => self.shared.change(|faults| faults.apply(fault)),
        }
    }

    fn reset(&self) {
        let links = std::mem::take(&mut *self.links.lock().unwrap_or_else(PoisonError::into_inner));
        links.iter().filter_map(Weak::upgrade).for_each(|link| link.end(true));
        // Writers that are held back look again.
        self.shared.change(|_| ());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.end();
        self.reset();
        // Wakes the listener's thread, which then ends.
        let _ = TcpStream::connect(self.address);
    }
}

/// One connection: to the server as soon as the way is open, then both ways until it ends.
fn relay(client: TcpStream, to: SocketAddr, shared: &Arc<Shared>, links: &Mutex<Vec<Weak<Link>>>) {
    let refused = shared.wait_until_open(Direction::Up).is_none_or(|faults| faults.refuse);
    // Whoever sees the connection at the server can count on a `reset` that reaches it: it waits for this lock.
    let mut links = links.lock().unwrap_or_else(PoisonError::into_inner);
    let server = if refused { Err(io::ErrorKind::ConnectionRefused.into()) } else { TcpStream::connect(to) };
    let Ok(server) = server else {
        link::reset_on_drop(&client);
        return;
    };
    if let Ok(link) = Link::new(client, server) {
        let link = Arc::new(link);
        links.push(Arc::downgrade(&link));
        link::start(&link, shared);
    }
}

impl FromStr for Command {
    type Err = String;

    /// Reads a line such as `delay up 200`, `split down`, `blackhole up`, `cut down 12 reset`, `drop E`, `reset`,
    /// `refuse` or `heal`.
    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |word: &str| word.parse::<u64>().map_err(|_| format!("`{word}` is not a number"));
        Ok(match words[..] {
            ["delay", way, ms] => Self::Delay(direction(way)?, Duration::from_millis(number(ms)?)),
            ["split", way] => Self::Split(direction(way)?),
            ["blackhole", way] => Self::Blackhole(direction(way)?),
            ["cut", way, bytes, how @ ("close" | "reset")] => {
                Self::Cut { direction: direction(way)?, bytes: number(bytes)?, reset: how == "reset" }
            }
            ["drop", op] if op.len() == 1 => Self::DropAnswer(op.as_bytes()[0]),
            ["reset"] => Self::Reset,
            ["refuse"] => Self::Refuse,
            ["heal"] => Self::Heal,
            _ => return Err(format!("`{line}` is no command")),
        })
    }
}

fn direction(word: &str) -> Result<Direction, String> {
    match word {
        "up" => Ok(Direction::Up),
        "down" => Ok(Direction::Down),
        _ => Err(format!("`{word}` is neither up nor down")),
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "up",
            Self::Down => "down",
        })
    }
}
