//! Disk usage of the store, and latency of appends while a checkpoint is written.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ebb::store::{NextOffset, Store};

use crate::support::{Draws, batch, identity, open, replayed, shard};

fn assert_send_and_sync<T: Send + Sync>(_: &T) {}

fn rounds() -> u64 {
    std::env::var("EBB_ROUNDS").map_or(25, |rounds| rounds.parse().expect("a number"))
}

#[test]
fn disk_usage_stays_within_ten_times_the_live_data() {
    const STATE_BYTES: usize = 3 << 20;
    const RECORD_BYTES: usize = 500;
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    let (mut next, mut worst, mut sizes) = ([0u64; 2], 0f64, Vec::new());
    for round in 0..rounds() {
        let mut live = 0;
        for partition in 0..2 {
            let (shard, next) = (shard(partition), &mut next[partition as usize]);
            for _ in 0..10 {
                store.append(&[batch(&shard, *next, 50, RECORD_BYTES)]).unwrap();
                *next += 50;
            }
            store.save(&shard, &identity(), NextOffset(*next), &Draws(round).bytes(STATE_BYTES)).unwrap();
            store.truncate(&shard, NextOffset(*next)).unwrap();
            let bounds = store.journal_bounds(&shard).unwrap();
            live += (bounds.next.0 - bounds.first.0) * RECORD_BYTES as u64;
            live += (round + 1).min(3) * STATE_BYTES as u64;
        }
        worst = worst.max(store.disk_bytes() as f64 / live as f64);
        sizes.push(store.disk_bytes() >> 20);
    }
    let of_newest = (sizes[sizes.len() - 1] << 20) as f64 / (2.0 * STATE_BYTES as f64);
    println!(
        "disk: at worst {worst:.2}x the live data (3 generations and journal), finally {of_newest:.1}x the newest states"
    );
    println!("disk: MiB after each round {sizes:?}");
    assert!(worst <= 10.0, "{worst}");
    assert!(sizes[sizes.len() - 1] <= sizes[8] * 3 / 2, "disk usage grows: {sizes:?}");
}

#[test]
fn bloated_store_is_compacted_when_opened() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    store.put_metadata("name", b"value").unwrap();
    store.append(&[batch(&shard(1), 7, 100, 500)]).unwrap();
    store.save(&shard(1), &identity(), NextOffset(9), b"another").unwrap();
    for (round, bytes) in [20 << 20, 20 << 20, 1000, 1000, 1000].into_iter().enumerate() {
        store.save(&shard(0), &identity(), NextOffset(round as u64), &Draws(round as u64).bytes(bytes)).unwrap();
    }
    let before = store.disk_bytes();
    drop(store);
    let (store, report) = open(dir.path());
    assert!(report.compacted_from.is_some(), "{report:?} at {before}");
    println!("disk: {before} bytes before compaction, {} after", store.disk_bytes());
    assert!(store.disk_bytes() < 4 << 20, "{}", store.disk_bytes());
    for generation in [3, 4, 5] {
        let loaded = store.load(&shard(0), &identity(), Some(NextOffset(generation - 1))).unwrap();
        assert_eq!(loaded.checkpoint.map(|found| found.state), Some(Draws(generation - 1).bytes(1000)));
    }
    assert_eq!(store.load(&shard(1), &identity(), None).unwrap().checkpoint.unwrap().state, b"another");
    assert_eq!(replayed(&store, &shard(1), 7, |_| 500).0, (7..107).collect::<Vec<_>>());
    assert_eq!(store.get_metadata("name").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 4, "only lock, db, acknowledged and room are left");
    drop(store);
    assert_eq!(open(dir.path()).1, Default::default());
}

/// Appends until `done`; returns the longest duration and the number of appends.
fn slowest_append(store: &Store, done: &AtomicBool) -> (Duration, u64) {
    let (mut slowest, mut next) = (Duration::ZERO, 0);
    while !done.load(Ordering::Acquire) {
        let begun = Instant::now();
        store.append(&[batch(&shard(1), next, 1, 200)]).unwrap();
        slowest = slowest.max(begun.elapsed());
        next += 1;
    }
    (slowest, next)
}

#[test]
fn append_does_not_wait_for_a_large_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    assert_send_and_sync(&store);
    let begun = Instant::now();
    for step in 0..200 {
        store.append(&[batch(&shard(2), step * 100, 100, 200)]).unwrap();
    }
    println!("an append of 100 records of 200 bytes takes {:?} on its own", begun.elapsed() / 200);
    let state = Draws(5).bytes(48 << 20);
    let done = AtomicBool::new(false);
    let (took, (slowest, appends)) = std::thread::scope(|scope| {
        let appends = scope.spawn(|| slowest_append(&store, &done));
        let begun = Instant::now();
        store.save(&shard(0), &identity(), NextOffset(1), &state).unwrap();
        let took = begun.elapsed();
        done.store(true, Ordering::Release);
        (took, appends.join().unwrap())
    });
    println!("48 MiB saved in {took:?} during {appends} appends, the slowest took {slowest:?}");
    assert!(slowest < took / 3, "{slowest:?} of {took:?}");
    assert!(appends > 20);
}
