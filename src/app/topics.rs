//! The plain values of the configuration to workers that follow topics.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use super::waiting::Waiting;
use crate::config::Config;
use crate::config::kafka::{KafkaConfig, StartOffset};
use crate::config::stream::{DeliveryConfig, StreamConfig};
use crate::kafka::{Admin, Remedy, Settings, TopicCreation, TopicDescription, TopicRequirement};
use crate::store::Store;
use crate::workers::{
    Beginning, Delivery, KafkaOptions, Outputs, Placed, SnapshotTopic, StreamSpec, Target, Workers, WorkersOptions,
};
use ebb_core::Plan;

/// How long brokers are left alone that did not let us in.
const PAUSE: Duration = Duration::from_millis(500);
/// What a batch needs beside its only record.
const BATCH_HEAD_BYTES: usize = 128;
/// What librdkafka takes as a limit.
const LIMIT_BYTES: std::ops::RangeInclusive<usize> = 1_000..=1_000_000_000;
/// Names this instance in the store, where the configuration does not.
const INSTANCE_FACT: &str = "kafka-instance";

/// Looks at the topics, makes those that may be made, and joins the group.
pub(super) async fn follow(
    config: &Config,
    kafka: &KafkaConfig,
    plans: &BTreeMap<String, Arc<Plan>>,
    options: &WorkersOptions,
    waiting: &Waiting,
) -> anyhow::Result<(Workers, BTreeMap<String, Placed>)> {
    let settings = settings(kafka);
    settings.check()?;
    let admin = Admin::new(&settings)?;
    let sources = patiently(&admin, &sources(config), waiting).await?;
    for (name, stream) in &config.streams {
        keep_partitions(&options.store, name, sources[&stream.topic].partitions)?;
    }
    let outputs = patiently(&admin, &outputs(config, kafka, &sources), waiting).await?;
    let most_bytes = outputs.values().map(|topic| topic.max_record_bytes).min().unwrap_or(1 << 20);
    let mut streams = BTreeMap::new();
    for (name, stream) in &config.streams {
        let partitions = sources[&stream.topic].partitions;
        let spec = stream_spec(stream, plans[name].clone(), partitions, &outputs);
        streams.insert(name.clone(), Arc::new(spec.with_context(|| format!("streams.{name}"))?));
    }
    let kafka_options = KafkaOptions {
        instance: instance(kafka, &options.store)?,
        settings,
        commit_every: Duration::from_millis(kafka.commit_every.0),
        beginning: match kafka.start {
            StartOffset::Error => Beginning::Refuse,
            StartOffset::Earliest => Beginning::Earliest,
            StartOffset::Latest => Beginning::Latest,
        },
        snapshots: snapshots(&admin, kafka, &sources, waiting).await?,
        most_bytes: most_bytes.saturating_sub(BATCH_HEAD_BYTES).clamp(*LIMIT_BYTES.start(), *LIMIT_BYTES.end()),
    };
    Ok(Workers::follow(options, kafka_options, &streams, config.workers as usize)?)
}

/// As wide as the widest source: one partition for each number.
async fn snapshots(
    admin: &Admin,
    kafka: &KafkaConfig,
    sources: &BTreeMap<String, TopicDescription>,
    waiting: &Waiting,
) -> anyhow::Result<Option<SnapshotTopic>> {
    let Some(snapshots) = &kafka.snapshots else { return Ok(None) };
    let creation = kafka.create_topics.as_ref().map(|create| TopicCreation {
        partitions: sources.values().map(|topic| topic.partitions).max().unwrap_or(1),
        replication: create.replication as u32,
        is_compacted: true,
    });
    let name = snapshots.topic.clone();
    let topics = patiently(admin, &[TopicRequirement { name: name.clone(), creation }], waiting).await?;
    let partitions = topics[&name].partitions;
    Ok(Some(SnapshotTopic { name, partitions, every: Duration::from_millis(snapshots.every.0) }))
}

fn settings(kafka: &KafkaConfig) -> Settings {
    Settings {
        brokers: kafka.brokers.clone(),
        group: kafka.group.clone(),
        instance: kafka.instance.clone(),
        properties: kafka.properties.iter().map(|(name, property)| (name.clone(), property.value.clone())).collect(),
    }
}

fn sources(config: &Config) -> Vec<TopicRequirement> {
    config.streams.values().map(|stream| TopicRequirement { name: stream.topic.clone(), creation: None }).collect()
}

/// Output topics get as many partitions as their source.
fn outputs(
    config: &Config,
    kafka: &KafkaConfig,
    sources: &BTreeMap<String, TopicDescription>,
) -> Vec<TopicRequirement> {
    let mut wanted = Vec::new();
    for stream in config.streams.values() {
        let creation = kafka.create_topics.as_ref().map(|create| TopicCreation {
            partitions: sources[&stream.topic].partitions,
            replication: create.replication as u32,
            is_compacted: false,
        });
        let topics = stream.output.iter().flat_map(|output| output.topics());
        wanted.extend(topics.map(|(_, topic)| TopicRequirement { name: topic.to_owned(), creation: creation.clone() }));
    }
    wanted
}

/// Brokers may start later than we do, and let us in later: probes say meanwhile what is waited for.
async fn patiently(
    admin: &Admin,
    wanted: &[TopicRequirement],
    waiting: &Waiting,
) -> anyhow::Result<BTreeMap<String, TopicDescription>> {
    loop {
        match admin.require(wanted).await {
            Err(fault) if fault.remedy == Remedy::Retry => {
                waiting.note(fault.to_string());
                tokio::time::sleep(PAUSE).await;
            }
            result => return Ok(result?),
        }
    }
}

fn stream_spec(
    stream: &StreamConfig,
    plan: Arc<Plan>,
    partitions: u32,
    topics: &BTreeMap<String, TopicDescription>,
) -> anyhow::Result<StreamSpec> {
    let target = |topic: &Option<String>| -> anyhow::Result<Option<Target>> {
        let Some(topic) = topic else { return Ok(None) };
        let (partitions, is_compacted) =
            topics.get(topic).map_or((1, false), |topic| (topic.partitions, topic.is_compacted));
        Ok(Some(Target { topic: CString::new(topic.as_str())?, partitions, is_compacted }))
    };
    let outputs = match &stream.output {
        None => Outputs::default(),
        Some(output) => Outputs {
            unique: target(&output.unique)?,
            duplicate: target(&output.duplicate)?,
            late: target(&output.late)?,
            rejected: target(&output.rejected)?,
        },
    };
    let delivery = match stream.delivery {
        _ if outputs.is_empty() => Delivery::Nothing,
        DeliveryConfig::ExactlyOnce => Delivery::ExactlyOnce,
        DeliveryConfig::AtLeastOnce => Delivery::AtLeastOnce,
    };
    Ok(StreamSpec { plan, topic: stream.topic.as_str().into(), partitions, delivery, outputs })
}

/// The name under which this instance's producers are known: configured, or drawn once.
fn instance(kafka: &KafkaConfig, store: &Store) -> anyhow::Result<String> {
    if let Some(instance) = &kafka.instance {
        return Ok(instance.clone());
    }
    if let Some(name) = store.get_metadata(INSTANCE_FACT)?.and_then(|name| String::from_utf8(name).ok()) {
        return Ok(name);
    }
    let mut drawn = [0; 8];
    getrandom::fill(&mut drawn).map_err(|error| anyhow::anyhow!("drawing a name for this instance: {error}"))?;
    let name = format!("{:016x}", u64::from_be_bytes(drawn));
    store.put_metadata(INSTANCE_FACT, name.as_bytes())?;
    Ok(name)
}

/// Whoever writes to a topic chooses the partition by the number of partitions: with another number, items are not where
/// they were remembered.
fn keep_partitions(store: &Store, stream: &str, partitions: u32) -> anyhow::Result<()> {
    let fact = format!("topic-partitions/{stream}");
    match store.get_metadata(&fact)? {
        None => store.put_metadata(&fact, &partitions.to_be_bytes())?,
        Some(kept) => anyhow::ensure!(
            kept == partitions.to_be_bytes(),
            "streams.{stream}.topic: has {partitions} partitions, but the state in data_dir was made with {}; partitions \
             were added, and items may now be found in others than before: begin with a new group and an empty data_dir",
            <[u8; 4]>::try_from(kept.as_slice())
                .map_or_else(|_| "another number".into(), |n| u32::from_be_bytes(n).to_string())
        ),
    }
    Ok(())
}
