//! `peers run`: one workload against one peer, measured for a while.

use crate::clients::{KEY_LEN, Run};
use crate::json::Line;
use crate::locker::R;
use crate::tally::Tally;
use crate::usage::{Meter, Used, tree};
use hdrhistogram::Histogram;
use std::time::Duration;
use tokio::task::LocalSet;

/// What one window saw; the tally has the counts of the whole run.
struct Window {
    used: Used,
    denied: u64,
    errors: u64,
}

/// Arguments: PEER WORKLOAD CONNS DEPTH WARM_S SECS PORT SERVER_PID.
pub async fn run(a: &[String]) -> R<()> {
    let [peer, workload, conns, depth, warm, secs, port, pid] = a else {
        return Err("run: see the head of main.rs".into());
    };
    let run = Run {
        peer: peer.clone(),
        workload: workload.clone(),
        conns: conns.parse()?,
        depth: depth.parse()?,
        port: port.parse()?,
        tag: std::process::id().to_string(),
        key_len: KEY_LEN,
    };
    measured(&run, warm.parse()?, secs.parse()?, pid.parse()?).await?.print();
    Ok(())
}

/// Runs it, and has the line of its window.
pub async fn measured(run: &Run, warm: f64, secs: f64, pid: i32) -> R<Line> {
    assert!(warm + secs <= 60.0 && run.conns <= 1024 && run.depth <= 1024, "bounded loads only");
    let tally = Tally::new();
    let ls = LocalSet::new();
    let line = ls
        .run_until(async {
            run.start(&ls, &tally).await?;
            tokio::time::sleep(Duration::from_secs_f64(warm)).await;
            let window = watch(&tally, secs, pid).await;
            Ok::<_, Box<dyn std::error::Error>>(line(run, &tally, &window))
        })
        .await?;
    tally.stop.set(true);
    // let open pairs finish, at most 2 s
    if run.rule().is_none() {
        let _ = tokio::time::timeout(Duration::from_secs(2), ls).await;
    }
    Ok(line)
}

async fn watch(tally: &Tally, secs: f64, pid: i32) -> Window {
    let meter = Meter::open(tree(pid));
    tally.pairs.set(0);
    let (denied0, errors0) = (tally.denied.get(), tally.errors.get());
    tally.rec.set(true);
    tokio::time::sleep(Duration::from_secs_f64(secs)).await;
    let used = meter.close();
    tally.rec.set(false);
    Window { used, denied: tally.denied.get() - denied0, errors: tally.errors.get() - errors0 }
}

/// The fields and their order are what the tables, and results of before, know.
fn line(run: &Run, tally: &Tally, window: &Window) -> Line {
    let n = tally.pairs.get();
    let (hist, wait) = (tally.hist.borrow(), tally.wait_hist.borrow());
    let us = |hist: &Histogram<u64>, quantile: f64| hist.value_at_quantile(quantile) as f64 / 1e3;
    let per = |x: f64| if n > 0 { x / n as f64 } else { 0.0 };
    let used = &window.used;
    let cpu = used.server;
    Line::default()
        .text("peer", &run.peer)
        .text("wl", &run.workload)
        .int("conns", run.conns)
        .int("depth", run.depth)
        .num("secs", used.secs, 3)
        .int("n", n)
        .num("rate", n as f64 / used.secs, 1)
        .num("p50", us(&hist, 0.5), 1)
        .num("p99", us(&hist, 0.99), 1)
        .num("p999", us(&hist, 0.999), 1)
        .int("lat_n", hist.len())
        .num("wait_p50", us(&wait, 0.5), 1)
        .num("wait_p99", us(&wait, 0.99), 1)
        .num("cpu_stat", per(cpu.user_us + cpu.sys_us), 3)
        .num("cpu_user", per(cpu.user_us), 3)
        .num("cpu_sched", per(cpu.sched_us), 3)
        .num("cli_cpu", per(used.own_us), 3)
        .num("srv_util", cpu.sched_us / 1e6 / used.secs, 3)
        .num("cli_util", used.own_us / 1e6 / used.secs, 3)
        .num("steal", used.steal_percent, 2)
        .num("idle", used.idle_percent, 1)
        .int("procs", used.processes)
        .int("denied", window.denied)
        .int("errors", window.errors)
        .int("errors_all", tally.errors.get())
        .int("violations", tally.violations.get())
}
