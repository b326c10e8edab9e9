//! What the client costs: the processor time of one acquire and release through the async client, beside that of the
//! same requests on a bare socket, 32 in flight, in turns in one run.
//!
//! ```sh
//! lockstead serve --durability none &
//! cargo run --release -p lockstead-client --example cpu -- 127.0.0.1:5625
//! ```

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use lockstead_client::Client;
use lockstead_proto::{Acquire, Release};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Runtime};

/// Requests in flight.
const FLIGHT: usize = 32;

/// Pairs of acquire and release in one measurement.
const PAIRS: usize = 64_000;

/// Measurements of each kind; the median counts.
const ROUNDS: usize = 15;

/// `A owner token lease waited \n` and `R token \n`.
const ACQUIRED: usize = 23;
const RELEASED: usize = 10;

type Failed = Box<dyn Error>;

fn main() -> Result<(), Failed> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:5625".to_owned());
    let mut raw = Raw::connect(&address)?;
    let mut one = Shell::new(&address, &mut Builder::new_current_thread())?;
    let mut worker = Shell::new(&address, Builder::new_multi_thread().worker_threads(1))?;
    let mut workers = Shell::new(&address, Builder::new_multi_thread().worker_threads(2))?;
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        times[0].push(measure(|| raw.pairs())?);
        times[1].push(measure(|| one.pairs())?);
        times[2].push(measure(|| worker.pairs())?);
        times[3].push(measure(|| workers.pairs())?);
    }
    let [raw, one, worker, workers] = times.map(median);
    println!("processor time for one acquire and release, {FLIGHT} in flight, median of {ROUNDS} rounds");
    println!("bare socket                      {raw:6.3} us");
    println!("client, one thread               {one:6.3} us, on top {:6.3} us", one - raw);
    println!("client, one worker thread        {worker:6.3} us, on top {:6.3} us", worker - raw);
    println!("client, two worker threads       {workers:6.3} us, on top {:6.3} us", workers - raw);
    Ok(())
}

/// Microseconds of processor time of this process for one pair.
fn measure(run: impl FnOnce() -> Result<(), Failed>) -> Result<f64, Failed> {
    let before = processor_time();
    run()?;
    Ok((processor_time() - before).as_secs_f64() * 1e6 / PAIRS as f64)
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn key(number: usize) -> String {
    format!("cpu/{number}")
}

/// A bare socket: as many requests in one write as are in flight.
struct Raw {
    stream: TcpStream,
    acquires: Vec<u8>,
    releases: Vec<u8>,
    answers: Vec<u8>,
}

impl Raw {
    fn connect(address: &str) -> Result<Self, Failed> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut acquires = Vec::new();
        for number in 0..FLIGHT {
            let key = key(number);
            Acquire { wait_s: 10, lease_s: 30, owner: number as u64, key: &key }.encode(&mut acquires);
        }
        Ok(Self { stream, acquires, releases: Vec::new(), answers: vec![0; FLIGHT * ACQUIRED] })
    }

    fn pairs(&mut self) -> Result<(), Failed> {
        for _ in 0..PAIRS / FLIGHT {
            self.stream.write_all(&self.acquires)?;
            self.stream.read_exact(&mut self.answers)?;
            self.releases.clear();
            for (number, answer) in self.answers.chunks_exact(ACQUIRED).enumerate() {
                let token = u64::from_be_bytes(answer[9..17].try_into()?);
                Release { token, key: &key(number) }.encode(&mut self.releases);
            }
            self.stream.write_all(&self.releases)?;
            self.stream.read_exact(&mut self.answers[..FLIGHT * RELEASED])?;
        }
        Ok(())
    }
}

/// The async client: each request in flight is a task of the program.
struct Shell {
    runtime: Runtime,
    client: Client,
}

impl Shell {
    fn new(address: &str, runtime: &mut Builder) -> Result<Self, Failed> {
        let runtime = runtime.enable_all().build()?;
        let client =
            runtime.block_on(async { Client::builder().server(address)?.connect().map_err(Failed::from) })?;
        Ok(Self { runtime, client })
    }

    fn pairs(&mut self) -> Result<(), Failed> {
        self.runtime.block_on(async {
            let tasks: Vec<_> =
                (0..FLIGHT).map(|number| tokio::spawn(turns(self.client.clone(), key(number)))).collect();
            for task in tasks {
                task.await??;
            }
            Ok(())
        })
    }
}

async fn turns(client: Client, key: String) -> Result<(), lockstead_client::AcquireError> {
    for _ in 0..PAIRS / FLIGHT {
        client.acquire(&key).await?.release().await;
    }
    Ok(())
}
