//! Topics: how many partitions they have, what they take, and making those that are missing.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::fault::{Fault, Remedy};
use super::settings::Settings;

const PATIENCE: Duration = Duration::from_secs(10);
/// What brokers take when they do not say.
const USUAL_BYTES: usize = 1_000_000;

/// A topic that must exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub name: String,
    /// How it is made when it is missing; without it, missing is an error.
    pub make: Option<Make>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Make {
    pub partitions: u32,
    pub replication: u32,
    pub is_compacted: bool,
}

/// What there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub partitions: u32,
    /// The largest batch, and so the largest record.
    pub most_bytes: usize,
}

/// Asks and makes.
pub struct Admin {
    client: AdminClient<DefaultClientContext>,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Admin")
    }
}

impl Admin {
    pub fn new(settings: &Settings) -> Result<Self, Fault> {
        let made = settings.asker().create();
        Ok(Self { client: made.map_err(|error| Fault::new("making a client", Remedy::End, error))? })
    }

    /// The number of partitions, or nothing when there is no such topic.
    pub fn partitions(&self, topic: &str) -> Result<Option<u32>, Fault> {
        let asked = self.client.inner().fetch_metadata(Some(topic), PATIENCE);
        let metadata = asked.map_err(|error| Fault::repeatable("asking for a topic", &error))?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        let missing = RDKafkaErrorCode::UnknownTopicOrPartition;
        match found.map(|found| (found.error().map(RDKafkaErrorCode::from), found.partitions().len())) {
            None => Ok(None),
            Some((Some(code), _)) if code == missing || code == RDKafkaErrorCode::UnknownTopic => Ok(None),
            Some((Some(code), _)) => Err(Fault::repeatable("asking for a topic", &KafkaError::MetadataFetch(code))),
            Some((None, count)) => Ok(Some(count as u32)),
        }
    }

    /// The topics, each made when it is missing and may be made.
    pub async fn require(&self, wanted: &[Wanted]) -> Result<BTreeMap<String, Topic>, Fault> {
        let mut topics = BTreeMap::new();
        for want in wanted {
            let mut partitions = self.partitions(&want.name)?;
            if partitions.is_none()
                && let Some(make) = &want.make
            {
                self.make(&want.name, make).await?;
                partitions = Some(make.partitions);
            }
            let Some(partitions) = partitions else {
                let message = format!("there is no topic {}; make it, or set kafka.create_topics", want.name);
                return Err(Fault::new("asking for a topic", Remedy::End, message));
            };
            topics.insert(want.name.clone(), Topic { partitions, most_bytes: self.most_bytes(&want.name).await });
        }
        Ok(topics)
    }

    async fn make(&self, name: &str, make: &Make) -> Result<(), Fault> {
        let replication = TopicReplication::Fixed(make.replication as i32);
        let topic = NewTopic::new(name, make.partitions as i32, replication);
        let topic = if make.is_compacted { topic.set("cleanup.policy", "compact") } else { topic };
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        let made = self.client.create_topics([&topic], &options).await;
        let made = made.map_err(|error| Fault::repeatable("making a topic", &error))?;
        for result in made {
            match result {
                Ok(name) => tracing::info!(topic = name, partitions = make.partitions, "topic made"),
                Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((name, code)) => {
                    return Err(Fault::new("making a topic", Remedy::End, format!("{name}: {code}")));
                }
            }
        }
        Ok(())
    }

    /// Brokers that do not tell are taken to be like most.
    async fn most_bytes(&self, topic: &str) -> usize {
        let options = AdminOptions::new().request_timeout(Some(PATIENCE));
        let told = self.client.describe_configs([&ResourceSpecifier::Topic(topic)], &options).await;
        let told = told.ok().into_iter().flatten().flatten().next();
        let value = told.and_then(|config| config.get("max.message.bytes")?.value.as_ref()?.parse().ok());
        value.unwrap_or(USUAL_BYTES)
    }
}
