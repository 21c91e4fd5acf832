//! The bare loops: what the client costs when nothing is done with the records. Each runs as a process of its own. Some
//! fetch as the client does unless it is told otherwise, which leaves it without records now and then; the others
//! as the service tells its own.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ebb::kafka::{self, Event, Position, Settings, Taken, TopicPartition};
use ebb_core::NextOffset;
use rdkafka::bindings as sys;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

use crate::rig::{COMMIT_EVERY, PARTITIONS};

const CALL: Duration = Duration::from_secs(30);
const TURN: Duration = Duration::from_millis(1);
/// As much as the service commits at most in one transaction.
const MOST: u64 = 50_000;

/// Runs for ever: `KIND BROKERS GROUP TOPIC OUTPUT`.
pub fn run(arguments: &[String]) {
    let [kind, brokers, group, topic, output] = arguments else { panic!("peer {arguments:?}") };
    match kind.as_str() {
        "copy" => Copier::new(consumer(brokers, group, topic, &[]), brokers, (topic, output), group).run(),
        "copy-tuned" => Copier::new(consumer(brokers, group, topic, &TUNED), brokers, (topic, output), group).run(),
        "consume" => consume(consumer(brokers, group, topic, &[]), topic),
        "consume-tuned" => consume(consumer(brokers, group, topic, &TUNED), topic),
        "consume-batches" => consume_batches(brokers, group, topic),
        other => panic!("no peer {other}"),
    }
}

/// How the service fetches.
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
        .expect("a consumer");
    consumer.subscribe(&[topic]).expect("subscribed");
    consumer
}

/// Where reading goes on, by partition.
#[derive(Debug, Default)]
struct Positions {
    next: [i64; PARTITIONS],
    records: u64,
}

impl Positions {
    fn pass(&mut self, message: &BorrowedMessage<'_>) {
        self.next[message.partition() as usize] = message.offset() + 1;
        self.records += 1;
    }

    fn list(&self, topic: &str) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for (partition, next) in (0..).zip(self.next).filter(|(_, next)| *next > 0) {
            list.add_partition_offset(topic, partition, Offset::Offset(next)).expect("an offset");
        }
        list
    }
}

/// Consume and produce.
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
            .expect("a producer");
        producer.init_transactions(CALL).expect("fenced");
        Self { consumer, producer, topic, output }
    }

    fn run(&self) {
        loop {
            self.producer.begin_transaction().expect("a transaction");
            let mut passed = Positions::default();
            let begun = Instant::now();
            while begun.elapsed() < COMMIT_EVERY && passed.records < MOST {
                // One look at the clock for many records.
                for _ in 0..100 {
                    let Some(message) = self.consumer.poll(TURN) else { break };
                    let message = message.expect("a record");
                    passed.pass(&message);
                    self.copy(&message);
                }
                self.producer.poll(Duration::ZERO);
            }
            self.commit(&passed);
        }
    }

    fn copy(&self, message: &BorrowedMessage<'_>) {
        let mut record = BaseRecord::to(self.output).partition(message.partition());
        record.key = message.key();
        record.payload = message.payload();
        record.timestamp = message.timestamp().to_millis();
        while let Err((error, back)) = self.producer.send(record) {
            assert!(matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)), "copying: {error}");
            self.producer.poll(TURN);
            record = back;
        }
    }

    fn commit(&self, passed: &Positions) {
        flush(&self.producer);
        let list = passed.list(self.topic);
        if passed.records > 0 {
            let metadata = self.consumer.group_metadata().expect("a member");
            self.producer.send_offsets_to_transaction(&list, &metadata, CALL).expect("offsets");
        }
        self.producer.commit_transaction(CALL).expect("committed");
    }
}

/// As the service does: the safe flush takes a tenth of a second, and polling spins while it waits.
#[allow(unsafe_code, reason = "the safe client has no such call")]
fn flush(producer: &BaseProducer) {
    // SAFETY: the client is alive.
    let flushed = unsafe { sys::rd_kafka_flush(producer.client().native_ptr(), CALL.as_millis() as i32) };
    assert_eq!(flushed, sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR);
}

/// Consumes one record after the other, as the client's own interface gives them.
fn consume(consumer: BaseConsumer, topic: &str) {
    loop {
        let mut passed = Positions::default();
        let begun = Instant::now();
        while begun.elapsed() < COMMIT_EVERY {
            for _ in 0..1000 {
                let Some(message) = consumer.poll(TURN) else { break };
                let message = message.expect("a record");
                black_box(message.payload());
                passed.pass(&message);
            }
        }
        if passed.records > 0 {
            consumer.commit(&passed.list(topic), CommitMode::Async).expect("committed");
        }
    }
}

/// Consumes batches, through the service's own client: what is left is the fold.
fn consume_batches(brokers: &str, group: &str, topic: &str) {
    let settings =
        Settings { brokers: brokers.into(), group: group.into(), instance: None, properties: Default::default() };
    let mut consumer = kafka::Consumer::subscribe(&settings, &[topic]).expect("subscribed");
    let group = consumer.group();
    let (mut assigned, mut committed): (Vec<(TopicPartition, NextOffset)>, Instant) = (Vec::new(), Instant::now());
    let mut wait = TURN;
    loop {
        if let Event::Assign(parts) = consumer.poll(wait) {
            let starts: Vec<_> = parts.iter().map(|part| (part.clone(), Some(NextOffset(0)))).collect();
            consumer.assign(&starts).expect("assigned");
            assigned = parts.into_iter().map(|part| (part, NextOffset(0))).collect();
        }
        wait = TURN;
        for (part, next) in &mut assigned {
            for taken in consumer.take(part) {
                if let Taken::Records(records) = taken {
                    records.iter().for_each(|record| {
                        black_box(record.payload());
                    });
                    *next = records.last().map_or(*next, |last| NextOffset(last.offset() + 1));
                    wait = Duration::ZERO;
                }
            }
        }
        if committed.elapsed() > COMMIT_EVERY && !assigned.is_empty() {
            let position = |(part, next): &(TopicPartition, NextOffset)| Position {
                part: part.clone(),
                next: *next,
                note: String::new(),
            };
            group.commit(&assigned.iter().map(position).collect::<Vec<_>>()).expect("committed");
            committed = Instant::now();
        }
    }
}
