//! Checkpoints while serving: how they go on between decisions, how many copies they cost, and what room they need.

use crate::segment::Segment;
use crate::tests::bench::{Bench, end, options, outgrow};
use crate::*;

const A: &str = "this boot";

/// A server with so many leases of a key of 1,000 bytes.
fn with_leases_of_1000_bytes(n: u64) -> (Bench, Vec<(String, u64, u64)>) {
    let mut bench = Bench::open(Disk::default(), &options(Mode::Process, A, 1_000));
    let first = bench.first_token;
    let lease = |n| (format!("{n:01000}"), first + n, end(1_000, 200));
    let leases: Vec<(String, u64, u64)> = (0..n).map(lease).collect();
    for some in leases.chunks(1_000) {
        bench.turn(1_000, |journal| {
            for (key, token, ends_ms) in some {
                journal.granted(key, *token, *ends_ms);
            }
        });
    }
    (bench, leases)
}

/// Hands in copies of `leases` while they are wanted; the number of bytes that went into the buffer is the journal's.
fn feed(journal: &mut Journal, leases: &[(String, u64, u64)], fed: &mut usize) -> usize {
    let before = *fed;
    while journal.wants_copy() {
        match leases.get(*fed) {
            Some((key, token, ends_ms)) => journal.copy(key, *token, *ends_ms),
            None => {
                journal.end_copies();
                break;
            }
        }
        *fed += 1;
    }
    *fed - before
}

#[test]
fn a_checkpoint_while_serving_goes_in_small_steps_between_decisions() {
    for mode in [Mode::Process, Mode::Machine] {
        let small = OpenOptions { checkpoint_bytes: 500_000, ..options(mode, A, 1_000) };
        let mut bench = Bench::open(Disk::default(), &small);
        let first = bench.first_token;
        let mut leases: Vec<(String, u64, u64)> =
            (0..20_000).map(|n| (format!("key {n}"), first + n, end(1_000, 200))).collect();
        bench.turn(1_000, |journal| {
            for (key, token, ends_ms) in &leases {
                journal.granted(key, *token, *ends_ms);
            }
        });
        let (mut turns, mut fed, mut now_ms) = (0, 0, 1_000);
        // Extend one after the other until the segment is left for a new one and that one is complete.
        while fed == 0 || bench.journal.checkpoint().is_some() {
            let at = turns * 7 % leases.len();
            now_ms += 1;
            bench.journal.turn(now_ms);
            leases[at].2 = end(now_ms, 200);
            let (key, token, ends_ms) = &leases[at];
            for _ in 0..200 {
                bench.journal.extended(key, *token, *ends_ms);
            }
            assert!(feed(&mut bench.journal, &leases, &mut fed) <= 1_500, "a step is short");
            bench.journal.flush();
            bench.work(now_ms);
            turns += 1;
            assert!(turns < 1_000);
        }
        assert!(bench.journal.live_bytes() > 20_000 * 25 && bench.journal.checkpoint().is_none());
        assert_eq!(bench.journal.directory_bytes(), bench.storage.bytes());
        let disk = bench.storage.disk();
        let [checkpoint, behind] = [0, 1].map(|at| {
            let name = disk.names().nth(at).unwrap();
            let number = u64::from_str_radix(&name[..16], 16).unwrap();
            Segment::read(number, disk.content(name).unwrap().to_vec()).unwrap()
        });
        assert!(checkpoint.is_complete && behind.batches.len() > 1, "decisions went on meanwhile");
        let restored = Bench::open(bench.killed(), &options(mode, A, now_ms));
        let mut held: Vec<_> = restored.held().into_iter().map(|(k, t, e)| (k.to_owned(), t, e)).collect();
        held.sort();
        leases.sort();
        assert!(held == leases, "every lease is there with its newest end");
    }
}

/// All that is copied gets into the segment, however many batches that takes.
#[test]
fn a_checkpoint_of_many_batches_holds_every_lease() {
    for mode in [Mode::Process, Mode::Machine] {
        let start = OpenOptions { checkpoint_bytes: 1 << 20, ..options(mode, A, 1_000) };
        let mut bench = Bench::open(Disk::default(), &start);
        let first = bench.first_token;
        let leases: Vec<(String, u64, u64)> =
            (0..6_000).map(|n| (format!("{n:01000}"), first + n, end(1_000, 200))).collect();
        bench.turn(1_000, |journal| {
            for (key, token, ends_ms) in &leases {
                journal.granted(key, *token, *ends_ms);
            }
            outgrow(journal, 2 << 20);
        });
        let (mut fed, mut now_ms) = (0, 1_000);
        assert!(bench.journal.checkpoint().is_some());
        while bench.journal.checkpoint().is_some() {
            now_ms += 4;
            bench.turn(now_ms, |journal| feed(journal, &leases, &mut fed));
            assert_eq!(bench.journal.directory_bytes(), bench.storage.bytes(), "{mode:?}");
            assert!(now_ms < 10_000, "it never ends");
        }
        let checkpoint = bench.storage.disk();
        let name = checkpoint.names().next().unwrap();
        let number = u64::from_str_radix(&name[..16], 16).unwrap();
        let segment = Segment::read(number, checkpoint.content(name).unwrap().to_vec()).unwrap();
        assert!(segment.is_complete && segment.batches.len() > 3, "{mode:?}: several batches");
        let restored = Bench::open(bench.killed(), &options(mode, A, now_ms));
        let held: Vec<_> = restored.held().into_iter().map(|(k, t, e)| (k.to_owned(), t, e)).collect();
        assert!(held == leases, "{mode:?}: {} of {}", held.len(), leases.len());
    }
}

/// A decision costs as many copies as there are bytes of leases for each byte of room, and the room grows with them.
#[test]
fn a_checkpoint_of_110_mib_of_leases_goes_on_over_40_mib_of_decisions() {
    let (mut bench, leases) = with_leases_of_1000_bytes(110_000);
    outgrow(&mut bench.journal, 33 << 20);
    bench.journal.flush();
    let mut now_ms = 1_000;
    // What was decided during the first is there until the second is complete, and leaves it as much room.
    for nth in 1..=2 {
        let (mut fed, mut decided) = (0, 0);
        while bench.journal.checkpoint().is_none() {
            bench.turn(now_ms, |_| ());
        }
        let number = bench.journal.checkpoint();
        while bench.journal.checkpoint() == number {
            now_ms += 1;
            bench.journal.turn(now_ms);
            assert!(bench.journal.admits(), "full with {fed} copies of {}", leases.len());
            // More than is copied by the time.
            for (key, token, ends_ms) in leases.iter().cycle().skip(decided).take(40) {
                bench.journal.extended(key, *token, *ends_ms);
            }
            decided += 40;
            feed(&mut bench.journal, &leases, &mut fed);
            bench.journal.flush();
            bench.work(now_ms);
        }
        let times = leases.len() / decided;
        let is_a_half = (40_000..50_000).contains(&decided);
        assert!(is_a_half, "{decided} decided in checkpoint {nth}, copies at {times} times that speed");
    }
}

#[test]
fn a_checkpoint_ends_although_nothing_more_is_decided() {
    let (mut bench, leases) = with_leases_of_1000_bytes(10_000);
    bench.turn(1_001, |journal| outgrow(journal, 32 << 20));
    let (mut fed, mut now_ms) = (0, 1_001);
    assert!(bench.journal.checkpoint().is_some());
    while bench.journal.checkpoint().is_some() {
        now_ms = bench.journal.deadline_ms().expect("a turn is due").max(now_ms + 1);
        assert!(!bench.journal.wants_turn(), "there is no hurry");
        bench.journal.turn(now_ms);
        feed(&mut bench.journal, &leases, &mut fed);
        bench.journal.flush();
        bench.work(now_ms);
    }
    assert!((500..1_500).contains(&(now_ms - 1_001)), "10 MiB took {} ms", now_ms - 1_001);
}

/// More copies are made than there are leases if leases are given and ended meanwhile.
#[test]
fn a_checkpoint_ends_although_more_was_copied_than_is_left() {
    let (mut bench, leases) = with_leases_of_1000_bytes(10_000);
    bench.turn(1_001, |journal| outgrow(journal, 32 << 20));
    let (mut fed, mut now_ms) = (0, 1_001);
    while bench.journal.checkpoint().is_some() {
        now_ms += 4;
        bench.journal.turn(now_ms);
        let before = fed;
        feed(&mut bench.journal, &leases, &mut fed);
        for (key, token, _) in &leases[before..fed.min(leases.len())] {
            bench.journal.freed(key, *token);
        }
        bench.journal.flush();
        bench.work(now_ms);
        assert!(now_ms < 10_000, "it never ends");
    }
    assert!(bench.journal.live_bytes() == 0 && bench.journal.admits());
    assert!(Bench::open(bench.killed(), &options(Mode::Process, A, 10_000)).held().is_empty());
}

/// What is left to be copied is guessed from what was copied: wrong, if just that has ended.
#[test]
fn copies_that_were_thought_to_be_all_are_made_up_for_before_the_room_is_gone() {
    let (mut bench, leases) = with_leases_of_1000_bytes(20_000);
    bench.turn(1_001, |journal| outgrow(journal, 32 << 20));
    let (mut fed, mut now_ms) = (0, 1_001);
    while fed < leases.len() / 2 {
        now_ms += 4;
        bench.journal.turn(now_ms);
        feed(&mut bench.journal, &leases, &mut fed);
        bench.journal.flush();
        bench.work(now_ms);
    }
    bench.turn(now_ms, |journal| {
        for (key, token, _) in &leases[..5_000] {
            journal.freed(key, *token);
        }
    });
    let mut turns = 0;
    while bench.journal.checkpoint().is_some() {
        bench.journal.turn(now_ms);
        assert!(bench.journal.admits(), "full with {fed} copies of {}", leases.len());
        outgrow(&mut bench.journal, 100 << 10);
        feed(&mut bench.journal, &leases, &mut fed);
        bench.journal.flush();
        bench.work(now_ms);
        turns += 1;
    }
    assert!(turns > 20, "there was no need to hurry at once");
}

#[test]
fn a_turn_makes_640_kib_of_copies_at_most_and_none_comes_at_once_while_enough_wait() {
    let (mut bench, leases) = with_leases_of_1000_bytes(10_000);
    bench.storage.fail(Fault::Append, 1);
    bench.turn(1_001, |journal| outgrow(journal, 200));
    assert!(bench.journal.is_failing());
    bench.turn(2_001, |_| ());
    assert!(bench.journal.wants_turn(), "grants wait for the copies");
    assert_eq!(bench.journal.deadline_ms(), Some(2_005), "no deadline is over");
    let (mut fed, mut now_ms) = (0, 2_001);
    while bench.journal.wants_turn() {
        now_ms += 1;
        bench.journal.turn(now_ms);
        assert!(feed(&mut bench.journal, &leases, &mut fed) <= 650, "a turn is short");
        // The first copies are still being written.
        bench.journal.flush();
        assert!(fed < 5_000 && now_ms < 2_100, "it comes at once with nothing to do");
    }
    assert!(bench.journal.checkpoint().is_some() && fed < leases.len());
}

/// The copies are to find their place, too, and so is the checkpoint of a start after a crash.
#[test]
fn room_for_the_copies_is_left_while_their_segment_is_being_made() {
    let (mut bench, leases) = with_leases_of_1000_bytes(60_000);
    let limit = (64 << 20) + 3 * bench.journal.live_bytes();
    let mut now_ms = 1_001;
    bench.journal.turn(now_ms);
    outgrow(&mut bench.journal, 33 << 20);
    bench.journal.flush();
    assert!(bench.manual.step(), "the log is synced");
    bench.journal.turn(now_ms);
    bench.journal.flush();
    // It takes so long that all the room is used up.
    while bench.journal.admits() {
        outgrow(&mut bench.journal, 1 << 20);
        bench.journal.flush();
        assert!(bench.storage.bytes() <= limit, "decisions alone take more");
    }
    let killed = Bench::open(bench.storage.disk(), &options(Mode::Process, A, now_ms));
    assert!(killed.storage.bytes() <= limit, "a start takes {} of {limit}", killed.storage.bytes());
    let mut fed = 0;
    bench.work(now_ms);
    while bench.journal.checkpoint().is_some() {
        now_ms += 1;
        bench.journal.turn(now_ms);
        feed(&mut bench.journal, &leases, &mut fed);
        bench.journal.flush();
        while bench.manual.step() {
            assert!(bench.storage.bytes() <= limit, "{} of {limit}", bench.storage.bytes());
            bench.journal.turn(now_ms);
            bench.journal.flush();
        }
    }
    assert!(bench.journal.admits());
}

/// What is void goes before the start's checkpoint is made, or each start that is killed would leave one more.
#[test]
fn starts_that_are_killed_again_and_again_do_not_fill_the_directory() {
    let (bench, _) = with_leases_of_1000_bytes(40_000);
    let limit = (64 << 20) + 3 * bench.journal.live_bytes();
    let mut disk = bench.killed();
    for start in 0..5 {
        let bench = Bench::open(disk, &options(Mode::Process, A, 1_001 + start));
        assert_eq!(bench.leases.len(), 40_000);
        assert!(bench.storage.bytes() <= limit, "start {start}: {} of {limit}", bench.storage.bytes());
        assert_eq!(bench.journal.directory_bytes(), bench.storage.bytes());
        disk = bench.killed();
    }
}

#[test]
fn a_disk_that_is_too_slow_for_the_copies_slows_decisions_down_before_the_room_is_gone() {
    let (mut bench, leases) = with_leases_of_1000_bytes(40_000);
    bench.turn(1_001, |journal| outgrow(journal, 33 << 20));
    let (mut fed, mut decided) = (0, 0);
    while bench.journal.admits() {
        bench.journal.turn(1_001);
        outgrow(&mut bench.journal, 100 << 10);
        decided += 100 << 10;
        feed(&mut bench.journal, &leases, &mut fed);
        // The first copies are still being written.
        bench.journal.flush();
    }
    assert!((1 << 20..12 << 20).contains(&decided), "{decided} bytes decided");
    bench.work(1_001);
    bench.journal.turn(1_002);
    feed(&mut bench.journal, &leases, &mut fed);
    assert!(bench.journal.admits(), "it goes on when the disk does");
}

/// In mode `machine` both are written by the same thread.
#[test]
fn copies_do_not_hold_up_decisions_nor_these_those() {
    let start = OpenOptions { checkpoint_bytes: 1 << 20, ..options(Mode::Machine, A, 1_000) };
    let mut bench = Bench::open(Disk::default(), &start);
    let (mut fed, mut now_ms, token) = (0, 1_000, bench.first_token);
    let leases: Vec<_> = (0..20_000).map(|n| (format!("{n:01000}"), token + n, end(1_000, 200))).collect();
    bench.turn(now_ms, |journal| {
        for (key, token, ends_ms) in &leases {
            journal.granted(key, *token, *ends_ms);
        }
        outgrow(journal, 2 << 20);
    });
    assert!(bench.journal.checkpoint().is_some());
    let mut waits: Vec<Position> = Vec::new();
    for turn in 0.. {
        now_ms += 50;
        bench.journal.turn(now_ms);
        let reached = bench.journal.reached();
        waits.retain(|&position| position > reached);
        assert!(waits.len() < 10, "{waits:?} wait after {turn} turns");
        if bench.journal.checkpoint().is_none() {
            break;
        }
        waits.push(bench.journal.extended(&leases[0].0, token, end(now_ms, 200)));
        feed(&mut bench.journal, &leases, &mut fed);
        bench.journal.flush();
        // Two turns make more copies than one job writes.
        if turn % 2 == 0 {
            bench.manual.step();
        }
        assert!(turn < 1_000, "it never ends");
    }
}

/// Each end takes away room for three times its lease.
#[test]
fn the_directory_never_exceeds_its_limit_even_if_all_leases_end_at_once() {
    let (mut bench, leases) = with_leases_of_1000_bytes(100_000);
    let (mut fed, mut checkpoint, mut ended, mut now_ms) = (0, None, 0, 1_000);
    while ended < leases.len() {
        now_ms += 1;
        bench.journal.turn(now_ms);
        if bench.journal.admits() {
            for (key, token, _) in leases.iter().skip(ended).take(1_024) {
                bench.journal.freed(key, *token);
            }
            ended = (ended + 1_024).min(leases.len());
        }
        if checkpoint != bench.journal.checkpoint() {
            (checkpoint, fed) = (bench.journal.checkpoint(), ended);
        }
        fed = fed.max(ended);
        feed(&mut bench.journal, &leases, &mut fed);
        bench.journal.flush();
        bench.work(now_ms);
        let (bytes, limit) = (bench.storage.bytes(), (64 << 20) + 3 * bench.journal.live_bytes());
        assert!(bytes <= limit, "{bytes} of {limit} with {ended} ended");
        assert!(now_ms < 10_000, "it goes on");
    }
}

/// A copy stands before what was decided while copies were made, and may be newer.
#[test]
fn after_another_boot_the_time_left_is_that_of_the_newest_record_and_not_of_the_last() {
    let small = OpenOptions { checkpoint_bytes: 1_000, ..options(Mode::Machine, A, 1_000) };
    let mut bench = Bench::open(Disk::default(), &small);
    let token = bench.first_token;
    bench.turn(1_000, |journal| {
        outgrow(journal, 1_000);
        journal.granted("k", token, end(1_000, 30))
    });
    bench.turn(2_000, |journal| journal.extended("k", token, end(2_000, 30)));
    bench.turn(12_000, |journal| {
        journal.copy("k", token, end(2_000, 30));
        journal.end_copies();
    });
    assert_eq!(bench.journal.checkpoint(), None, "it is complete");
    let next = Bench::open(bench.cut_off(), &options(Mode::Machine, "another boot", 500));
    assert_eq!(next.held(), [("k", token, 500 + 20_001 + 1)]);
}

#[test]
fn the_directory_never_exceeds_its_limit_even_if_the_disk_is_slow() {
    let mut bench = Bench::open(Disk::default(), &options(Mode::Process, A, 1_000));
    let first = bench.first_token;
    let key = |n: u64| format!("{n:0>500}");
    let mut ends: Vec<u64> = vec![end(1_000, 200); 2_000];
    bench.turn(1_000, |journal| {
        for n in 0..2_000 {
            journal.granted(&key(n), first + n, end(1_000, 200));
        }
    });
    let limit = |bench: &Bench| (64 << 20) + 3 * bench.journal.live_bytes();
    let (mut now_ms, mut fed, mut checkpoint, mut refused, mut done) = (1_000, 0, None, 0, 0);
    while done < 2 {
        now_ms += 20;
        bench.journal.turn(now_ms);
        if bench.journal.admits() {
            for n in 0..2_000 {
                ends[n as usize] = end(now_ms, 200);
                bench.journal.extended(&key(n), first + n, ends[n as usize]);
            }
        } else {
            refused += 1;
        }
        if checkpoint != bench.journal.checkpoint() {
            done += u32::from(checkpoint.is_some());
            checkpoint = bench.journal.checkpoint();
            fed = 0;
        }
        while bench.journal.wants_copy() {
            match ends.get(fed) {
                Some(&ends_ms) => bench.journal.copy(&key(fed as u64), first + fed as u64, ends_ms),
                None => {
                    bench.journal.end_copies();
                    break;
                }
            }
            fed += 1;
        }
        bench.journal.flush();
        // The disk does a job only now and then.
        if now_ms % 700 == 0 {
            bench.manual.step();
        }
        let bytes = bench.storage.bytes();
        assert!(bytes <= limit(&bench), "{bytes} at {now_ms}");
        assert!(now_ms < 100_000, "it goes on");
    }
    assert!(refused > 0, "the limit was never near");
}

/// A checkpoint that is due cannot begin before the sync ends. The copies are to find their place all the same, and if the
/// server is killed, those of the next start.
#[test]
fn the_directory_never_exceeds_its_limit_while_a_sync_takes_long() {
    for leases_end in [false, true] {
        let (mut bench, leases) = with_leases_of_1000_bytes(60_000);
        bench.turn(1_001, |journal| outgrow(journal, 25 << 20));
        bench.journal.turn(1_002);
        outgrow(&mut bench.journal, 100 << 10);
        bench.journal.flush();
        let mut now_ms = 2_500;
        bench.journal.turn(now_ms);
        bench.journal.flush();
        let limit = |bench: &Bench| (64 << 20) + 3 * bench.journal.live_bytes();
        let mut ending = leases.chunks(1_024);
        while bench.journal.admits() {
            if leases_end {
                for (key, token, _) in ending.next().into_iter().flatten() {
                    bench.journal.freed(key, *token);
                }
            } else {
                outgrow(&mut bench.journal, 1 << 20);
            }
            bench.journal.flush();
            assert!(bench.storage.bytes() <= limit(&bench), "{} of {}", bench.storage.bytes(), limit(&bench));
            now_ms += 1;
            bench.journal.turn(now_ms);
            assert!(now_ms < 3_000, "the limit was never near");
        }
        let killed = Bench::open(bench.storage.disk(), &options(Mode::Process, A, now_ms));
        let bytes = killed.storage.bytes();
        assert!(bytes <= limit(&bench), "a start takes {bytes} of {}", limit(&bench));
        bench.work(now_ms);
        let mut fed = 0;
        while bench.journal.checkpoint().is_some() {
            now_ms += 1;
            bench.turn(now_ms, |journal| feed(journal, &leases, &mut fed));
        }
        assert!(bench.journal.admits(), "it goes on");
    }
}
