//! Starts the workers of the Kafka service: checks and creates topics, then joins the consumer group.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use super::startup_probes::StartupProbes;
use super::storage::{PartitionCount, compare_partitions, partitions_text};
use crate::config::Config;
use crate::config::kafka::{KafkaConfig, StartOffset};
use crate::config::stream::{DeliveryConfig, StreamConfig};
use crate::kafka::{Admin, Remedy, Settings, TopicCreation, TopicDescription, TopicRequirement};
use crate::store::Store;
use crate::workers::{
    Delivery, KafkaOptions, OutputTopics, SnapshotTopic, StartPosition, StreamLayout, StreamSpec, Target, Workers,
    WorkersOptions,
};
use ebb_core::Plan;

/// Delay before the brokers are asked again.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Size of a record batch beside its only record.
const BATCH_HEADER_BYTES: usize = 128;
/// The range of librdkafka's `message.max.bytes`.
const MESSAGE_BYTES: std::ops::RangeInclusive<usize> = 1_000..=1_000_000_000;
/// The name in the store of the instance's generated name.
const INSTANCE_NAME: &str = "kafka-instance";

/// Checks the topics, creates missing ones if that is configured, and starts the workers, which join the group.
pub(super) async fn start_workers(
    config: &Config,
    kafka: &KafkaConfig,
    plans: &BTreeMap<String, Arc<Plan>>,
    options: &WorkersOptions,
    probes: &StartupProbes,
) -> anyhow::Result<(Workers, BTreeMap<String, StreamLayout>)> {
    let settings = settings(kafka);
    settings.check()?;
    let admin = Admin::new(&settings)?;
    let sources = require_topics(&admin, &sources(config), probes).await?;
    for (name, stream) in &config.streams {
        check_partitions(&options.store, name, sources[&stream.topic].partitions)?;
    }
    let outputs = require_topics(&admin, &outputs(config, kafka, &sources), probes).await?;
    let max_record_bytes = outputs.values().map(|topic| topic.max_record_bytes).min().unwrap_or(1 << 20);
    let mut streams = BTreeMap::new();
    for (name, stream) in &config.streams {
        let partitions = sources[&stream.topic].partitions;
        let spec = stream_spec(stream, plans[name].clone(), partitions, &outputs);
        streams.insert(name.clone(), Arc::new(spec.with_context(|| format!("streams.{name}"))?));
    }
    let kafka_options = KafkaOptions {
        instance: instance_name(kafka, &options.store)?,
        settings,
        commit_every: Duration::from_millis(kafka.commit_every.0),
        start: match kafka.start {
            StartOffset::Error => StartPosition::Refuse,
            StartOffset::Earliest => StartPosition::Earliest,
            StartOffset::Latest => StartPosition::Latest,
        },
        snapshots: snapshot_topic(&admin, kafka, &sources, probes).await?,
        max_output_bytes: max_record_bytes
            .saturating_sub(BATCH_HEADER_BYTES)
            .clamp(*MESSAGE_BYTES.start(), *MESSAGE_BYTES.end()),
    };
    Ok(Workers::follow(options, kafka_options, &streams, config.workers as usize)?)
}

/// The snapshot topic has one partition per partition number, so as many as the source topic with the most.
async fn snapshot_topic(
    admin: &Admin,
    kafka: &KafkaConfig,
    sources: &BTreeMap<String, TopicDescription>,
    probes: &StartupProbes,
) -> anyhow::Result<Option<SnapshotTopic>> {
    let Some(snapshots) = &kafka.snapshots else { return Ok(None) };
    let creation = kafka.create_topics.as_ref().map(|create| TopicCreation {
        partitions: sources.values().map(|topic| topic.partitions).max().unwrap_or(1),
        replication: create.replication as u32,
        is_compacted: true,
    });
    let name = snapshots.topic.clone();
    let topics = require_topics(admin, &[TopicRequirement { name: name.clone(), creation }], probes).await?;
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
    let mut requirements = Vec::new();
    for stream in config.streams.values() {
        let creation = kafka.create_topics.as_ref().map(|create| TopicCreation {
            partitions: sources[&stream.topic].partitions,
            replication: create.replication as u32,
            is_compacted: false,
        });
        let topics = stream.output.iter().flat_map(|output| output.topics());
        requirements
            .extend(topics.map(|(_, topic)| TopicRequirement { name: topic.to_owned(), creation: creation.clone() }));
    }
    requirements
}

/// Retries until the brokers answer and grant access. Meanwhile probes report why the service is not ready.
async fn require_topics(
    admin: &Admin,
    requirements: &[TopicRequirement],
    probes: &StartupProbes,
) -> anyhow::Result<BTreeMap<String, TopicDescription>> {
    loop {
        match admin.require(requirements).await {
            Err(fault) if fault.remedy == Remedy::Retry => {
                probes.set_reason(fault.to_string());
                tokio::time::sleep(RETRY_DELAY).await;
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
        None => OutputTopics::default(),
        Some(output) => OutputTopics {
            unique: target(&output.unique)?,
            duplicate: target(&output.duplicate)?,
            late: target(&output.late)?,
            rejected: target(&output.rejected)?,
        },
    };
    let delivery = match stream.delivery {
        _ if outputs.is_empty() => Delivery::OffsetsOnly,
        DeliveryConfig::ExactlyOnce => Delivery::ExactlyOnce,
        DeliveryConfig::AtLeastOnce => Delivery::AtLeastOnce,
    };
    Ok(StreamSpec { plan, topic: stream.topic.as_str().into(), partitions, delivery, outputs })
}

/// The name in the transactional ids of this instance: configured, or generated once and kept in the store.
fn instance_name(kafka: &KafkaConfig, store: &Store) -> anyhow::Result<String> {
    if let Some(instance) = &kafka.instance {
        return Ok(instance.clone());
    }
    if let Some(name) = store.get_metadata(INSTANCE_NAME)?.and_then(|name| String::from_utf8(name).ok()) {
        return Ok(name);
    }
    let mut random = [0; 8];
    getrandom::fill(&mut random)
        .map_err(|error| anyhow::anyhow!("cannot generate a name for this instance: {error}"))?;
    let name = format!("{:016x}", u64::from_be_bytes(random));
    store.put_metadata(INSTANCE_NAME, name.as_bytes())?;
    Ok(name)
}

fn check_partitions(store: &Store, stream: &str, partitions: u32) -> anyhow::Result<()> {
    match compare_partitions(store, &format!("topic-partitions/{stream}"), partitions)? {
        PartitionCount::Unchanged => Ok(()),
        PartitionCount::Changed(recorded) => anyhow::bail!(
            "streams.{stream}.topic: has {partitions} partitions, but the state in data_dir has {}; partitions were added, so              that items may be in other partitions than before: start with a new group and an empty data_dir",
            partitions_text(recorded)
        ),
    }
}
