//! The server's side of one connection, as a pure value.
