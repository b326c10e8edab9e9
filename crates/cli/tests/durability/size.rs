//! How much room the directory takes under full load, and that a kill in the middle of it loses nothing.

use crate::support::{Place, SECOND, is_active};
use lockstead_testkit::{Address, Answer, Event, Raw, data_dir, frame, load};
use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Leases that live throughout.
const LIVE: u64 = 20_000;
/// Clients that acquire and release.
const CLIENTS: u64 = 2;
/// Keys that one of them holds at once.
const BATCH: u64 = 500;
/// Long keys fill a journal sooner.
const KEY: usize = 900;
/// What a lease takes beside its key (docs/journal-format.md, *Records*).
const LEASE_BYTES: u64 = 23;
/// Long enough for the leases, short enough for them to be extended in between.
const EXTEND_EVERY: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

/// docs/guarantees.md: at every moment the directory takes at most 64 MiB and three times the live leases; and a kill
/// in the middle of it loses no lease that was answered, however many checkpoints there were.
#[test]
fn the_directory_stays_small_under_full_load() {
    let seconds = std::env::var("DURABILITY_SIZE_S").map_or(5, |text| text.parse().unwrap());
    let place = Place::new();
    let mut server = place.serve("process").start();
    let address = server.address().clone();
    let mut session = server.connect();
    let tokens = load::acquire_many(&mut session, "live/", 0, LIVE, 255);
    let mut samples = Vec::new();
    let mut checkpoints = BTreeSet::new();
    let mut cycles = 0;
    thread::scope(|scope| {
        let address = &address;
        let clients: Vec<_> =
            (0..CLIENTS).map(|client| scope.spawn(move || keep_busy(address, client))).collect();
        let begun = Instant::now();
        let mut extended = begun;
        // For as long as was asked, and until there have been some checkpoints, or surely will be none.
        while (begun.elapsed() < seconds * SECOND || checkpoints.len() < 4)
            && begun.elapsed() < (seconds + 60) * SECOND
        {
            // Time is what is sampled.
            thread::sleep(Duration::from_millis(50));
            samples.push(data_dir::size(&place.data()));
            checkpoints.extend(newest_segment(&place.data()));
            if extended.elapsed() > EXTEND_EVERY {
                extend_all(&mut session, &tokens);
                extended = Instant::now();
            }
        }
        // In the middle of it all. That ends the clients, too.
        server.kill();
        cycles = clients.into_iter().map(|client| client.join().unwrap()).sum();
    });
    let in_flight = CLIENTS * BATCH * (LEASE_BYTES + KEY as u64 + 20);
    let live: u64 = (0..LIVE).map(|n| LEASE_BYTES + format!("live/{n}").len() as u64).sum();
    let most = 64 * MIB + 3 * (live + in_flight);
    let largest = samples.iter().copied().max().unwrap();
    println!(
        "{} samples, at most {} of {} KiB; {} checkpoints, {cycles} grants",
        samples.len(),
        largest >> 10,
        most >> 10,
        checkpoints.len()
    );
    assert!(largest <= most, "the directory had {largest} bytes, at most {most} are promised");
    assert!(checkpoints.len() >= 4, "only {checkpoints:?}: too little was written to judge anything");
    is_all_there(&place, &tokens);
}

/// The leases that lived throughout are in the journal and in the next run.
fn is_all_there(place: &Place, tokens: &[u64]) {
    let leases = place.log().leases();
    for (n, token) in tokens.iter().enumerate() {
        let lease = leases.get(&format!("live/{n}"));
        assert!(lease.is_some_and(|lease| lease.token == *token), "live/{n} has {lease:?}, not {token}");
    }
    let server = place.serve("process").start();
    let mut session = server.connect();
    for (n, token) in tokens.iter().enumerate().step_by(97) {
        assert!(is_active(&mut session, &format!("live/{n}"), *token), "live/{n}");
    }
}

/// Acquires and releases until the server is gone; returns how many keys it was granted.
fn keep_busy(address: &Address, client: u64) -> u64 {
    let mut session = Raw::connect(address);
    let key = |n: u64| format!("{client}/{n}/{}", "x".repeat(KEY));
    let mut granted = 0;
    let mut bytes: Vec<u8> = (0..BATCH).flat_map(|n| frame::acquire(0, 60, n, key(n))).collect();
    loop {
        // What does not arrive shows as an end below.
        let _ = session.try_send(&bytes, 10 * SECOND);
        bytes.clear();
        // In each round but the first, a release is answered for each grant.
        let (mut due, mut releases) = (BATCH, if granted > 0 { BATCH } else { 0 });
        while due + releases > 0 {
            match session.event(10 * SECOND) {
                Event::Answer(arrival) => match arrival.answer {
                    Answer::Acquired { owner, token, .. } => {
                        (granted, due) = (granted + 1, due - 1);
                        bytes.extend_from_slice(&frame::release(token, key(owner)));
                        bytes.extend_from_slice(&frame::acquire(0, 60, owner, key(owner)));
                    }
                    Answer::Released { .. } => releases -= 1,
                    other => panic!("{other:?} instead of a grant or a release"),
                },
                Event::End | Event::Reset | Event::Cut(_) => return granted,
                Event::Quiet => panic!("a busy server says nothing"),
            }
        }
    }
}

fn extend_all(session: &mut Raw, tokens: &[u64]) {
    for (chunk, tokens) in tokens.chunks(1_000).enumerate() {
        let key = |n: usize| format!("live/{}", chunk * 1_000 + n);
        let frames = tokens.iter().enumerate().flat_map(|(n, &token)| frame::extend(255, token, key(n)));
        session.send(&frames.collect::<Vec<u8>>());
        for &token in tokens {
            session.expect(Answer::Extended { token, lease_s: 255 }, "an extend of a lease that lives");
        }
    }
}

fn newest_segment(dir: &Path) -> Option<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".journal")).max()
}
