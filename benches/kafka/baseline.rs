//! Baselines: minimal loops that show the cost of the client alone. Each runs in its own process. Some use librdkafka's
//! default fetch settings, with which the consumer runs dry now and then; others use the service's.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ebb::kafka::{self, ConsumerEvent, Fetched, OffsetCommit, Settings, TopicPartition};
use ebb_core::NextOffset;
use rdkafka::bindings as sys;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

use crate::rig::{COMMIT_EVERY, PARTITIONS};

const CALL_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_TIMEOUT: Duration = Duration::from_millis(1);
/// The service's limit of records per transaction.
const MAX_TRANSACTION_RECORDS: u64 = 50_000;

/// Runs a baseline until it is killed: `KIND BROKERS GROUP TOPIC OUTPUT`.
pub fn run(arguments: &[String]) {
    let [kind, brokers, group, topic, output] = arguments else { panic!("invalid arguments {arguments:?}") };
    match kind.as_str() {
        "copy" => Copier::new(consumer(brokers, group, topic, &[]), brokers, (topic, output), group).run(),
        "copy-tuned" => Copier::new(consumer(brokers, group, topic, &TUNED), brokers, (topic, output), group).run(),
        "consume" => consume(consumer(brokers, group, topic, &[]), topic),
        "consume-tuned" => consume(consumer(brokers, group, topic, &TUNED), topic),
        "consume-batches" => consume_batches(brokers, group, topic),
        other => panic!("unknown baseline {other}"),
    }
}

/// The service's fetch settings.
const TUNED: [(&str, &str); 2] = [("queued.min.messages", "10000"), ("fetch.queue.backoff.ms", "10")];

fn consumer(brokers: &str, group: &str, topic: &str, tuned: &[(&str, &str)]) -> BaseConsumer {
    let mut config = ClientConfig::new();
    tuned.iter().for_each(|(name, value)| _ = config.set(*name, *value));
    let consumer: BaseConsumer = config
        .set("bootstrap.servers", brokers)
        .set("group.id", group)
        .set("partition.assignment.strategy", "cooperative-sticky")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed")
        .set("check.crcs", "true")
        .set("queued.max.messages.kbytes", "16384")
        .create()
        .expect("create a consumer");
    consumer.subscribe(&[topic]).expect("subscribe");
    consumer
}

/// Next offsets by partition.
#[derive(Debug, Default)]
struct Positions {
    next: [i64; PARTITIONS],
    records: u64,
}

impl Positions {
    fn advance(&mut self, message: &BorrowedMessage<'_>) {
        self.next[message.partition() as usize] = message.offset() + 1;
        self.records += 1;
    }

    fn list(&self, topic: &str) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for (partition, next) in (0..).zip(self.next).filter(|(_, next)| *next > 0) {
            list.add_partition_offset(topic, partition, Offset::Offset(next)).expect("add a partition");
        }
        list
    }
}

/// Consumes and produces in transactions.
struct Copier<'a> {
    consumer: BaseConsumer,
    producer: BaseProducer,
    topic: &'a str,
    output: &'a str,
}

impl<'a> Copier<'a> {
    fn new(consumer: BaseConsumer, brokers: &str, (topic, output): (&'a str, &'a str), id: &str) -> Self {
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("delivery.report.only.error", "true")
            .set("transactional.id", id)
            .set("transaction.timeout.ms", "20000")
            .set("linger.ms", "25")
            .create()
            .expect("create a producer");
        producer.init_transactions(CALL_TIMEOUT).expect("fence");
        Self { consumer, producer, topic, output }
    }

    fn run(&self) {
        loop {
            self.producer.begin_transaction().expect("begin a transaction");
            let mut positions = Positions::default();
            let begun = Instant::now();
            while begun.elapsed() < COMMIT_EVERY && positions.records < MAX_TRANSACTION_RECORDS {
                // Reads the clock once for many records.
                for _ in 0..100 {
                    let Some(message) = self.consumer.poll(POLL_TIMEOUT) else { break };
                    let message = message.expect("receive a record");
                    positions.advance(&message);
                    self.copy(&message);
                }
                self.producer.poll(Duration::ZERO);
            }
            self.commit(&positions);
        }
    }

    fn copy(&self, message: &BorrowedMessage<'_>) {
        let mut record = BaseRecord::to(self.output).partition(message.partition());
        record.key = message.key();
        record.payload = message.payload();
        record.timestamp = message.timestamp().to_millis();
        while let Err((error, returned)) = self.producer.send(record) {
            assert!(matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)), "copying: {error}");
            self.producer.poll(POLL_TIMEOUT);
            record = returned;
        }
    }

    fn commit(&self, positions: &Positions) {
        flush(&self.producer);
        let list = positions.list(self.topic);
        if positions.records > 0 {
            let metadata = self.consumer.group_metadata().expect("group metadata");
            self.producer.send_offsets_to_transaction(&list, &metadata, CALL_TIMEOUT).expect("send offsets");
        }
        self.producer.commit_transaction(CALL_TIMEOUT).expect("commit");
    }
}

/// Like the service's flush: rdkafka's own sleeps for 100 ms or spins.
#[allow(unsafe_code, reason = "rdkafka has no such call")]
fn flush(producer: &BaseProducer) {
    // SAFETY: the client is alive.
    let flushed = unsafe { sys::rd_kafka_flush(producer.client().native_ptr(), CALL_TIMEOUT.as_millis() as i32) };
    assert_eq!(flushed, sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR);
}

/// Consumes one record at a time.
fn consume(consumer: BaseConsumer, topic: &str) {
    loop {
        let mut positions = Positions::default();
        let begun = Instant::now();
        while begun.elapsed() < COMMIT_EVERY {
            for _ in 0..1000 {
                let Some(message) = consumer.poll(POLL_TIMEOUT) else { break };
                let message = message.expect("receive a record");
                black_box(message.payload());
                positions.advance(&message);
            }
        }
        if positions.records > 0 {
            consumer.commit(&positions.list(topic), CommitMode::Async).expect("commit");
        }
    }
}

/// Consumes batches with the service's own client; the service's additional cost is the fold.
fn consume_batches(brokers: &str, group: &str, topic: &str) {
    let settings =
        Settings { brokers: brokers.into(), group: group.into(), instance: None, properties: Default::default() };
    let mut consumer = kafka::Consumer::subscribe(&settings, &[topic]).expect("subscribe");
    let group = consumer.group();
    let mut assigned: Vec<(TopicPartition, NextOffset)> = Vec::new();
    let mut committed = Instant::now();
    let mut wait = POLL_TIMEOUT;
    loop {
        if let ConsumerEvent::Assigned(partitions) = consumer.poll(wait) {
            let starts: Vec<_> = partitions.iter().map(|partition| (partition.clone(), Some(NextOffset(0)))).collect();
            consumer.assign(&starts).expect("assign partitions");
            assigned = partitions.into_iter().map(|partition| (partition, NextOffset(0))).collect();
        }
        wait = POLL_TIMEOUT;
        for (partition, next) in &mut assigned {
            for taken in consumer.fetch(partition) {
                if let Fetched::Records(records) = taken {
                    records.iter().for_each(|record| {
                        black_box(record.payload());
                    });
                    *next = records.last().map_or(*next, |last| NextOffset(last.offset() + 1));
                    wait = Duration::ZERO;
                }
            }
        }
        if committed.elapsed() > COMMIT_EVERY && !assigned.is_empty() {
            let position = |(partition, next): &(TopicPartition, NextOffset)| OffsetCommit {
                partition: partition.clone(),
                next: *next,
                note: String::new(),
            };
            group.commit(&assigned.iter().map(position).collect::<Vec<_>>()).expect("commit");
            committed = Instant::now();
        }
    }
}
