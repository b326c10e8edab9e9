//! What the kernel says about a running process.

use crate::raw::Raw;
use std::fs;
use std::time::Duration;

/// Resident memory in KiB.
///
/// # Panics
/// When the process is gone.
pub fn rss_kib(pid: u32) -> u64 {
    let status = read(&format!("/proc/{pid}/status"));
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a running process has a VmRSS");
    let number = line.split_ascii_whitespace().nth(1).expect("VmRSS has a number");
    number.parse().expect("VmRSS is a number")
}

/// Processor time used by all threads so far.
///
/// # Panics
/// When the process is gone.
pub fn cpu_time(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("a running process has threads");
    let nanos = tasks.filter_map(|task| {
        let path = task.expect("threads can be listed").path().join("schedstat");
        // A thread that has just ended has no numbers any more.
        fs::read_to_string(path).ok()
    });
    Duration::from_nanos(nanos.map(|line| first_number(&line)).sum())
}

/// How many file descriptors are open.
///
/// # Panics
/// When the process is gone.
pub fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("a running process has descriptors").count()
}

/// Bytes on their way from one IPv4 port to another of this machine: those the sender has not seen
/// acknowledged, and those that are acknowledged and not read. (Bytes may be counted twice for a moment,
/// never left out.)
pub(crate) fn tcp_queues(from: u16, to: u16) -> usize {
    let queue = |from, to, part| {
        let queues = tcp_field(from, to, QUEUES)?;
        queues.split(':').nth(part).map(hex)
    };
    queue(from, to, 0).unwrap_or(0) + queue(to, from, 1).unwrap_or(0)
}

/// When the next keepalive probe of the server's end of an IPv4 connection is due; `None` when it sends none.
///
/// # Panics
/// When the connection is gone, or is no TCP connection.
pub fn tcp_keepalive(session: &Raw) -> Option<Duration> {
    const KEEPALIVE: &str = "02";
    let (here, server) = session.ports();
    let timer = tcp_field(server, here, TIMER).expect("an open connection is in the table");
    let (kind, ticks) = timer.split_once(':').expect("a timer has a kind and a time");
    // In hundredths of a second, whatever the kernel's own tick.
    (kind == KEEPALIVE).then(|| Duration::from_millis(10 * hex(ticks) as u64))
}

/// Fields of a line of /proc/net/tcp.
const QUEUES: usize = 4;
const TIMER: usize = 5;

/// A field of the socket that connects two IPv4 ports of this machine, seen from the first.
fn tcp_field(local: u16, remote: u16, field: usize) -> Option<String> {
    let table = read("/proc/net/tcp");
    let fields = |line: &str| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut lines = table.lines().skip(1).map(fields);
    let mut line = lines.find(|fields| port(&fields[1]) == local && port(&fields[2]) == remote)?;
    Some(line.swap_remove(field))
}

/// What the kernel accepts at most from the sender of a Unix-domain stream.
pub(crate) fn unix_send_buffer() -> usize {
    read("/proc/sys/net/core/wmem_default").trim().parse().expect("wmem_default is a number")
}

fn port(address: &str) -> u16 {
    hex(address.rsplit(':').next().expect("an address has a port")) as u16
}

fn hex(number: &str) -> usize {
    usize::from_str_radix(number, 16).expect("a hexadecimal number")
}

fn first_number(line: &str) -> u64 {
    let number = line.split_ascii_whitespace().next().expect("schedstat has numbers");
    number.parse().expect("schedstat begins with a number")
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory_time_and_descriptors() {
        let pid = std::process::id();
        assert!(rss_kib(pid) > 500);
        let before = cpu_time(pid);
        let mut sum = 0u64;
        while cpu_time(pid) < before + Duration::from_millis(5) {
            sum = (0..100_000).fold(sum, |sum, number| std::hint::black_box(sum ^ number));
        }
        assert!(open_files(pid) >= 3);
    }
}
