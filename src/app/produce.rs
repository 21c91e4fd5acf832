//! `ebb produce`: writes a synthetic click stream to a topic.

use std::ffi::CString;
use std::time::{Duration, Instant};

use super::clock::unix_time_ms;
use crate::kafka::{Admin, Output, Producer, Remedy, Settings, TopicCreation, TopicRequirement};
use ebb_traffic::{Traffic, TrafficOptions};

/// Options of `ebb produce`.
#[derive(Debug, Clone, PartialEq)]
pub struct ProduceOptions {
    pub brokers: String,
    /// Created if it does not exist.
    pub topic: String,
    pub partitions: u32,
    /// Clicks per second; without it as many as the brokers accept.
    pub rate: Option<u32>,
    /// Total number of clicks; without it until the process is stopped.
    pub count: Option<u64>,
    pub seed: u64,
    /// Share of damaged payloads.
    pub malformed: f64,
}

const MAX_MESSAGE_BYTES: usize = 1_000_000;
/// Clicks per second of event time if the rate is not limited.
const UNPACED_RATE: f64 = 10_000.0;
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Produces until the count is reached, or until the process is stopped.
pub fn produce(options: &ProduceOptions) -> anyhow::Result<()> {
    let settings = Settings {
        brokers: options.brokers.clone(),
        group: "ebb-produce".into(),
        instance: None,
        properties: [("linger.ms".to_owned(), "20".to_owned())].into(),
    };
    let creation = TopicCreation { partitions: options.partitions, replication: 1, is_compacted: false };
    let requirements = [TopicRequirement { name: options.topic.clone(), creation: Some(creation) }];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let topics = runtime.block_on(require_topics(&settings, &requirements))?;
    let partitions = topics[&options.topic].partitions;
    let topic = CString::new(options.topic.as_str())?;
    let mut producer = Producer::idempotent(&settings, MAX_MESSAGE_BYTES)?;
    let traffic = TrafficOptions {
        start_ms: unix_time_ms(),
        rate_per_second: options.rate.map_or(UNPACED_RATE, f64::from),
        malformed_share: options.malformed,
        ..TrafficOptions::default()
    };
    let (started, mut sent) = (Instant::now(), 0u64);
    for click in Traffic::new(options.seed, traffic)?.take(options.count.unwrap_or(u64::MAX) as usize) {
        while options.rate.is_some() && click.at_ms > unix_time_ms() {
            producer.poll();
            std::thread::sleep(POLL_INTERVAL);
        }
        // All events with an item must be in the same partition.
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
    println!("produced {sent} clicks to {} in {:.1} s", options.topic, started.elapsed().as_secs_f64());
    Ok(())
}

/// Retries for a minute: a broker that was just started is not available at once.
async fn require_topics(
    settings: &Settings,
    requirements: &[TopicRequirement],
) -> anyhow::Result<std::collections::BTreeMap<String, crate::kafka::TopicDescription>> {
    let admin = Admin::new(settings)?;
    let started = Instant::now();
    loop {
        match admin.require(requirements).await {
            Err(fault) if fault.remedy == Remedy::Retry && started.elapsed() < Duration::from_secs(60) => {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            result => return Ok(result?),
        }
    }
}
