//! A full disk: writes are refused in time, nothing is damaged, and writing resumes when space is freed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ebb::store::{NextOffset, Store, StoreError, StoreHealth, StoreOptions};

use crate::support::{Draws, batch, child, finish_within, identity, options, replayed, shard};

const DEADLINE: Duration = Duration::from_secs(2);
const STATE_BYTES: usize = 2 << 20;

/// A small tmpfs.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Returns `None` with a message if mounting is not permitted.
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(dir.path()).output();
        if mounted.as_ref().is_ok_and(|output| output.status.success()) {
            return Some(Self(dir));
        }
        eprintln!("SKIPPED: cannot mount a tmpfs ({mounted:?})");
        None
    }

    fn run(&self, test: &str) -> String {
        let child = child(test).env("EBB_DIR", self.0.path()).spawn().unwrap();
        let (status, output) = finish_within(child, Duration::from_secs(100));
        assert!(status.is_some_and(|status| status.success()), "{test}: {status:?}\n{output}");
        output
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn dirs() -> Option<(PathBuf, PathBuf)> {
    let dir = PathBuf::from(std::env::var("EBB_DIR").ok()?);
    Some((dir.join("store"), dir.join("filler")))
}

fn state(round: u64) -> Vec<u8> {
    Draws(round).bytes(STATE_BYTES)
}

/// Fills the disk except for `leave` bytes.
fn fill(filler: &Path, leave: u64) {
    let stat = rustix::fs::statvfs(filler.parent().unwrap()).unwrap();
    let free = stat.f_bavail * stat.f_frsize;
    fs::write(filler, vec![1; free.saturating_sub(leave) as usize]).unwrap();
}

#[test]
#[ignore = "run by the tests below on a small disk"]
fn write_with_space_checks() {
    let Some((dir, filler)) = dirs() else { return };
    let options = StoreOptions { deadline: DEADLINE, reserve_bytes: 1 << 20, ..options() };
    let (store, _) = Store::open(&dir, options).unwrap();
    let mut next = 0;
    for round in 1..=10u64 {
        store.append(&[batch(&shard(0), next, 5, 1000)]).unwrap();
        next += 5;
        store.save(&shard(0), &identity(), NextOffset(next), &state(round)).unwrap();
        fill(&filler, 3 * STATE_BYTES as u64);
        let begun = Instant::now();
        let refused = store.save(&shard(0), &identity(), NextOffset(next), &state(99));
        assert!(matches!(refused, Err(StoreError::DiskFull { .. })), "{refused:?}");
        store.append(&[batch(&shard(0), next, 1, 1000)]).expect("the disk has space for a record");
        next += 1;
        fs::remove_file(&filler).unwrap();
        fill(&filler, 1 << 19);
        let refused = store.append(&[batch(&shard(0), next, 1, 1000)]);
        assert!(matches!(refused, Err(StoreError::DiskFull { .. })), "{refused:?}");
        assert!(begun.elapsed() < DEADLINE, "{:?}", begun.elapsed());
        assert_eq!(store.health(), StoreHealth::Healthy);
        fs::remove_file(&filler).unwrap();
        let loaded = store.load(&shard(0), &identity(), None).unwrap();
        assert!(loaded.checkpoint.unwrap().state == state(round));
    }
    assert_eq!(replayed(&store, &shard(0), 0, |_| 1000).0, (0..next).collect::<Vec<_>>());
    println!("refused and resumed 10 times");
}

#[test]
#[ignore = "run by the tests below on a small disk"]
fn write_without_space_checks() {
    let Some((dir, filler)) = dirs() else { return };
    let options = StoreOptions { deadline: DEADLINE, headroom: 0, ..options() };
    let (store, _) = Store::open(&dir, options).unwrap();
    store.append(&[batch(&shard(0), 0, 5, 1000)]).unwrap();
    store.save(&shard(0), &identity(), NextOffset(3), &state(1)).unwrap();
    fill(&filler, 1 << 20);
    let begun = Instant::now();
    let failed = (2..).find_map(|round| store.save(&shard(0), &identity(), NextOffset(3), &state(round)).err());
    let waited = begun.elapsed();
    assert!(matches!(failed, Some(StoreError::Failed(_))), "{failed:?}");
    assert!(waited < DEADLINE * 2, "{waited:?}");
    let begun = Instant::now();
    assert!(matches!(store.append(&[batch(&shard(0), 5, 1, 10)]), Err(StoreError::Failed(_))));
    assert!(matches!(store.load(&shard(0), &identity(), None), Err(StoreError::Failed(_))));
    assert!(matches!(store.health(), StoreHealth::Failed(_)));
    drop(store);
    assert!(begun.elapsed() < Duration::from_millis(200), "{:?}", begun.elapsed());
    println!("failed after {waited:?}: {failed:?}");
}

#[test]
#[ignore = "run by the tests below on a small disk"]
fn reopen_after_failure() {
    let Some((dir, filler)) = dirs() else { return };
    fs::remove_file(&filler).unwrap();
    let (store, report) = Store::open(&dir, options()).unwrap();
    assert!(report.quarantined.is_none() && report.lost.is_empty(), "{report:?}");
    let loaded = store.load(&shard(0), &identity(), None).unwrap();
    assert!(loaded.checkpoint.is_some_and(|found| found.state == state(found.generation)));
    assert_eq!(replayed(&store, &shard(0), 0, |_| 1000).0, [0, 1, 2, 3, 4]);
    store.save(&shard(0), &identity(), NextOffset(5), &state(1000)).unwrap();
}

#[test]
#[ignore = "run by the tests below on a small disk"]
fn open_on_full_disk() {
    let Some((dir, filler)) = dirs() else { return };
    let (store, _) = Store::open(&dir, options()).unwrap();
    store.save(&shard(0), &identity(), NextOffset(3), &state(1)).unwrap();
    drop(store);
    fill(&filler, 0);
    for _ in 0..5 {
        let (store, _) = Store::open(&dir, options()).expect("the store opens on a full disk");
        let loaded = store.load(&shard(0), &identity(), None).unwrap();
        assert!(loaded.checkpoint.unwrap().state == state(1));
        let refused = store.save(&shard(0), &identity(), NextOffset(4), &state(2));
        assert!(matches!(refused, Err(StoreError::DiskFull { .. })), "{refused:?}");
    }
    fs::remove_file(&filler).unwrap();
    let (store, _) = Store::open(&dir, options()).unwrap();
    store.save(&shard(0), &identity(), NextOffset(4), &state(2)).unwrap();
}

#[test]
fn store_opens_on_a_full_disk() {
    let Some(disk) = SmallDisk::mount() else { return };
    disk.run("disk_full::open_on_full_disk");
}

#[test]
fn writes_to_a_full_disk_are_refused_in_time_and_resume_when_space_is_freed() {
    let Some(disk) = SmallDisk::mount() else { return };
    print!(
        "disk full: {}",
        disk.run("disk_full::write_with_space_checks").lines().find(|line| line.contains("resumed")).unwrap()
    );
    println!();
}

#[test]
fn undetected_full_disk_fails_the_store_at_the_deadline_and_the_next_process_opens_it() {
    let Some(disk) = SmallDisk::mount() else { return };
    let output = disk.run("disk_full::write_without_space_checks");
    println!("disk full without space checks: {}", output.lines().find(|line| line.contains("failed after")).unwrap());
    disk.run("disk_full::reopen_after_failure");
}
