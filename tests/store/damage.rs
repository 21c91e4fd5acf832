//! Surgery on copies of a store: whatever was done to its files, what comes back was once saved, or nothing does.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebb::store::{NextOffset, ShardId, Store, StoreError, StoreHealth, StoreOptions};

use crate::support::{Draws, batch, child, finish_within, identity, open, options, record, shard};

const SHARDS: u32 = 3;
const RECORD_BYTES: usize = 200;
const CASES_A_CHILD: u64 = 30;

/// Everything that was ever saved, and how far each journal was acknowledged.
#[derive(Default)]
struct Truth {
    states: BTreeMap<(ShardId, u64), (NextOffset, Vec<u8>)>,
    acknowledged: BTreeMap<ShardId, u64>,
}

/// A store with several shards, generations and a journal that was truncated; `dir` holds it as a kill would leave it.
fn write_store(dir: &Path, seed: u64) -> Truth {
    let work = tempfile::tempdir().unwrap();
    // Both stores serve the same log under the same configuration: only their names tell them apart.
    let mut truth = Truth::default();
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
        // Opening writes a snapshot of the pages: from then on damage is met when a page is read, not when sled opens.
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

/// Does something bad to the files in `dir`; says what. `other` is another store, to take foreign files from.
fn damage_files(dir: &Path, other: &Path, draws: &mut Draws) -> String {
    let files = files(dir);
    let log = dir.join("db/db");
    // Most of what matters is in the log.
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

/// Changes single values, as sled would return them after a fault of its own.
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

/// Reads everything; returns (shards with the newest checkpoint, with an older one, journals that report a loss).
fn check(dir: &Path, truth: &Truth, marks_are_whole: bool) -> Result<[u64; 4], StoreError> {
    let (store, report) = Store::open(dir, StoreOptions { deadline: Duration::from_secs(5), ..options() })?;
    if let Some(aside) = &report.quarantined {
        println!("set aside, {} rescued: {}", aside.rescued, aside.reason);
    }
    let mut seen = [0, 0, 0, u64::from(report.quarantined.is_some())];
    for (shard, acknowledged) in &truth.acknowledged {
        let loaded = store.load(shard, &identity(), None)?;
        let from = match loaded.checkpoint {
            None => NextOffset(0),
            Some(checkpoint) => {
                let (next, state) = &truth.states[&(shard.clone(), checkpoint.generation)];
                assert!(checkpoint.next == *next && checkpoint.state == *state, "a wrong state was returned");
                seen[usize::from(checkpoint.generation < 5)] += 1;
                checkpoint.next
            }
        };
        let mut at = from.0;
        let mut lost = false;
        for logged in store.replay(shard, from)? {
            match logged {
                Ok(logged) => {
                    assert_eq!(logged.offset, at, "a record was skipped");
                    assert_eq!(logged.record, record(shard, at, RECORD_BYTES), "a wrong record was returned");
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
        assert!(at == *acknowledged || lost || !marks_are_whole, "{shard} ends at {at} of {acknowledged} in silence");
    }
    Ok(seen)
}

/// A damaged store goes on: what is saved in it is there at the next opening.
fn goes_on(dir: &Path) -> Result<(), StoreError> {
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
#[ignore = "run by the test below, in a process of its own"]
fn surgeries() {
    let Ok(first) = std::env::var("EBB_FIRST_CASE") else { return };
    let first: u64 = first.parse().unwrap();
    std::panic::set_hook(Box::new(|info| {
        // sled panics on some damage; that is contained and expected. Ours are not.
        let thread = std::thread::current().name().unwrap_or("").to_owned();
        if thread.contains("surgeries") {
            eprintln!("{info}");
        }
    }));
    let (even, odd) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let truths = [write_store(even.path(), 2), write_store(odd.path(), 3)];
    for case in first..first + CASES_A_CHILD {
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
        let marks_are_whole = !done.contains("acknowledged");
        let outcome = check(dir.path(), &truths[side], marks_are_whole);
        // Damage that is only met when something is written fails the store; the next opening rescues what can be read.
        let after = goes_on(dir.path()).or_else(|_| goes_on(dir.path()));
        println!("outcome {case}: {outcome:?} then {after:?}");
    }
    println!("finished");
}

#[test]
fn damaged_stores_give_an_older_state_or_none_and_never_a_wrong_one() {
    let cases: u64 = std::env::var("EBB_CASES").map_or(240, |cases| cases.parse().expect("a number"));
    let (mut seen, mut refused, mut stuck, mut died) = ([0u64; 4], 0, 0, 0);
    for first in (0..cases).step_by(CASES_A_CHILD as usize) {
        let child = child("damage::surgeries").env("EBB_FIRST_CASE", first.to_string()).spawn().unwrap();
        let (ended, said) = finish_within(child, Duration::from_secs(120));
        let last = said.lines().rev().find(|line| line.starts_with("case")).unwrap_or("before the first").to_owned();
        if !ended.is_some_and(|status| status.success()) {
            eprintln!("died (a wrong answer, a panic) or hung in {last}\n{said}");
            died += 1;
        }
        for line in said.lines().filter(|line| line.starts_with("outcome")) {
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
    let [newest, older, lost, aside] = seen;
    println!(
        "damage: {cases} cases of {SHARDS} shards: {newest} newest, {older} older, {} none; {lost} journals report a loss; \
         {aside} stores set aside, {refused} refused to open; {stuck} could not go on; {died} gave a wrong answer, panicked or hung",
        cases * u64::from(SHARDS) - newest - older
    );
    assert!(newest > 0 && older > 0 && lost > 0 && aside > 0, "the damage does too little");
    assert_eq!((died, refused, stuck), (0, 0, 0));
}
