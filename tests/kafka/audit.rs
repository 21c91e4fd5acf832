//! States that instances have stored, compared byte for byte with the same log folded without any interruption.

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
use crate::stage::{INPUT, Stage};

/// How the service wraps a shard in a checkpoint, and which schema it gives to it.
const KIND: codec::Kind = *b"kchk";
const VERSION: u16 = 1;
const SCHEMA: u16 = 2;

/// States found so far: by partition and position, the hash of the shard and where it was found.
#[derive(Debug, Default)]
pub struct Audit {
    found: BTreeMap<(u32, u64), Vec<(blake3::Hash, String)>>,
    pub stores: u64,
}

impl Audit {
    /// Takes every kept generation from the data of an instance that does not run. Reads a copy: what a crash has left
    /// is for the instance itself to clean up.
    pub fn take(&mut self, stage: &Stage, plan: &Arc<Plan>, name: &str) {
        let (source, copy) = (stage.file(name).join("store"), stage.file("audit"));
        if !source.exists() {
            return;
        }
        let _ = fs::remove_dir_all(&copy);
        copy_tree(&source, &copy);
        let options = StoreOptions { headroom: 0, ..StoreOptions::default() };
        let Ok((store, _)) = Store::open(&copy, options) else { return };
        self.stores += 1;
        for partition in 0..stage.partitions as u32 {
            self.take_shard(&store, plan, partition, name);
        }
    }

    fn take_shard(&mut self, store: &Store, plan: &Arc<Plan>, partition: u32, name: &str) {
        let identity = CheckpointIdentity {
            config_hash: plan.identity(),
            key_digest: plan.reader.key_digest(),
            log: format!("kafka:{INPUT}"),
            schema: SCHEMA,
        };
        let shard = ShardId { stream: "clicks".into(), partition };
        let mut at_most = None;
        while let Some(checkpoint) = store.load(&shard, &identity, at_most).expect("a readable copy").checkpoint {
            let bytes = unwrapped(&checkpoint.state);
            let found = self.found.entry((partition, checkpoint.next.0)).or_default();
            found.push((blake3::hash(bytes), format!("{name}, generation {}", checkpoint.generation)));
            let Some(before) = checkpoint.next.0.checked_sub(1) else { break };
            at_most = Some(NextOffset(before));
        }
    }

    /// The position of the newest state found, over all partitions.
    pub fn highest(&self) -> u64 {
        self.found.keys().map(|(_, next)| *next).max().unwrap_or(0)
    }

    /// How many states there are to compare: one found again at the same position counts once.
    pub fn states(&self) -> usize {
        self.found.len()
    }

    /// Folds the whole log and compares; returns the states that differ.
    pub fn differing(&self, stage: &Stage, plan: &Arc<Plan>) -> Vec<String> {
        let mut differing = Vec::new();
        for partition in 0..stage.partitions as u32 {
            let wanted: Vec<u64> = self.found.keys().filter(|(p, _)| *p == partition).map(|(_, next)| *next).collect();
            let Some(end) = wanted.last().copied() else { continue };
            let mut shard = Shard::new(plan.clone(), partition).expect("a shard");
            let mut due = wanted.into_iter().peekable();
            let mut compare = |shard: &Shard, next: u64| {
                let expected = blake3::hash(&shard.snapshot());
                let places = self.found[&(partition, next)].iter().filter(|(hash, _)| *hash != expected);
                differing.extend(places.map(|(_, place)| format!("{INPUT}/{partition} at {next}: {place}")));
            };
            each_record(stage, partition, end, |record| {
                while let Some(next) = due.next_if(|next| *next <= record.offset) {
                    compare(&shard, next);
                }
                shard.apply(record);
            });
            due.for_each(|next| compare(&shard, next));
        }
        differing
    }
}

fn unwrapped(state: &[u8]) -> &[u8] {
    let mut reader = codec::Reader::open(KIND, VERSION, state).expect("a checkpoint of the service");
    reader.u8().and_then(|_| reader.u64()).and_then(|_| reader.raw(32)).expect("the last record");
    reader.bytes().expect("a shard")
}

/// Every record of a partition before `end`.
pub fn each_record(stage: &Stage, partition: u32, end: u64, mut take: impl FnMut(Record<'_>)) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", stage.cluster.brokers())
        .set("group.id", "audit")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("log_level", "0")
        .create()
        .expect("a consumer");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(INPUT, partition as i32, Offset::Beginning).expect("an offset");
    consumer.assign(&list).expect("assigned");
    loop {
        match consumer.poll(Duration::from_secs(60)).expect("a record in time") {
            Ok(message) if (message.offset() as u64) < end => take(Record {
                offset: message.offset() as u64,
                timestamp_ms: message.timestamp().to_millis().unwrap_or(0),
                payload: message.payload().unwrap_or_default(),
            }),
            Ok(_) | Err(KafkaError::PartitionEOF(_)) => return,
            Err(error) => panic!("reading the log again: {error}"),
        }
    }
}
