//! The smallest correct stream processor. It proves that testbed, proxy and checker distinguish right from wrong before
//! they judge the service.
//!
//! It folds with the same shards, restores by replaying the whole log, and has one thread and one producer. It can be
//! given a flaw that the checker must find.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebb_core::{Outcome, Plan, Record, Shard, Verdict};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

use crate::testbed::{GROUP, INPUT, TestBed, output_topic};

const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// A longer commit was sent more than once.
const SLOW_COMMIT: Duration = Duration::from_millis(500);
pub const CLIENT_ID: &str = "copier";

/// Whether the copier is correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopierKind {
    Correct,
    /// Keeps using a producer after a slow commit, although a repeated commit request may still be in flight.
    ReusesUncertainProducer,
}

/// One run of the copier. Dropping it leaves its transaction open, as a kill would.
pub struct Copier {
    consumer: BaseConsumer,
    producer: BaseProducer,
    shards: BTreeMap<i32, Shard>,
    next: BTreeMap<i32, i64>,
    /// The committed offsets at the start: records before them are replayed without output.
    emit_from: BTreeMap<i32, i64>,
    kind: CopierKind,
    partitions: i32,
    has_open_transaction: bool,
    pub slow_commits: u64,
}

impl Copier {
    /// Fences its predecessor, reads the committed offsets and starts to replay the log.
    pub fn start(testbed: &TestBed, plan: &Arc<Plan>, kind: CopierKind) -> Result<Self, KafkaError> {
        let consumer: BaseConsumer = client_config(testbed)
            .set("group.id", GROUP)
            .set("enable.auto.commit", "false")
            .set("isolation.level", "read_committed")
            .create()?;
        let partitions = testbed.partitions as i32;
        let producer = fenced_producer(testbed)?;
        let emit_from = committed_offsets(&consumer, partitions)?;
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(INPUT, partition, Offset::Beginning)?;
        }
        consumer.assign(&list)?;
        let shard = |partition: i32| (partition, Shard::new(plan.clone(), partition as u32).expect("create a shard"));
        Ok(Self {
            consumer,
            producer,
            shards: (0..partitions).map(shard).collect(),
            next: (0..partitions).map(|partition| (partition, 0)).collect(),
            emit_from,
            kind,
            partitions,
            has_open_transaction: false,
            slow_commits: 0,
        })
    }

    /// Folds and emits for `span`, then commits. After an error the copier must be replaced.
    pub fn run(&mut self, span: Duration) -> Result<(), KafkaError> {
        self.emit_for(span)?;
        self.commit()
    }

    /// Folds and emits for `span`, and leaves the transaction open.
    pub fn emit_for(&mut self, span: Duration) -> Result<(), KafkaError> {
        if !self.has_open_transaction {
            self.producer.begin_transaction()?;
            self.has_open_transaction = true;
        }
        let begun = Instant::now();
        while begun.elapsed() < span {
            let Some(message) = self.consumer.poll(Duration::from_millis(20)) else { continue };
            let message = message?;
            let (partition, offset) = (message.partition(), message.offset());
            let shard = self.shards.get_mut(&partition).expect("an assigned partition");
            let outcome = shard.apply(Record {
                offset: offset as u64,
                timestamp_ms: message.timestamp().to_millis().unwrap_or(0),
                payload: message.payload().unwrap_or_default(),
            });
            self.next.insert(partition, offset + 1);
            if offset >= self.emit_from[&partition] {
                emit(&self.producer, &message, &outcome)?;
            }
        }
        while self.producer.in_flight_count() > 0 && begun.elapsed() < span + CALL_TIMEOUT {
            self.producer.poll(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Commits outputs and offsets in one transaction.
    fn commit(&mut self) -> Result<(), KafkaError> {
        let mut list = TopicPartitionList::new();
        for partition in 0..self.partitions {
            let next = self.next[&partition].max(self.emit_from[&partition]);
            list.add_partition_offset(INPUT, partition, Offset::Offset(next))?;
        }
        let metadata = self.consumer.group_metadata().expect("group metadata");
        self.producer.send_offsets_to_transaction(&list, &metadata, CALL_TIMEOUT)?;
        let begun = Instant::now();
        self.producer.commit_transaction(CALL_TIMEOUT)?;
        self.has_open_transaction = false;
        self.slow_commits += u64::from(begun.elapsed() > SLOW_COMMIT);
        Ok(())
    }

    /// Whether this copier must be replaced because a commit request may still be in flight.
    pub fn is_uncertain(&self) -> bool {
        self.slow_commits > 0 && self.kind == CopierKind::Correct
    }

    /// Whether all records before `ends` are folded.
    pub fn has_read(&self, ends: &[i64]) -> bool {
        ends.iter().enumerate().all(|(partition, end)| self.next[&(partition as i32)] >= *end)
    }
}

fn fenced_producer(testbed: &TestBed) -> Result<BaseProducer, KafkaError> {
    let mut config = client_config(testbed);
    config.set("enable.idempotence", "true").set("transactional.id", "copier").set("transaction.timeout.ms", "20000");
    let producer: BaseProducer = config.create()?;
    producer.init_transactions(CALL_TIMEOUT)?;
    Ok(producer)
}

fn committed_offsets(consumer: &BaseConsumer, partitions: i32) -> Result<BTreeMap<i32, i64>, KafkaError> {
    let mut list = TopicPartitionList::new();
    list.add_partition_range(INPUT, 0, partitions - 1);
    let found = consumer.committed_offsets(list, CALL_TIMEOUT)?;
    let offset = |offset: Offset| offset.to_raw().filter(|raw| *raw >= 0).unwrap_or(0);
    Ok(found.elements().iter().map(|element| (element.partition(), offset(element.offset()))).collect())
}

fn emit(producer: &BaseProducer, message: &BorrowedMessage<'_>, outcome: &Outcome) -> Result<(), KafkaError> {
    let (partition, source) = (message.partition(), format!("{INPUT}/{}/{}", message.partition(), message.offset()));
    let verdict = outcome.verdict.name();
    let mut headers = message.headers().map_or_else(OwnedHeaders::new, |headers| headers.detach());
    headers = headers
        .insert(Header { key: "ebb-source", value: Some(&source) })
        .insert(Header { key: "ebb-verdict", value: Some(verdict) });
    if let Verdict::Rejected(reason) = outcome.verdict {
        headers = headers.insert(Header { key: "ebb-reason", value: Some(reason.name()) });
    }
    let topic = output_topic(verdict);
    let mut record = BaseRecord::to(&topic)
        .partition(partition)
        .headers(headers)
        .timestamp(message.timestamp().to_millis().unwrap_or(0));
    record.key = message.key();
    record.payload = message.payload();
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((error, returned))
                if error.rdkafka_error_code() == Some(rdkafka::types::RDKafkaErrorCode::QueueFull) =>
            {
                producer.poll(Duration::from_millis(5));
                record = returned;
            }
            Err((error, _)) => return Err(error),
        }
    }
}

fn client_config(testbed: &TestBed) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", testbed.brokers())
        .set("client.id", CLIENT_ID)
        .set("log_level", "0")
        // Requests are repeated after this time.
        .set("socket.timeout.ms", "1000")
        .set("reconnect.backoff.ms", "20")
        .set("reconnect.backoff.max.ms", "200");
    config
}
