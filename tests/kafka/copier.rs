//! The smallest honest stream processor: it proves that stage, proxy and checker can tell right from wrong before the
//! service is trusted with them. Folds with the same shards, restores by replaying the whole log, one thread, one
//! producer. It can be told to be careless in the ways that the checker must notice.

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

use crate::stage::{GROUP, INPUT, Stage, output};

const CALL: Duration = Duration::from_secs(30);
const CLIENT: &str = "copier";

/// How it goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Care {
    Honest,
    /// Goes on with a producer whose commit was in doubt.
    KeepsDoubtfulProducer,
    /// Reads what is committed before it fences its predecessor.
    ReadsBeforeFencing,
    /// Writes outputs outside of any transaction.
    NoTransaction,
}

/// One life of a copier: ends when dropped, as suddenly as a killed process, but for its connections.
pub struct Copier {
    consumer: BaseConsumer,
    producer: BaseProducer,
    shards: BTreeMap<i32, Shard>,
    next: BTreeMap<i32, i64>,
    emit_from: BTreeMap<i32, i64>,
    care: Care,
    partitions: i32,
    in_transaction: bool,
    pub slow_commits: u64,
}

impl Copier {
    /// Fences, reads what is committed, and will replay everything before it.
    pub fn start(stage: &Stage, plan: &Arc<Plan>, care: Care) -> Result<Self, KafkaError> {
        let consumer: BaseConsumer = config(stage)
            .set("group.id", GROUP)
            .set("enable.auto.commit", "false")
            .set("isolation.level", "read_committed")
            .create()?;
        let partitions = stage.partitions as i32;
        let early = (care == Care::ReadsBeforeFencing).then(|| committed(&consumer, partitions)).transpose()?;
        let producer = fence(stage, care)?;
        let committed = early.map_or_else(|| committed(&consumer, partitions), Ok)?;
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(INPUT, partition, Offset::Beginning)?;
        }
        consumer.assign(&list)?;
        let shard = |partition: i32| (partition, Shard::new(plan.clone(), partition as u32).expect("a shard"));
        Ok(Self {
            consumer,
            producer,
            shards: (0..partitions).map(shard).collect(),
            next: (0..partitions).map(|partition| (partition, 0)).collect(),
            emit_from: committed,
            care,
            partitions,
            in_transaction: false,
            slow_commits: 0,
        })
    }

    /// Folds and emits for this long, then commits. An error means that this life is over.
    pub fn work(&mut self, span: Duration) -> Result<(), KafkaError> {
        self.emit_for(span)?;
        self.commit()
    }

    /// Folds and emits for this long, and leaves the transaction open.
    pub fn emit_for(&mut self, span: Duration) -> Result<(), KafkaError> {
        if !self.in_transaction && self.care != Care::NoTransaction {
            self.producer.begin_transaction()?;
            self.in_transaction = true;
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
        while self.producer.in_flight_count() > 0 && begun.elapsed() < span + CALL {
            self.producer.poll(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Commits outputs and offsets.
    pub fn commit(&mut self) -> Result<(), KafkaError> {
        let mut list = TopicPartitionList::new();
        for partition in 0..self.partitions {
            let next = self.next[&partition].max(self.emit_from[&partition]);
            list.add_partition_offset(INPUT, partition, Offset::Offset(next))?;
        }
        if self.care == Care::NoTransaction {
            return self.consumer.commit(&list, rdkafka::consumer::CommitMode::Sync);
        }
        let metadata = self.consumer.group_metadata().expect("a group");
        self.producer.send_offsets_to_transaction(&list, &metadata, CALL)?;
        let begun = Instant::now();
        self.producer.commit_transaction(CALL)?;
        self.in_transaction = false;
        if begun.elapsed() > Duration::from_millis(500) {
            self.slow_commits += 1;
        }
        Ok(())
    }

    /// Whether a commit took so long that a request of it may still be on its way.
    pub fn is_in_doubt(&self) -> bool {
        self.slow_commits > 0 && self.care != Care::KeepsDoubtfulProducer
    }

    /// Whether everything in the log is folded.
    pub fn has_read(&self, ends: &[i64]) -> bool {
        ends.iter().enumerate().all(|(partition, end)| self.next[&(partition as i32)] >= *end)
    }
}

fn fence(stage: &Stage, care: Care) -> Result<BaseProducer, KafkaError> {
    let mut config = config(stage);
    config.set("enable.idempotence", "true");
    if care != Care::NoTransaction {
        config.set("transactional.id", "copier").set("transaction.timeout.ms", "20000");
    }
    let producer: BaseProducer = config.create()?;
    if care != Care::NoTransaction {
        producer.init_transactions(CALL)?;
    }
    Ok(producer)
}

fn committed(consumer: &BaseConsumer, partitions: i32) -> Result<BTreeMap<i32, i64>, KafkaError> {
    let mut list = TopicPartitionList::new();
    list.add_partition_range(INPUT, 0, partitions - 1);
    let found = consumer.committed_offsets(list, CALL)?;
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
    let topic = output(verdict);
    let mut record = BaseRecord::to(&topic)
        .partition(partition)
        .headers(headers)
        .timestamp(message.timestamp().to_millis().unwrap_or(0));
    record.key = message.key();
    record.payload = message.payload();
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((error, back)) if error.rdkafka_error_code() == Some(rdkafka::types::RDKafkaErrorCode::QueueFull) => {
                producer.poll(Duration::from_millis(5));
                record = back;
            }
            Err((error, _)) => return Err(error),
        }
    }
}

fn config(stage: &Stage) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", stage.brokers())
        .set("client.id", CLIENT)
        .set("log_level", "0")
        // A request that gets no answer is given up, and repeated, after this long.
        .set("socket.timeout.ms", "1000")
        .set("reconnect.backoff.ms", "20")
        .set("reconnect.backoff.max.ms", "200");
    config
}
