//! Compares stored checkpoints byte for byte with an uninterrupted fold of the same log.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use ebb::store::{CheckpointIdentity, ShardId, Store, StoreOptions};
use ebb_core::{NextOffset, Plan, Record, Shard};
use ebb_sketch::codec;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use crate::broker::copy_tree;
use crate::testbed::{INPUT, TestBed};

/// The frame of a shard in a checkpoint of the Kafka worker, and the schema of that checkpoint.
const KIND: codec::Kind = *b"kchk";
const VERSION: u16 = 1;
const SCHEMA: u16 = 2;

/// The checkpoints collected so far: hash and origin by partition and next offset.
#[derive(Debug, Default)]
pub struct CheckpointAudit {
    found: BTreeMap<(u32, u64), Vec<(blake3::Hash, String)>>,
}

impl CheckpointAudit {
    /// Collects every stored generation of a stopped instance. Opens a copy of the store: recovery after a crash is left
    /// to the instance itself.
    pub fn collect(&mut self, testbed: &TestBed, plan: &Arc<Plan>, name: &str) {
        let (source, copy) = (testbed.file(name).join("store"), testbed.file("audit"));
        if !source.exists() {
            return;
        }
        let _ = fs::remove_dir_all(&copy);
        copy_tree(&source, &copy);
        let options = StoreOptions { headroom: 0, ..StoreOptions::default() };
        let Ok((store, _)) = Store::open(&copy, options) else { return };
        for partition in 0..testbed.partitions as u32 {
            self.collect_shard(&store, plan, partition, name);
        }
    }

    fn collect_shard(&mut self, store: &Store, plan: &Arc<Plan>, partition: u32, name: &str) {
        let identity = CheckpointIdentity {
            config_hash: plan.identity(),
            key_digest: plan.reader.key_digest(),
            log: format!("kafka:{INPUT}"),
            schema: SCHEMA,
        };
        let shard = ShardId { stream: "clicks".into(), partition };
        let mut max_next = None;
        while let Some(checkpoint) = store.load(&shard, &identity, max_next).expect("read the copy").checkpoint {
            let bytes = shard_bytes(&checkpoint.state);
            let found = self.found.entry((partition, checkpoint.next.0)).or_default();
            found.push((blake3::hash(bytes), format!("{name}, generation {}", checkpoint.generation)));
            let Some(before) = checkpoint.next.0.checked_sub(1) else { break };
            max_next = Some(NextOffset(before));
        }
    }

    /// The largest next offset of all collected checkpoints.
    pub fn max_offset(&self) -> u64 {
        self.found.keys().map(|(_, next)| *next).max().unwrap_or(0)
    }

    /// The number of distinct (partition, offset) pairs.
    pub fn count(&self) -> usize {
        self.found.len()
    }

    /// Folds the whole log and returns the checkpoints that differ from it.
    pub fn mismatches(&self, testbed: &TestBed, plan: &Arc<Plan>) -> Vec<String> {
        let mut mismatches = Vec::new();
        for partition in 0..testbed.partitions as u32 {
            let offsets: Vec<u64> = self.found.keys().filter(|(p, _)| *p == partition).map(|(_, next)| *next).collect();
            let Some(end) = offsets.last().copied() else { continue };
            let mut shard = Shard::new(plan.clone(), partition).expect("create a shard");
            let mut due = offsets.into_iter().peekable();
            let mut compare = |shard: &Shard, next: u64| {
                let expected = blake3::hash(&shard.snapshot());
                let wrong = self.found[&(partition, next)].iter().filter(|(hash, _)| *hash != expected);
                mismatches.extend(wrong.map(|(_, origin)| format!("{INPUT}/{partition} at {next}: {origin}")));
            };
            for_each_record(testbed, partition, end, |record| {
                while let Some(next) = due.next_if(|next| *next <= record.offset) {
                    compare(&shard, next);
                }
                shard.apply(record);
            });
            due.for_each(|next| compare(&shard, next));
        }
        mismatches
    }
}

fn shard_bytes(state: &[u8]) -> &[u8] {
    let mut reader = codec::Reader::open(KIND, VERSION, state).expect("open the checkpoint's frame");
    reader.u8().and_then(|_| reader.u64()).and_then(|_| reader.raw(32)).expect("skip the last record");
    reader.bytes().expect("a shard")
}

/// Visits every record of a partition before `end`.
fn for_each_record(testbed: &TestBed, partition: u32, end: u64, mut visit: impl FnMut(Record<'_>)) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", testbed.cluster.brokers())
        .set("group.id", "audit")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("log_level", "0")
        .create()
        .expect("create a consumer");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(INPUT, partition as i32, Offset::Beginning).expect("add a partition");
    consumer.assign(&list).expect("assign partitions");
    loop {
        match consumer.poll(Duration::from_secs(60)).expect("a record in time") {
            Ok(message) if (message.offset() as u64) < end => visit(Record {
                offset: message.offset() as u64,
                timestamp_ms: message.timestamp().to_millis().unwrap_or(0),
                payload: message.payload().unwrap_or_default(),
            }),
            Ok(_) | Err(KafkaError::PartitionEOF(_)) => return,
            Err(error) => panic!("reading the log: {error}"),
        }
    }
}
