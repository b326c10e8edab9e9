//! `held`, `keys`: pairs under a condition that must not matter.

use super::fill::{Lease, fill};
use super::{Server, line};
use crate::clients::{KEY_LEN, Run};
use crate::json::Line;
use crate::locker::R;
use crate::run::measured;
use crate::usage::status_kib;

/// Connections, and requests in flight on each.
type Shape = (usize, usize);

fn pairs(server: Server, (conns, depth): Shape, key_len: usize) -> R<Line> {
    let run = Run {
        peer: "lockstead".into(),
        workload: "pairs".into(),
        conns,
        depth,
        port: server.port,
        tag: std::process::id().to_string(),
        key_len,
    };
    let seconds = |name, usual| std::env::var(name).map_or(Ok(usual), |said| said.parse());
    crate::block_on(measured(&run, seconds("WARM", 1.0)?, seconds("SECS", 4.0)?, server.pid))
}

/// `held`: one line about the memory, and one about pairs for each shape.
pub fn held(n: u64, server: Server) -> R<()> {
    let before = status_kib(server.pid, "VmRSS:");
    let filled = fill(server.port, n, None, Lease::Same(255))?;
    let after = status_kib(server.pid, "VmRSS:");
    line("held", n)
        .num("fill_s", filled.took.as_secs_f64(), 2)
        .int("rss_before", before)
        .int("rss_after", after)
        .num("b_rss", (after as f64 - before as f64) * 1024.0 / n as f64, 1)
        .print();
    for shape in [(64, 1), (16, 32)] {
        let line = pairs(server, shape, KEY_LEN)?.int("held", n);
        if filled.begun.elapsed().as_secs() >= 255 {
            return Err("the leases ended while it was measured".into());
        }
        line.print();
    }
    Ok(())
}

/// `keys`: no more than 64 keys, for so many of one byte there are.
pub fn keys(bytes: usize, server: Server) -> R<()> {
    if bytes != 1 && !(KEY_LEN..=1024).contains(&bytes) {
        return Err(format!("a key has 1 byte or {KEY_LEN} to 1024").into());
    }
    for shape in [(64, 1), (2, 32)] {
        pairs(server, shape, bytes)?.int("key_bytes", bytes).print();
    }
    Ok(())
}
