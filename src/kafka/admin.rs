//! Topic administration: partition counts, record size limits, creation of missing topics.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, Producer as _};

use super::connection_errors::ConnectionErrors;
use super::fault::{Fault, Remedy};
use super::settings::Settings;

const ADMIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Short, so that a caller that retries can report the cause soon.
const METADATA_TIMEOUT: Duration = Duration::from_secs(3);
/// How long to poll for the connection errors behind a failed call.
const ERROR_POLL: Duration = Duration::from_millis(50);
const DESCRIBE_TOPIC: &str = "describing a topic";
const CREATE_TOPIC: &str = "creating a topic";
/// The broker's default for `max.message.bytes`, assumed where the broker does not report it.
const DEFAULT_MAX_RECORD_BYTES: usize = 1_000_000;

/// A topic that must exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicRequirement {
    pub name: String,
    /// How to create the topic if it is missing; `None` makes a missing topic an error.
    pub creation: Option<TopicCreation>,
}

/// Properties of a topic that Ebb creates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicCreation {
    pub partitions: u32,
    pub replication: u32,
    pub is_compacted: bool,
}

/// An existing topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicDescription {
    pub partitions: u32,
    /// The largest record batch that the broker accepts, which also bounds a single record.
    pub max_record_bytes: usize,
    /// Whether the broker may delete records that a newer record with the same key replaces.
    pub is_compacted: bool,
}

/// Describes topics and creates missing ones.
pub struct Admin {
    settings: Settings,
    metadata_client: BaseProducer<ConnectionErrors>,
    /// Created on first use, after the metadata client has reached a broker: this client cannot report why a connection
    /// fails.
    admin_client: OnceLock<AdminClient<DefaultClientContext>>,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Admin")
    }
}

impl Admin {
    pub fn new(settings: &Settings) -> Result<Self, Fault> {
        let metadata_client =
            settings.metadata_client().create_with_context(ConnectionErrors::default()).map_err(client_not_created)?;
        Ok(Self { settings: settings.clone(), metadata_client, admin_client: OnceLock::new() })
    }

    fn admin_client(&self) -> Result<&AdminClient<DefaultClientContext>, Fault> {
        match self.admin_client.get() {
            Some(client) => Ok(client),
            None => {
                let client = self.settings.metadata_client().create().map_err(client_not_created)?;
                Ok(self.admin_client.get_or_init(|| client))
            }
        }
    }

    /// The number of partitions, or `None` if the topic does not exist.
    ///
    /// Missing permissions are reported as retryable: an administrator may grant them while Ebb waits.
    pub fn partitions(&self, topic: &str) -> Result<Option<u32>, Fault> {
        let response = self.metadata_client.client().fetch_metadata(Some(topic), METADATA_TIMEOUT);
        let metadata = response.map_err(|error| self.fault_with_cause(&error))?;
        self.metadata_client.context().clear();
        let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else { return Ok(None) };
        match found.error().map(RDKafkaErrorCode::from) {
            None => Ok(Some(found.partitions().len() as u32)),
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => Ok(None),
            Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
                let message = format!(
                    "this user may not see {topic} (topic authorization failed); grant it Read on a source topic, Write \
                     on an output topic"
                );
                Err(Fault::new(DESCRIBE_TOPIC, Remedy::Retry, message))
            }
            Some(code) => Err(Fault::idempotent(DESCRIBE_TOPIC, &KafkaError::MetadataFetch(code))),
        }
    }

    /// Prefers the connection error behind a failed call, if there is one, to the call's own "timed out".
    fn fault_with_cause(&self, error: &KafkaError) -> Fault {
        self.metadata_client.poll(ERROR_POLL);
        let fault = Fault::idempotent(DESCRIBE_TOPIC, error);
        match self.metadata_client.context().latest() {
            Some(cause) => Fault::new(DESCRIBE_TOPIC, fault.remedy, cause),
            None => fault,
        }
    }

    /// Describes the required topics and creates those that are missing and may be created.
    pub async fn require(
        &self,
        requirements: &[TopicRequirement],
    ) -> Result<BTreeMap<String, TopicDescription>, Fault> {
        let mut topics = BTreeMap::new();
        for TopicRequirement { name, creation } in requirements {
            let partitions = match (self.partitions(name)?, creation) {
                (Some(partitions), _) => partitions,
                (None, Some(creation)) => {
                    self.create(name, creation).await?;
                    creation.partitions
                }
                (None, None) => {
                    let message = format!("topic {name} does not exist; create it, or set kafka.create_topics");
                    return Err(Fault::new(DESCRIBE_TOPIC, Remedy::End, message));
                }
            };
            topics.insert(name.clone(), self.describe(name, partitions).await);
        }
        Ok(topics)
    }

    async fn create(&self, name: &str, creation: &TopicCreation) -> Result<(), Fault> {
        let replication = TopicReplication::Fixed(creation.replication as i32);
        let topic = NewTopic::new(name, creation.partitions as i32, replication);
        let topic = if creation.is_compacted { topic.set("cleanup.policy", "compact") } else { topic };
        let options = AdminOptions::new().operation_timeout(Some(ADMIN_TIMEOUT));
        let response = self.admin_client()?.create_topics([&topic], &options).await;
        for result in response.map_err(|error| Fault::idempotent(CREATE_TOPIC, &error))? {
            match result {
                Ok(name) => tracing::info!(topic = name, partitions = creation.partitions, "topic created"),
                // Another instance created it in the meantime.
                Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((name, code)) => {
                    return Err(Fault::new(CREATE_TOPIC, Remedy::End, format!("{name}: {code}")));
                }
            }
        }
        Ok(())
    }

    /// Falls back to the broker's defaults if the topic's configuration cannot be read.
    async fn describe(&self, topic: &str, partitions: u32) -> TopicDescription {
        let default = TopicDescription { partitions, max_record_bytes: DEFAULT_MAX_RECORD_BYTES, is_compacted: false };
        let Ok(client) = self.admin_client() else { return default };
        let options = AdminOptions::new().request_timeout(Some(ADMIN_TIMEOUT));
        let response = client.describe_configs([&ResourceSpecifier::Topic(topic)], &options).await;
        let Some(config) = response.ok().into_iter().flatten().flatten().next() else { return default };
        let value = |name: &str| config.get(name).and_then(|entry| entry.value.as_deref());
        TopicDescription {
            partitions,
            max_record_bytes: value("max.message.bytes")
                .and_then(|bytes| bytes.parse().ok())
                .unwrap_or(DEFAULT_MAX_RECORD_BYTES),
            is_compacted: value("cleanup.policy").is_some_and(|policy| policy.contains("compact")),
        }
    }
}

fn client_not_created(error: KafkaError) -> Fault {
    Fault::new("creating a client", Remedy::End, error)
}
