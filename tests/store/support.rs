//! Shared fixtures of the store tests.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use ebb::store::{
    CheckpointIdentity, JournalBatch, JournalRecord, NextOffset, OpenReport, ShardId, Store, StoreOptions,
};
use ebb_sketch::hash::KeyDigest;

/// A random generator independent of the product's, so that test data never changes.
pub struct Draws(pub u64);

impl Draws {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}

pub fn shard(partition: u32) -> ShardId {
    ShardId { stream: "clicks".into(), partition }
}

pub fn identity() -> CheckpointIdentity {
    CheckpointIdentity { config_hash: [7; 32], key_digest: KeyDigest([3; 8]), log: "clicks@made-1".into(), schema: 1 }
}

/// Options without a reserve, for small disks.
pub fn options() -> StoreOptions {
    StoreOptions { reserve_bytes: 0, ..StoreOptions::default() }
}

pub fn open(dir: &Path) -> (Store, OpenReport) {
    Store::open(dir, options()).expect("the store opens")
}

/// A record whose bytes depend on its offset, so that a wrong one is detected.
pub fn record(shard: &ShardId, offset: u64, bytes: usize) -> JournalRecord {
    let seed = offset ^ u64::from(shard.partition) << 48;
    JournalRecord { timestamp_ms: seed as i64, payload: Draws(seed).bytes(bytes) }
}

pub fn batch(shard: &ShardId, first: u64, count: u64, bytes: usize) -> JournalBatch {
    let records = (first..first + count).map(|offset| record(shard, offset, bytes)).collect();
    JournalBatch { shard: shard.clone(), first: NextOffset(first), records }
}

/// The replayed offsets, and the error that ended the replay. Checks the records, whose sizes are given by `bytes`.
pub fn replayed(
    store: &Store,
    shard: &ShardId,
    from: u64,
    bytes: impl Fn(u64) -> usize,
) -> (Vec<u64>, Option<ebb::store::StoreError>) {
    let mut offsets = Vec::new();
    for replayed in store.replay(shard, NextOffset(from)).expect("the replay begins") {
        match replayed {
            Err(error) => return (offsets, Some(error)),
            Ok(replayed) => {
                let offset = replayed.offset;
                assert_eq!(replayed.record, record(shard, offset, bytes(offset)), "at {offset}");
                offsets.push(offset);
            }
        }
    }
    (offsets, None)
}

/// A command that runs one test of this binary as a child process.
pub fn child(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary has a path"));
    command.args(["--exact", test, "--ignored", "--nocapture"]).stdout(Stdio::piped()).stdin(Stdio::null());
    command
}

/// Waits for a child and kills it at the deadline. Returns its status, if it ended by itself, and its output.
pub fn finish_within(mut child: Child, deadline: Duration) -> (Option<ExitStatus>, String) {
    let mut out = child.stdout.take().expect("the output is piped");
    let (sender, output) = sync_channel(1);
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = out.read_to_string(&mut text);
        let _ = sender.send(text);
    });
    match output.recv_timeout(deadline) {
        Ok(text) => (child.wait().ok(), text),
        Err(_) => {
            let _ = child.kill();
            let _ = child.wait();
            (None, output.recv().unwrap_or_default())
        }
    }
}
