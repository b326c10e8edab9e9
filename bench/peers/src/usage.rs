//! What processes used: CPU time and memory as `/proc` counts them, and the machine's own counters.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

/// A process and its direct children. (PostgreSQL has one for each connection.)
pub fn tree(root: i32) -> Vec<i32> {
    let mut found = vec![root];
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>()
            && let Some(fields) = stat_fields(pid)
            && fields[1].parse::<i32>() == Ok(root)
        {
            found.push(pid);
        }
    }
    found
}

/// Fields of /proc/PID/stat from the state on (0: state, 1: ppid, 11: utime, 12: stime).
fn stat_fields(pid: i32) -> Option<Vec<String>> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(line[line.rfind(')')? + 2..].split(' ').map(String::from).collect())
}

/// CPU time in microseconds.
#[derive(Clone, Copy, Default)]
pub struct Cpu {
    /// In user space, counted by ticks.
    pub user_us: f64,
    /// In the kernel, counted by ticks.
    pub sys_us: f64,
    /// The sum over all threads of the time on a CPU, which the scheduler counts in nanoseconds.
    pub sched_us: f64,
}

/// The CPU time of each of these processes so far.
fn cpu_of(pids: &[i32]) -> HashMap<i32, Cpu> {
    let mut used = HashMap::new();
    for &pid in pids {
        let Some(fields) = stat_fields(pid) else { continue };
        let ticks_us = |field: &str| number(field) * 1e4;
        let mut cpu = Cpu { user_us: ticks_us(&fields[11]), sys_us: ticks_us(&fields[12]), sched_us: 0.0 };
        for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            if let Ok(line) = fs::read_to_string(thread.path().join("schedstat")) {
                cpu.sched_us += line.split(' ').next().map_or(0.0, number) / 1e3;
            }
        }
        used.insert(pid, cpu);
    }
    used
}

/// What was used between two looks. A process that is new counts from its start.
fn cpu_delta(before: &HashMap<i32, Cpu>, after: &HashMap<i32, Cpu>) -> Cpu {
    let mut sum = Cpu::default();
    for (pid, now) in after {
        let then = before.get(pid).copied().unwrap_or_default();
        sum.user_us += now.user_us - then.user_us;
        sum.sys_us += now.sys_us - then.sys_us;
        sum.sched_us += now.sched_us - then.sched_us;
    }
    sum
}

/// Counts what is used from its opening on.
pub struct Meter {
    pids: Vec<i32>,
    machine: Vec<f64>,
    own_us: f64,
    server: HashMap<i32, Cpu>,
    opened: Instant,
}

/// What was used while a meter was open.
pub struct Used {
    pub secs: f64,
    /// CPU of the server's processes.
    pub server: Cpu,
    /// CPU of this process.
    pub own_us: f64,
    pub steal_percent: f64,
    pub idle_percent: f64,
    pub processes: usize,
}

impl Meter {
    /// Watches these processes.
    pub fn open(pids: Vec<i32>) -> Self {
        let (machine, own_us, server) = (machine(), self_cpu_us(), cpu_of(&pids));
        Self { pids, machine, own_us, server, opened: Instant::now() }
    }

    pub fn close(self) -> Used {
        let secs = self.opened.elapsed().as_secs_f64();
        let (server, own_us, machine) = (cpu_of(&self.pids), self_cpu_us(), machine());
        let ticks: Vec<f64> = machine.iter().zip(&self.machine).map(|(x, y)| x - y).collect();
        let total: f64 = ticks.iter().sum::<f64>().max(1.0);
        Used {
            secs,
            server: cpu_delta(&self.server, &server),
            own_us: own_us - self.own_us,
            steal_percent: ticks[7] / total * 100.0,
            idle_percent: (ticks[3] + ticks[4]) / total * 100.0,
            processes: self.pids.len(),
        }
    }
}

/// The machine's ticks by kind: user, nice, system, idle, iowait, irq, softirq, steal, …
fn machine() -> Vec<f64> {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    text.lines().next().unwrap_or("").split_whitespace().skip(1).map(number).collect()
}

/// The CPU time of this process so far, in microseconds.
fn self_cpu_us() -> f64 {
    // SAFETY: all zeros is a valid `rusage`: it holds only integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a `rusage` that lives during the call, which writes nothing else.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let us = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
    us(usage.ru_utime) + us(usage.ru_stime)
}

/// A line of /proc/PID/status that is in KiB, like `VmRSS:`.
pub fn status_kib(pid: i32, name: &str) -> u64 {
    kib(&format!("/proc/{pid}/status"), name)
}

/// The proportional set size of these processes, in KiB: what they share counts once.
pub fn pss_kib(pids: &[i32]) -> u64 {
    pids.iter().map(|pid| kib(&format!("/proc/{pid}/smaps_rollup"), "Pss:")).sum()
}

fn kib(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

fn number(field: &str) -> f64 {
    field.parse().unwrap_or(0.0)
}
