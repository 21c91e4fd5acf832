//! The synthetic click stream as a producer like any other: what `make run-kafka` puts before the service.

use std::ffi::CString;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::kafka::{Admin, Output, Producer, Remedy, Settings, TopicCreation, TopicRequirement};
use ebb_traffic::{Traffic, TrafficOptions};

/// What the producer may be told.
#[derive(Debug, Clone, PartialEq)]
pub struct ProduceOptions {
    pub brokers: String,
    /// Made when it is missing.
    pub topic: String,
    pub partitions: u32,
    /// Clicks a second; without it as many as the brokers take.
    pub rate: Option<u32>,
    /// How many clicks in all; without it until it is told to stop.
    pub count: Option<u64>,
    pub seed: u64,
    /// Share of payloads that are damaged.
    pub malformed: f64,
}

const MOST_BYTES: usize = 1_000_000;
/// The rate of time in the stream when it is not the wall clock's.
const UNPACED_RATE: f64 = 10_000.0;
const TURN: Duration = Duration::from_millis(5);

/// Produces until the count is reached, or for ever.
pub fn produce(options: &ProduceOptions) -> anyhow::Result<()> {
    let settings = Settings {
        brokers: options.brokers.clone(),
        group: "ebb-produce".into(),
        instance: None,
        properties: [("linger.ms".to_owned(), "20".to_owned())].into(),
    };
    let creation = TopicCreation { partitions: options.partitions, replication: 1, is_compacted: false };
    let wanted = [TopicRequirement { name: options.topic.clone(), creation: Some(creation) }];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let topics = runtime.block_on(require(&settings, &wanted))?;
    let partitions = topics[&options.topic].partitions;
    let topic = CString::new(options.topic.as_str())?;
    let mut producer = Producer::idempotent(&settings, MOST_BYTES)?;
    let traffic = TrafficOptions {
        start_ms: now_ms(),
        rate_per_second: options.rate.map_or(UNPACED_RATE, f64::from),
        malformed_share: options.malformed,
        ..TrafficOptions::default()
    };
    let (begun, mut sent) = (Instant::now(), 0u64);
    for click in Traffic::new(options.seed, traffic)?.take(options.count.unwrap_or(u64::MAX) as usize) {
        while options.rate.is_some() && click.at_ms > now_ms() {
            producer.poll();
            std::thread::sleep(TURN);
        }
        // One item, one partition: its memory is there.
        let partition = (click.truth.item % u128::from(partitions)) as i32;
        let key = click.truth.item.to_be_bytes();
        producer.send(&Output {
            topic: &topic,
            partition,
            key: Some(&key),
            payload: Some(&click.json),
            timestamp_ms: click.at_ms,
            source: None,
            headers: &[],
            tag: 0,
        })?;
        sent += 1;
        if sent.is_multiple_of(1000) {
            producer.poll();
        }
    }
    producer.flush()?;
    println!("produced {sent} clicks to {} in {:.1} s", options.topic, begun.elapsed().as_secs_f64());
    Ok(())
}

/// A broker that was just started needs a moment.
async fn require(
    settings: &Settings,
    wanted: &[TopicRequirement],
) -> anyhow::Result<std::collections::BTreeMap<String, crate::kafka::TopicDescription>> {
    let admin = Admin::new(settings)?;
    let begun = Instant::now();
    loop {
        match admin.require(wanted).await {
            Err(fault) if fault.remedy == Remedy::Retry && begun.elapsed() < Duration::from_secs(60) => {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            result => return Ok(result?),
        }
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
