//! States, identities and stores for the tests.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use ebb::store::{
    CheckpointIdentity, JournalBatch, JournalRecord, NextOffset, OpenReport, ShardId, Store, StoreOptions,
};
use ebb_sketch::hash::KeyDigest;

/// A generator of its own, so that what the tests feed does not move with the product's.
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

/// No reserve, so that small disks do for small tests.
pub fn options() -> StoreOptions {
    StoreOptions { reserve_bytes: 0, ..StoreOptions::default() }
}

pub fn open(dir: &Path) -> (Store, OpenReport) {
    Store::open(dir, options()).expect("the store opens")
}

/// A record whose bytes follow from its position, so that a wrong one shows.
pub fn record(shard: &ShardId, offset: u64, bytes: usize) -> JournalRecord {
    let seed = offset ^ u64::from(shard.partition) << 48;
    JournalRecord { timestamp_ms: seed as i64, payload: Draws(seed).bytes(bytes) }
}

pub fn batch(shard: &ShardId, first: u64, count: u64, bytes: usize) -> JournalBatch {
    let records = (first..first + count).map(|offset| record(shard, offset, bytes)).collect();
    JournalBatch { shard: shard.clone(), first: NextOffset(first), records }
}

/// The positions replayed, and the error that ended the replay, if any. Contents are checked by `bytes`.
pub fn replayed(
    store: &Store,
    shard: &ShardId,
    from: u64,
    bytes: impl Fn(u64) -> usize,
) -> (Vec<u64>, Option<ebb::store::StoreError>) {
    let mut offsets = Vec::new();
    for logged in store.replay(shard, NextOffset(from)).expect("the replay begins") {
        match logged {
            Err(error) => return (offsets, Some(error)),
            Ok(logged) => {
                assert_eq!(logged.record, record(shard, logged.offset, bytes(logged.offset)), "at {}", logged.offset);
                offsets.push(logged.offset);
            }
        }
    }
    (offsets, None)
}

/// A test of this binary as a process of its own.
pub fn child(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary has a path"));
    command.args(["--exact", test, "--ignored", "--nocapture"]).stdout(Stdio::piped()).stdin(Stdio::null());
    command
}

/// Waits for a child, kills it at the deadline; what it printed either way.
pub fn finish_within(mut child: Child, deadline: Duration) -> (Option<ExitStatus>, String) {
    let mut out = child.stdout.take().expect("the output is piped");
    let (said, heard) = sync_channel(1);
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = out.read_to_string(&mut text);
        let _ = said.send(text);
    });
    match heard.recv_timeout(deadline) {
        Ok(text) => (child.wait().ok(), text),
        Err(_) => {
            let _ = child.kill();
            let _ = child.wait();
            (None, heard.recv().unwrap_or_default())
        }
    }
}
