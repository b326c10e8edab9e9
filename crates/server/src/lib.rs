//! The Lockstead server's shell: sockets, clock and driver.
