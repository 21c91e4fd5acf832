//! A process that appends and checkpoints, killed at any moment, again and again: what it was told is kept, is kept.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ebb::store::{JournalBatch, NextOffset, Store};

use crate::support::{Draws, batch, child, identity, open, record, shard};

const RECORD_BYTES: [usize; 4] = [200, 1000, 5000, 120];
const STATE_BYTES: [usize; 4] = [3_000, 100_000, (1 << 20) + 77, 5 << 20];

fn shards() -> std::ops::Range<u32> {
    0..STATE_BYTES.len() as u32
}

/// The state of a shard at a position, so that any other bytes show.
fn state(partition: u32, next: NextOffset) -> Vec<u8> {
    Draws(next.0 << 8 | u64::from(partition)).bytes(STATE_BYTES[partition as usize])
}

/// What the dead processes were told: per shard, the position journalled, and the newest generation saved.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    next: u64,
    generation: u64,
}

fn spell(told: &BTreeMap<u32, Told>) -> String {
    told.iter().map(|(shard, told)| format!("{shard} {} {};", told.next, told.generation)).collect()
}

fn parse(told: &str) -> BTreeMap<u32, Told> {
    let parse = |part: &str| {
        let numbers: Vec<u64> = part.split(' ').map(|number| number.parse().unwrap()).collect();
        (numbers[0] as u32, Told { next: numbers[1], generation: numbers[2] })
    };
    told.split_terminator(';').map(parse).collect()
}

/// The last append of the dead process happened in all its shards or in none.
fn verify_together(store: &Store, together: &str) {
    let happened = |part: &str| {
        let (partition, next) = part.split_once(':').unwrap();
        let bounds = store.journal_bounds(&shard(partition.parse().unwrap()));
        bounds.is_some_and(|bounds| bounds.next.0 >= next.parse().unwrap())
    };
    let happened: Vec<bool> = together.split_terminator(' ').map(happened).collect();
    assert!(happened.iter().all(|each| *each == happened[0]), "half of an append is there: {together} {happened:?}");
}

/// Checks everything against what was told, then prints how large the disk is for what is alive.
fn verify(store: &Store, told: &BTreeMap<u32, Told>) {
    let mut live = 0;
    for partition in shards() {
        let told = told.get(&partition).copied().unwrap_or_default();
        let (shard, bytes) = (shard(partition), RECORD_BYTES[partition as usize]);
        let loaded = store.load(&shard, &identity(), None).unwrap();
        assert_eq!(loaded.refused, vec![], "shard {partition}");
        let generation = loaded.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.generation);
        assert!(generation >= told.generation, "shard {partition}: generation {generation} of {}", told.generation);
        let from = loaded.checkpoint.map_or(NextOffset(0), |checkpoint| {
            assert!(checkpoint.state == state(partition, checkpoint.next), "shard {partition}: wrong state");
            checkpoint.next
        });
        live += generation.min(3) * STATE_BYTES[partition as usize] as u64;
        let mut at = from.0;
        for logged in store.replay(&shard, from).unwrap() {
            let logged = logged.unwrap();
            assert_eq!((logged.offset, &logged.record), (at, &record(&shard, at, bytes)), "shard {partition}");
            at += 1;
        }
        assert!(at >= told.next, "shard {partition}: the journal ends at {at} of {}", told.next);
        let bounds = store.journal_bounds(&shard);
        live += bounds.map_or(0, |bounds| (bounds.next.0 - bounds.first.0) * bytes as u64);
    }
    println!("disk {} {live}", store.disk_bytes());
}

fn checkpoint_for_ever(store: &Store) {
    loop {
        for partition in shards() {
            let shard = shard(partition);
            let Some(bounds) = store.journal_bounds(&shard) else { continue };
            let saved = store.save(&shard, &identity(), bounds.next, &state(partition, bounds.next)).unwrap();
            println!("saved {partition} {}", saved.generation);
            store.truncate(&shard, bounds.next).unwrap();
        }
    }
}

fn append_for_ever(store: &Store, draws: &mut Draws) {
    loop {
        let mut batches = Vec::new();
        for partition in shards() {
            if draws.below(3) == 0 {
                continue;
            }
            let shard = shard(partition);
            let next = store.journal_bounds(&shard).map_or(0, |bounds| bounds.next.0);
            batches.push(batch(&shard, next, 1 + draws.below(30), RECORD_BYTES[partition as usize]));
        }
        let after = |batch: &JournalBatch| (batch.shard.partition, batch.first.0 + batch.records.len() as u64);
        let nexts: Vec<String> = batches.iter().map(after).map(|(shard, next)| format!("{shard}:{next}")).collect();
        println!("together {}", nexts.join(" "));
        store.append(&batches).unwrap();
        for (shard, next) in batches.iter().map(after) {
            println!("appended {shard} {next}");
        }
    }
}

#[test]
#[ignore = "run and killed by the test below"]
fn victim() {
    let (Ok(dir), Ok(told)) = (std::env::var("EBB_DIR"), std::env::var("EBB_TOLD")) else { return };
    let seed: u64 = std::env::var("EBB_SEED").unwrap().parse().unwrap();
    println!("\nopening");
    let (store, report) = open(Path::new(&dir));
    println!("opened {}", report.removed_files);
    assert!(report.quarantined.is_none() && report.lost.is_empty() && report.unreadable_slots == 0, "{report:?}");
    verify(&store, &parse(&told));
    verify_together(&store, &std::env::var("EBB_TOGETHER").unwrap());
    println!("verified");
    if seed == 0 {
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| checkpoint_for_ever(&store));
        append_for_ever(&store, &mut Draws(seed));
    });
}

/// The lines a victim prints until it ends.
fn listen(child: &mut std::process::Child) -> Receiver<String> {
    let out = BufReader::new(child.stdout.take().unwrap());
    let (say, heard) = channel();
    std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| say.send(line)));
    heard
}

#[derive(Debug, Default)]
struct Figures {
    kills: u64,
    found_a_fault: u64,
    before_open: u64,
    before_verified: u64,
    appends: u64,
    saves: u64,
    removed_files: u64,
    worst_ratio: f64,
    largest_disk: u64,
    /// Disk and what is alive in MiB, as each process that got so far found them.
    sizes: Vec<(u64, u64)>,
}

impl Figures {
    fn hear(&mut self, line: &str, told: &mut BTreeMap<u32, Told>) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        match words[0] {
            "appended" if words.len() == 3 => {
                told.entry(number(1) as u32).or_default().next = number(2);
                self.appends += 1;
            }
            "saved" if words.len() == 3 => {
                told.entry(number(1) as u32).or_default().generation = number(2);
                self.saves += 1;
            }
            "opened" => self.removed_files += number(1),
            "disk" if number(2) > 0 => {
                self.sizes.push((number(1) >> 20, number(2) >> 20));
                self.largest_disk = self.largest_disk.max(number(1));
                self.worst_ratio = self.worst_ratio.max(number(1) as f64 / number(2) as f64);
            }
            _ => {}
        }
    }
}

/// How a victim ended, and what it had reached.
struct Ended {
    status: std::process::ExitStatus,
    lines: Vec<String>,
}

impl Ended {
    fn reached(&self, step: &str) -> bool {
        self.lines.iter().any(|line| line.starts_with(step))
    }
}

/// Runs a process and kills it `patience` after it printed `from`; without a patience it ends by itself.
fn run(mut command: std::process::Command, from: &str, patience: Option<Duration>) -> Ended {
    let mut child = command.spawn().unwrap();
    let heard = listen(&mut child);
    let mut lines = Vec::new();
    let mut until = Instant::now() + Duration::from_secs(60);
    while let Ok(line) = heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
        if let Some(patience) = patience.filter(|_| line == from) {
            until = Instant::now() + patience;
        }
        lines.push(line);
    }
    // A process that ended by itself is not changed by this.
    let _ = child.kill();
    lines.extend(heard);
    Ended { status: child.wait().unwrap(), lines }
}

#[test]
fn what_was_acknowledged_survives_any_number_of_kills() {
    let kills: u64 = std::env::var("EBB_KILLS").map_or(120, |kills| kills.parse().expect("a number"));
    let dir = tempfile::tempdir().unwrap();
    let (mut told, mut together, mut figures) = (BTreeMap::new(), String::new(), Figures::default());
    let mut draws = Draws(11);
    for seed in (1..=kills).chain([0]) {
        let mut command = child("kill::victim");
        command
            .env("EBB_DIR", dir.path())
            .env("EBB_TOLD", spell(&told))
            .env("EBB_SEED", seed.to_string())
            .env("EBB_TOGETHER", &together);
        // A third dies young, while it opens or verifies; the others work for a while.
        let (from, most_us) = if seed % 3 == 0 { ("opening", 60_000) } else { ("verified", 300_000) };
        let patience = (seed > 0).then(|| Duration::from_micros(draws.below(most_us)));
        let ended = run(command, from, patience);
        let killed = ended.status.signal() == Some(9);
        let context = || format!("{:?}, told {told:?}\n{}", ended.status, ended.lines.join("\n"));
        if !(if seed > 0 { killed } else { ended.status.success() && ended.reached("verified") }) {
            // It refused to open, or found something that it was promised lost or changed.
            eprintln!("{}", context());
            figures.found_a_fault += 1;
        }
        figures.kills += u64::from(killed);
        figures.before_open += u64::from(killed && !ended.reached("opened"));
        figures.before_verified += u64::from(killed && !ended.reached("verified"));
        let last = ended.lines.iter().filter_map(|line| line.strip_prefix("together ")).next_back();
        together = last.unwrap_or(&together).to_owned();
        ended.lines.iter().for_each(|line| figures.hear(line, &mut told));
    }
    let every = figures.sizes.len().div_ceil(30);
    figures.sizes = figures.sizes.into_iter().step_by(every).collect();
    println!("kill -9: {figures:?}");
    assert_eq!(figures.found_a_fault, 0);
    assert!(figures.before_open > 0 && figures.appends > kills && figures.saves > kills, "{figures:?}");
    assert!(figures.worst_ratio <= 10.0, "{figures:?}");
}
