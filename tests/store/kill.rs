//! A process that appends and checkpoints is killed again and again; everything acknowledged survives.

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

/// The state of a shard at an offset, so that any other bytes are detected.
fn state(partition: u32, next: NextOffset) -> Vec<u8> {
    Draws(next.0 << 8 | u64::from(partition)).bytes(STATE_BYTES[partition as usize])
}

/// What the store acknowledged to the killed processes for one shard.
#[derive(Debug, Clone, Copy, Default)]
struct Acknowledged {
    next: u64,
    generation: u64,
}

fn format_acknowledged(acknowledged: &BTreeMap<u32, Acknowledged>) -> String {
    let line = |(shard, acknowledged): (&u32, &Acknowledged)| {
        format!("{shard} {} {};", acknowledged.next, acknowledged.generation)
    };
    acknowledged.iter().map(line).collect()
}

fn parse_acknowledged(text: &str) -> BTreeMap<u32, Acknowledged> {
    let parse = |part: &str| {
        let numbers: Vec<u64> = part.split(' ').map(|number| number.parse().unwrap()).collect();
        (numbers[0] as u32, Acknowledged { next: numbers[1], generation: numbers[2] })
    };
    text.split_terminator(';').map(parse).collect()
}

/// Checks that the last append of the killed process is in all of its shards or in none.
fn verify_last_append(store: &Store, last_append: &str) {
    let happened = |part: &str| {
        let (partition, next) = part.split_once(':').unwrap();
        let bounds = store.journal_bounds(&shard(partition.parse().unwrap()));
        bounds.is_some_and(|bounds| bounds.next.0 >= next.parse().unwrap())
    };
    let happened: Vec<bool> = last_append.split_terminator(' ').map(happened).collect();
    assert!(happened.iter().all(|each| *each == happened[0]), "half of an append survived: {last_append} {happened:?}");
}

/// Checks everything against what was acknowledged and prints the sizes of the disk and of the live data.
fn verify(store: &Store, acknowledged: &BTreeMap<u32, Acknowledged>) {
    let mut live = 0;
    for partition in shards() {
        let acknowledged = acknowledged.get(&partition).copied().unwrap_or_default();
        let (shard, bytes) = (shard(partition), RECORD_BYTES[partition as usize]);
        let loaded = store.load(&shard, &identity(), None).unwrap();
        assert_eq!(loaded.refused, vec![], "shard {partition}");
        let generation = loaded.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.generation);
        assert!(
            generation >= acknowledged.generation,
            "shard {partition}: generation {generation} of {}",
            acknowledged.generation
        );
        let from = loaded.checkpoint.map_or(NextOffset(0), |checkpoint| {
            assert!(checkpoint.state == state(partition, checkpoint.next), "shard {partition}: wrong state");
            checkpoint.next
        });
        live += generation.min(3) * STATE_BYTES[partition as usize] as u64;
        let mut at = from.0;
        for replayed in store.replay(&shard, from).unwrap() {
            let replayed = replayed.unwrap();
            assert_eq!((replayed.offset, &replayed.record), (at, &record(&shard, at, bytes)), "shard {partition}");
            at += 1;
        }
        assert!(at >= acknowledged.next, "shard {partition}: the journal ends at {at} of {}", acknowledged.next);
        let bounds = store.journal_bounds(&shard);
        live += bounds.map_or(0, |bounds| (bounds.next.0 - bounds.first.0) * bytes as u64);
    }
    println!("disk {} {live}", store.disk_bytes());
}

fn checkpoint_forever(store: &Store) {
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

fn append_forever(store: &Store, draws: &mut Draws) {
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
        println!("appending {}", nexts.join(" "));
        store.append(&batches).unwrap();
        for (shard, next) in batches.iter().map(after) {
            println!("appended {shard} {next}");
        }
    }
}

#[test]
#[ignore = "run and killed by the test below"]
fn victim() {
    let (Ok(dir), Ok(acknowledged)) = (std::env::var("EBB_DIR"), std::env::var("EBB_ACKNOWLEDGED")) else { return };
    let seed: u64 = std::env::var("EBB_SEED").unwrap().parse().unwrap();
    println!("\nopening");
    let (store, report) = open(Path::new(&dir));
    println!("opened {}", report.removed_files);
    assert!(report.quarantined.is_none() && report.lost.is_empty() && report.unreadable_slots == 0, "{report:?}");
    verify(&store, &parse_acknowledged(&acknowledged));
    verify_last_append(&store, &std::env::var("EBB_LAST_APPEND").unwrap());
    println!("verified");
    if seed == 0 {
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| checkpoint_forever(&store));
        append_forever(&store, &mut Draws(seed));
    });
}

/// The lines that a victim prints.
fn read_lines(child: &mut std::process::Child) -> Receiver<String> {
    let out = BufReader::new(child.stdout.take().unwrap());
    let (sender, lines) = channel();
    std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    lines
}

#[derive(Debug, Default)]
struct Figures {
    kills: u64,
    faults: u64,
    before_open: u64,
    before_verified: u64,
    appends: u64,
    saves: u64,
    removed_files: u64,
    worst_ratio: f64,
    largest_disk: u64,
    /// Disk and live data in MiB, as measured by each process that verified the store.
    sizes: Vec<(u64, u64)>,
}

impl Figures {
    fn add_line(&mut self, line: &str, acknowledged: &mut BTreeMap<u32, Acknowledged>) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        match words[0] {
            "appended" if words.len() == 3 => {
                acknowledged.entry(number(1) as u32).or_default().next = number(2);
                self.appends += 1;
            }
            "saved" if words.len() == 3 => {
                acknowledged.entry(number(1) as u32).or_default().generation = number(2);
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

/// Exit status and output of a victim.
struct VictimOutput {
    status: std::process::ExitStatus,
    lines: Vec<String>,
}

impl VictimOutput {
    fn reached(&self, step: &str) -> bool {
        self.lines.iter().any(|line| line.starts_with(step))
    }
}

/// Runs a process and kills it `delay` after it printed `from`; without a delay it ends by itself.
fn run(mut command: std::process::Command, from: &str, delay: Option<Duration>) -> VictimOutput {
    let mut child = command.spawn().unwrap();
    let output = read_lines(&mut child);
    let mut lines = Vec::new();
    let mut until = Instant::now() + Duration::from_secs(60);
    while let Ok(line) = output.recv_timeout(until.saturating_duration_since(Instant::now())) {
        if let Some(delay) = delay.filter(|_| line == from) {
            until = Instant::now() + delay;
        }
        lines.push(line);
    }
    // No effect if the process has ended.
    let _ = child.kill();
    lines.extend(output);
    VictimOutput { status: child.wait().unwrap(), lines }
}

#[test]
fn acknowledged_data_survives_repeated_kills() {
    let kills: u64 = std::env::var("EBB_KILLS").map_or(120, |kills| kills.parse().expect("a number"));
    let dir = tempfile::tempdir().unwrap();
    let (mut acknowledged, mut last_append, mut figures) = (BTreeMap::new(), String::new(), Figures::default());
    let mut draws = Draws(11);
    for seed in (1..=kills).chain([0]) {
        let mut command = child("kill::victim");
        command
            .env("EBB_DIR", dir.path())
            .env("EBB_ACKNOWLEDGED", format_acknowledged(&acknowledged))
            .env("EBB_SEED", seed.to_string())
            .env("EBB_LAST_APPEND", &last_append);
        // A third is killed while it opens or verifies the store; the others work for a while.
        let (from, max_us) = if seed % 3 == 0 { ("opening", 60_000) } else { ("verified", 300_000) };
        let delay = (seed > 0).then(|| Duration::from_micros(draws.below(max_us)));
        let ended = run(command, from, delay);
        let killed = ended.status.signal() == Some(9);
        let context = || format!("{:?}, acknowledged {acknowledged:?}\n{}", ended.status, ended.lines.join("\n"));
        if !(if seed > 0 { killed } else { ended.status.success() && ended.reached("verified") }) {
            // The store did not open, or acknowledged data was lost or changed.
            eprintln!("{}", context());
            figures.faults += 1;
        }
        figures.kills += u64::from(killed);
        figures.before_open += u64::from(killed && !ended.reached("opened"));
        figures.before_verified += u64::from(killed && !ended.reached("verified"));
        let last = ended.lines.iter().filter_map(|line| line.strip_prefix("appending ")).next_back();
        last_append = last.unwrap_or(&last_append).to_owned();
        ended.lines.iter().for_each(|line| figures.add_line(line, &mut acknowledged));
    }
    let every = figures.sizes.len().div_ceil(30);
    figures.sizes = figures.sizes.into_iter().step_by(every).collect();
    println!("kill -9: {figures:?}");
    assert_eq!(figures.faults, 0);
    assert!(figures.before_open > 0 && figures.appends > kills && figures.saves > kills, "{figures:?}");
    assert!(figures.worst_ratio <= 10.0, "{figures:?}");
}
