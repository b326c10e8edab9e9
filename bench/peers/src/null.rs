//! The 'null' peers: read a 20-byte frame, answer 20 bytes. Nothing else.
//! They are the floor for any request/response server over loopback TCP.

mod epoll;
mod runtime;
mod uring;

pub use epoll::serve as epoll_server;
pub use runtime::serve as tokio_server;
pub use uring::serve as uring_server;

pub const FRAME: usize = 20;
