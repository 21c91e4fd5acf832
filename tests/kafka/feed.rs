//! The clicks of a scenario, as a real producer writes them: one in a hundred damaged, items always in the same
//! partition, record times those of the clicks' arrival.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ebb_sketch::random::mix;
use ebb_traffic::{Click, Traffic, TrafficOptions};
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};

use crate::stage::{INPUT, Stage};

/// Event time begins this long ago, so that no record claims a future that the broker refuses.
const BEGAN_AGO: Duration = Duration::from_secs(6 * 3600);

/// How much is fed, and how fast.
#[derive(Debug, Clone, Copy)]
pub struct FeedSpec {
    pub seed: u64,
    /// At least so many; more while the scenario goes on.
    pub records: u64,
    /// `None`: as fast as the broker takes them.
    pub per_second: Option<u64>,
    /// Clicks a second of event time.
    pub event_rate: f64,
}

impl FeedSpec {
    pub fn new(records: u64) -> Self {
        Self { seed: 20_261_116, records, per_second: None, event_rate: 1_000.0 }
    }
}

/// A producer at work. Stops when dropped.
pub struct Feed {
    sent: Arc<AtomicU64>,
    wish: Arc<AtomicU8>,
    thread: Option<JoinHandle<()>>,
}

/// How long a feed goes on.
const FOR_EVER: u8 = 0;
const UNTIL_ENOUGH: u8 = 1;
const NO_LONGER: u8 = 2;

impl Feed {
    pub fn start(stage: &Stage, spec: FeedSpec) -> Self {
        let (sent, wish) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU8::new(FOR_EVER)));
        let producer = producer(&stage.cluster.brokers());
        let partitions = stage.partitions as u64;
        let (told, heard) = (sent.clone(), wish.clone());
        let thread = thread::Builder::new().name("feed".into());
        let thread = thread.spawn(move || feed(&producer, spec, partitions, &told, &heard)).expect("a thread");
        Self { sent, wish, thread: Some(thread) }
    }

    /// How many were handed to the producer so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Feeds no more than the least; waits until everything is in the log; returns how many.
    pub fn finish(mut self) -> u64 {
        self.wish.store(UNTIL_ENOUGH, Ordering::Relaxed);
        self.thread.take().expect("a feed is finished once").join().expect("the feed");
        self.sent()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.wish.store(NO_LONGER, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn producer(brokers: &str) -> ThreadedProducer<DefaultProducerContext> {
    ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("enable.idempotence", "true")
        .set("linger.ms", "5")
        .set("delivery.timeout.ms", "600000")
        .set("reconnect.backoff.max.ms", "500")
        .set("log_level", "0")
        .create()
        .expect("a producer")
}

fn feed(
    producer: &ThreadedProducer<DefaultProducerContext>,
    spec: FeedSpec,
    partitions: u64,
    sent: &AtomicU64,
    wish: &AtomicU8,
) {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_millis() as i64;
    let options = TrafficOptions {
        start_ms: now_ms - BEGAN_AGO.as_millis() as i64,
        rate_per_second: spec.event_rate,
        malformed_share: 0.01,
        people: 200_000,
        ..TrafficOptions::default()
    };
    let (clicks, begun) = (Traffic::new(spec.seed, options).expect("options within bounds"), Instant::now());
    for (number, click) in (0u64..).zip(clicks) {
        match wish.load(Ordering::Relaxed) {
            // Whoever gave up may have ended the broker: nothing is waited for.
            NO_LONGER => return,
            UNTIL_ENOUGH if number >= spec.records => break,
            _ => {}
        }
        if let Some(rate) = spec.per_second.filter(|_| number.is_multiple_of(64)) {
            let due = Duration::from_secs_f64(number as f64 / rate as f64);
            thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        send(producer, &click, number, partitions);
        sent.fetch_add(1, Ordering::Relaxed);
    }
    producer.flush(Duration::from_secs(600)).expect("all clicks are in the log");
}

fn send(producer: &ThreadedProducer<DefaultProducerContext>, click: &Click, number: u64, partitions: u64) {
    let key = click.truth.id.to_be_bytes();
    // Every seventh record has headers of its own, so that keeping them can be checked.
    let headers = number.is_multiple_of(7).then(|| {
        let trace = number.to_string();
        OwnedHeaders::new()
            .insert(Header { key: "trace", value: Some(&trace) })
            .insert(Header { key: "empty", value: None::<&str> })
    });
    let item = click.truth.item;
    let mut record = BaseRecord::to(INPUT)
        .partition((mix(item as u64 ^ (item >> 64) as u64) % partitions) as i32)
        .key(&key[..])
        .payload(&click.json[..])
        .timestamp(click.at_ms);
    if let Some(headers) = headers {
        record = record.headers(headers);
    }
    while let Err((error, back)) = producer.send(record) {
        assert!(matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)), "feeding: {error}");
        thread::sleep(Duration::from_millis(5));
        record = back;
    }
}
