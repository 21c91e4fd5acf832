//! Damaged files and values: the store returns what was once saved, or nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebb::store::{NextOffset, ShardId, Store, StoreError, StoreHealth, StoreOptions};

use crate::support::{Draws, batch, child, finish_within, identity, open, options, record, shard};

const SHARDS: u32 = 3;
const RECORD_BYTES: usize = 200;
const CASES_PER_CHILD: u64 = 30;

/// Everything that was ever saved, and the acknowledged end of each journal.
#[derive(Default)]
struct SavedData {
    states: BTreeMap<(ShardId, u64), (NextOffset, Vec<u8>)>,
    acknowledged: BTreeMap<ShardId, u64>,
}

/// Writes a store with several shards, generations and truncated journals to `dir`, as a kill would leave it.
fn write_store(dir: &Path, seed: u64) -> SavedData {
    let work = tempfile::tempdir().unwrap();
    // Both stores have the same log and configuration: only their ids differ.
    let mut truth = SavedData::default();
    let mut draws = Draws(seed);
    let (store, _) = open(work.path());
    store.put_metadata("partitions", b"3").unwrap();
    for round in 1..=5u64 {
        for partition in 0..SHARDS {
            let shard = shard(partition);
            let next = truth.acknowledged.entry(shard.clone()).or_default();
            let count = 5 + draws.below(40);
            store.append(&[batch(&shard, *next, count, RECORD_BYTES)]).unwrap();
            *next += count;
            let bytes = [300, 20_000, 1_200_000][partition as usize] + draws.below(5000) as usize;
            let (at, state) = (NextOffset(*next - draws.below(5)), draws.bytes(bytes));
            store.save(&shard, &identity(), at, &state).unwrap();
            truth.states.insert((shard.clone(), round), (at, state));
            store.truncate(&shard, at).unwrap();
        }
    }
    if seed.is_multiple_of(2) {
        // Opening writes a page snapshot: from then on sled detects damage when it reads a page, not when it opens.
        drop(store);
        drop(open(work.path()));
    }
    copy_all(work.path(), dir);
    truth
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (entry, to) = (entry.unwrap(), to.to_owned());
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.retain(|path| path.file_name().is_some_and(|name| name != "lock"));
    found.sort();
    found
}

fn overwrite(path: &Path, at: u64, change: impl FnOnce(&mut Vec<u8>), length: usize) {
    let mut file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut bytes = vec![0; length];
    file.seek(SeekFrom::Start(at)).unwrap();
    let read = file.read(&mut bytes).unwrap();
    bytes.truncate(read);
    change(&mut bytes);
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(&bytes).unwrap();
}

/// Damages the files in `dir` and describes how. `other` is a store to take foreign files from.
fn damage_files(dir: &Path, other: &Path, draws: &mut Draws) -> String {
    let files = files(dir);
    let log = dir.join("db/db");
    // Mostly the log, which holds most of the data.
    let chosen = if draws.below(3) > 0 { log.clone() } else { files[draws.below(files.len() as u64) as usize].clone() };
    let length = fs::metadata(&chosen).unwrap().len().max(1);
    let name = chosen.strip_prefix(dir).unwrap().display().to_string();
    match draws.below(8) {
        0 => {
            let keep = draws.below(length);
            fs::File::options().write(true).open(&chosen).unwrap().set_len(keep).unwrap();
            format!("{name} cut to {keep} of {length}")
        }
        1 | 2 => {
            let flips = 1 + draws.below(16);
            for _ in 0..flips {
                let (at, bit) = (draws.below(length), draws.below(8));
                overwrite(&chosen, at, |bytes| bytes.iter_mut().for_each(|byte| *byte ^= 1 << bit), 1);
            }
            format!("{flips} bits of {name} flipped")
        }
        3 => {
            let at = draws.below(length) / 4096 * 4096;
            overwrite(&chosen, at, |bytes| bytes.fill(0), 4096);
            format!("a block of {name} zeroed")
        }
        4 => {
            let (a, b) = (draws.below(length) / 4096 * 4096, draws.below(length) / 4096 * 4096);
            let mut first = Vec::new();
            overwrite(&chosen, a, |bytes| first = bytes.clone(), 4096);
            let mut second = Vec::new();
            overwrite(&chosen, b, |bytes| second = std::mem::replace(bytes, first), 4096);
            overwrite(&chosen, a, |bytes| *bytes = second, 4096);
            format!("blocks of {name} swapped")
        }
        5 => {
            fs::remove_file(&chosen).unwrap();
            format!("{name} deleted")
        }
        6 => {
            let foreign = other.join(chosen.strip_prefix(dir).unwrap());
            let foreign = if foreign.exists() { foreign } else { other.join("db/db") };
            fs::copy(foreign, &chosen).unwrap();
            format!("{name} taken from another store")
        }
        _ => {
            let half = dir.join(format!("db/snap.{:016X}.generating", draws.next()));
            let bytes = draws.below(100) as usize;
            fs::write(half, draws.bytes(bytes)).unwrap();
            "a half-written snapshot left".to_owned()
        }
    }
}

/// Changes single values, as a defect of sled might.
fn damage_values(dir: &Path, draws: &mut Draws) -> String {
    let db = sled::open(dir.join("db")).unwrap();
    let kind = [b'c', b'm', b'j'][draws.below(3) as usize];
    let pairs: Vec<_> = db.scan_prefix([kind]).map(|pair| pair.unwrap()).collect();
    let mut pick = || pairs[draws.below(pairs.len() as u64) as usize].clone();
    let ((key, value), (other, foreign)) = (pick(), pick());
    let done = match draws.below(4) {
        0 => {
            db.remove(&key).unwrap();
            "deleted"
        }
        1 => {
            db.insert(&key, &foreign).unwrap();
            db.insert(&other, &value).unwrap();
            "swapped"
        }
        2 => {
            let mut bytes = value.to_vec();
            let at = draws.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << draws.below(8);
            db.insert(&key, bytes).unwrap();
            "flipped"
        }
        _ => {
            db.insert(&key, &value[..draws.below(value.len() as u64) as usize]).unwrap();
            "cut"
        }
    };
    db.flush().unwrap();
    format!("a value of kind {} {done}", kind as char)
}

/// Reads everything; returns the numbers of newest checkpoints, older checkpoints, journals with a loss, and quarantined
/// stores.
fn check(dir: &Path, truth: &SavedData, expects_all_records: bool) -> Result<[u64; 4], StoreError> {
    let (store, report) = Store::open(dir, StoreOptions { deadline: Duration::from_secs(5), ..options() })?;
    if let Some(quarantined) = &report.quarantined {
        println!("quarantined, {} values rescued: {}", quarantined.rescued, quarantined.reason);
    }
    let mut seen = [0, 0, 0, u64::from(report.quarantined.is_some())];
    for (shard, acknowledged) in &truth.acknowledged {
        let loaded = store.load(shard, &identity(), None)?;
        let from = match loaded.checkpoint {
            None => NextOffset(0),
            Some(checkpoint) => {
                let (next, state) = &truth.states[&(shard.clone(), checkpoint.generation)];
                assert!(checkpoint.next == *next && checkpoint.state == *state, "wrong state");
                seen[usize::from(checkpoint.generation < 5)] += 1;
                checkpoint.next
            }
        };
        let mut at = from.0;
        let mut lost = false;
        for replayed in store.replay(shard, from)? {
            match replayed {
                Ok(replayed) => {
                    assert_eq!(replayed.offset, at, "skipped record");
                    assert_eq!(replayed.record, record(shard, at, RECORD_BYTES), "wrong record");
                    at += 1;
                }
                Err(StoreError::RecordsLost { range: gap, .. }) => {
                    assert!(gap.from.0 == at && gap.to > gap.from, "{gap:?} at {at}");
                    lost = true;
                    seen[2] += 1;
                }
                Err(error) => return Err(error),
            }
        }
        assert!(
            at == *acknowledged || lost || !expects_all_records,
            "{shard} ends at {at} of {acknowledged} without an error"
        );
    }
    Ok(seen)
}

/// Saves into a damaged store and reads the values back after reopening it.
fn save_and_reopen(dir: &Path) -> Result<(), StoreError> {
    let (store, _) = Store::open(dir, options())?;
    let state = Draws(1).bytes(100_000);
    for partition in 0..SHARDS {
        store.save(&shard(partition), &identity(), NextOffset(1 << 40), &state)?;
        let next = store.journal_bounds(&shard(partition)).map_or(0, |bounds| bounds.next.0);
        store.append(&[batch(&shard(partition), next, 3, RECORD_BYTES)])?;
    }
    assert_eq!(store.health(), StoreHealth::Healthy);
    drop(store);
    let (store, report) = Store::open(dir, options())?;
    assert_eq!(report.quarantined, None);
    for partition in 0..SHARDS {
        assert_eq!(
            store.load(&shard(partition), &identity(), None)?.checkpoint.map(|found| found.state),
            Some(state.clone())
        );
    }
    Ok(())
}

#[test]
#[ignore = "run as a child process by the test below"]
fn damage_child() {
    let Ok(first) = std::env::var("EBB_FIRST_CASE") else { return };
    let first: u64 = first.parse().unwrap();
    std::panic::set_hook(Box::new(|info| {
        // Panics of sled are expected and caught; panics of the test are not.
        let thread = std::thread::current().name().unwrap_or("").to_owned();
        if thread.contains("damage_child") {
            eprintln!("{info}");
        }
    }));
    let (even, odd) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let truths = [write_store(even.path(), 2), write_store(odd.path(), 3)];
    for case in first..first + CASES_PER_CHILD {
        let mut draws = Draws(case);
        let side = (case % 2) as usize;
        let (template, other) = [(even.path(), odd.path()), (odd.path(), even.path())][side];
        let dir = tempfile::tempdir().unwrap();
        copy_all(template, dir.path());
        let done = if case % 5 == 0 {
            damage_values(dir.path(), &mut draws)
        } else {
            damage_files(dir.path(), other, &mut draws)
        };
        println!("case {case}: {done}");
        let expects_all_records = !done.contains("acknowledged");
        let outcome = check(dir.path(), &truths[side], expects_all_records);
        // Damage that sled only detects in a write fails the store; the next open rescues the readable values.
        let after = save_and_reopen(dir.path()).or_else(|_| save_and_reopen(dir.path()));
        println!("outcome {case}: {outcome:?} then {after:?}");
    }
    println!("finished");
}

#[test]
fn damaged_store_returns_an_older_state_or_none_but_never_a_wrong_one() {
    let cases: u64 = std::env::var("EBB_CASES").map_or(240, |cases| cases.parse().expect("a number"));
    let (mut seen, mut refused, mut stuck, mut died) = ([0u64; 4], 0, 0, 0);
    for first in (0..cases).step_by(CASES_PER_CHILD as usize) {
        let child = child("damage::damage_child").env("EBB_FIRST_CASE", first.to_string()).spawn().unwrap();
        let (ended, output) = finish_within(child, Duration::from_secs(120));
        let last = output.lines().rev().find(|line| line.starts_with("case")).unwrap_or("before the first").to_owned();
        if !ended.is_some_and(|status| status.success()) {
            eprintln!("wrong data, panic or hang in {last}\n{output}");
            died += 1;
        }
        for line in output.lines().filter(|line| line.starts_with("outcome")) {
            match line.split_once("Ok([").and_then(|(_, rest)| rest.split_once(']')) {
                Some((counts, _)) => {
                    counts.split(", ").zip(&mut seen).for_each(|(n, sum)| *sum += n.parse::<u64>().unwrap())
                }
                None => refused += 1,
            }
            stuck += u64::from(!line.ends_with("then Ok(())"));
            if !line.contains("Ok([") || !line.ends_with("then Ok(())") {
                println!("{line}");
            }
        }
    }
    let [newest, older, lost, quarantined] = seen;
    println!(
        "damage: {cases} cases of {SHARDS} shards: {newest} newest, {older} older, {} none; {lost} journals report a loss; \
         {quarantined} stores quarantined, {refused} did not open; {stuck} could not be written afterwards; {died} returned wrong \
         data, panicked or hung",
        cases * u64::from(SHARDS) - newest - older
    );
    assert!(newest > 0 && older > 0 && lost > 0 && quarantined > 0, "the damage has too little effect");
    assert_eq!((died, refused, stuck), (0, 0, 0));
}
