//! Feeds a scenario with clicks from a real producer: 1 % malformed, each item in one partition, record timestamps equal
//! to the clicks' arrival times.

use std::ffi::CString;
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

use crate::testbed::{INPUT, TestBed};

/// Event time starts this long ago, so that the broker accepts all timestamps even if event time runs fast.
const START_AGE: Duration = Duration::from_secs(6 * 3600);

/// Amount and rate of the records.
#[derive(Debug, Clone, Copy)]
pub struct FeedSpec {
    pub seed: u64,
    /// The minimum; a paced feed continues while the scenario runs.
    pub records: u64,
    /// `None`: as fast as the broker accepts them.
    pub per_second: Option<u64>,
    /// Clicks per second of event time.
    pub event_rate: f64,
}

impl FeedSpec {
    pub fn new(records: u64) -> Self {
        Self { seed: 20_261_116, records, per_second: None, event_rate: 1_000.0 }
    }
}

/// A producer thread. Stops when dropped.
pub struct Feed {
    sent: Arc<AtomicU64>,
    mode: Arc<AtomicU8>,
    thread: Option<JoinHandle<()>>,
}

/// How long the feed waits before it suspects that its producer has lost all brokers.
const STALL_CHECK: Duration = Duration::from_secs(10);

/// When the feed stops.
const NEVER: u8 = 0;
const AFTER_MINIMUM: u8 = 1;
const AT_ONCE: u8 = 2;

impl Feed {
    pub fn start(testbed: &TestBed, spec: FeedSpec) -> Self {
        let (sent, mode) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU8::new(NEVER)));
        let brokers = testbed.cluster.brokers();
        let partitions = testbed.partitions as u64;
        let (thread_sent, thread_mode) = (sent.clone(), mode.clone());
        let thread = thread::Builder::new().name("feed".into());
        let thread = thread.spawn(move || {
            let target = FeedTarget { producer: producer(&brokers), brokers, partitions };
            feed(&target, spec, &thread_sent, &thread_mode);
        });
        Self { sent, mode, thread: Some(thread.expect("start a thread")) }
    }

    /// Stops after the minimum, waits until all records are written and returns their number.
    pub fn finish(mut self) -> u64 {
        self.mode.store(AFTER_MINIMUM, Ordering::Relaxed);
        self.thread.take().expect("a running feed").join().expect("the feed succeeds");
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.mode.store(AT_ONCE, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Where the feed writes.
struct FeedTarget {
    producer: ThreadedProducer<DefaultProducerContext>,
    brokers: String,
    partitions: u64,
}

impl FeedTarget {
    /// A broker that is just starting may list no brokers; librdkafka then forgets all of them, for ever. Adding those
    /// that it knows has no effect.
    #[expect(unsafe_code, reason = "the client library has no safe call for it")]
    fn add_brokers(&self) {
        let brokers = CString::new(self.brokers.as_str()).expect("addresses without NUL");
        // SAFETY: the client lives as long as the producer, and librdkafka copies the string.
        unsafe { rdkafka::bindings::rd_kafka_brokers_add(self.producer.client().native_ptr(), brokers.as_ptr()) };
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
        .expect("create a producer")
}

fn feed(target: &FeedTarget, spec: FeedSpec, sent: &AtomicU64, mode: &AtomicU8) {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_millis() as i64;
    let options = TrafficOptions {
        start_ms: now_ms - START_AGE.as_millis() as i64,
        rate_per_second: spec.event_rate,
        malformed_share: 0.01,
        people: 200_000,
        ..TrafficOptions::default()
    };
    let (clicks, begun) = (Traffic::new(spec.seed, options).expect("valid options"), Instant::now());
    for (number, click) in (0u64..).zip(clicks) {
        match mode.load(Ordering::Relaxed) {
            // The broker may be gone already: do not flush.
            AT_ONCE => return,
            AFTER_MINIMUM if number >= spec.records => break,
            _ => {}
        }
        if let Some(rate) = spec.per_second.filter(|_| number.is_multiple_of(64)) {
            let due = Duration::from_secs_f64(number as f64 / rate as f64);
            thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        send(target, &click, number);
        sent.fetch_add(1, Ordering::Relaxed);
    }
    let begun = Instant::now();
    while let Err(error) = target.producer.flush(STALL_CHECK) {
        assert!(begun.elapsed() < Duration::from_secs(600), "writing all clicks: {error}");
        target.add_brokers();
    }
}

fn send(target: &FeedTarget, click: &Click, number: u64) {
    let key = click.truth.id.to_be_bytes();
    // Every seventh record has headers, to check that they are preserved.
    let headers = number.is_multiple_of(7).then(|| {
        let trace = number.to_string();
        OwnedHeaders::new()
            .insert(Header { key: "trace", value: Some(&trace) })
            .insert(Header { key: "empty", value: None::<&str> })
    });
    let item = click.truth.item;
    let mut record = BaseRecord::to(INPUT)
        .partition((mix(item as u64 ^ (item >> 64) as u64) % target.partitions) as i32)
        .key(&key[..])
        .payload(&click.json[..])
        .timestamp(click.at_ms);
    if let Some(headers) = headers {
        record = record.headers(headers);
    }
    let mut checked = Instant::now();
    while let Err((error, returned)) = target.producer.send(record) {
        assert!(matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)), "feeding: {error}");
        thread::sleep(Duration::from_millis(5));
        if checked.elapsed() >= STALL_CHECK {
            target.add_brokers();
            checked = Instant::now();
        }
        record = returned;
    }
}
