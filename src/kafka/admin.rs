//! Topics: how many partitions they have, what they take, and making those that are missing.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, Producer as _};

use super::fault::{Fault, Remedy};
use super::overheard::Overheard;
use super::settings::Settings;

const PATIENCE: Duration = Duration::from_secs(10);
/// The longest a topic is asked for at once: who waits is to hear soon why.
const ASKING: Duration = Duration::from_secs(3);
/// How long the client is listened to when a call failed.
const LISTENING: Duration = Duration::from_millis(50);
const ASK: &str = "asking for a topic";
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
    /// Records may be gone because newer ones have their key.
    pub is_compacted: bool,
}

/// Asks and makes.
pub struct Admin {
    settings: Settings,
    asker: BaseProducer<Overheard>,
    /// Nobody listens to what it says of its connections: it is made once a broker has answered.
    client: OnceLock<AdminClient<DefaultClientContext>>,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Admin")
    }
}

impl Admin {
    pub fn new(settings: &Settings) -> Result<Self, Fault> {
        let asker = settings.asker().create_with_context(Overheard::default()).map_err(not_made)?;
        Ok(Self { settings: settings.clone(), asker, client: OnceLock::new() })
    }

    fn client(&self) -> Result<&AdminClient<DefaultClientContext>, Fault> {
        match self.client.get() {
            Some(client) => Ok(client),
            None => {
                let made = self.settings.asker().create().map_err(not_made)?;
                Ok(self.client.get_or_init(|| made))
            }
        }
    }

    /// The number of partitions, or nothing when there is no such topic. Who is not let in may be so later: a fault of
    /// that kind says why, and asking again is right.
    pub fn partitions(&self, topic: &str) -> Result<Option<u32>, Fault> {
        let asked = self.asker.client().fetch_metadata(Some(topic), ASKING);
        let metadata = asked.map_err(|error| self.explained(&error))?;
        self.asker.context().forget();
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        let missing = RDKafkaErrorCode::UnknownTopicOrPartition;
        match found.map(|found| (found.error().map(RDKafkaErrorCode::from), found.partitions().len())) {
            None => Ok(None),
            Some((Some(code), _)) if code == missing || code == RDKafkaErrorCode::UnknownTopic => Ok(None),
            Some((Some(RDKafkaErrorCode::TopicAuthorizationFailed), _)) => {
                let message = format!(
                    "this user may not see {topic} (topic authorization failed); give it Read on a source, Write on an \
                     output"
                );
                Err(Fault::new(ASK, Remedy::Retry, message))
            }
            Some((Some(code), _)) => Err(Fault::repeatable(ASK, &KafkaError::MetadataFetch(code))),
            Some((None, count)) => Ok(Some(count as u32)),
        }
    }

    /// A call that failed, with what the client says about its connections.
    fn explained(&self, error: &KafkaError) -> Fault {
        self.asker.poll(LISTENING);
        let fault = Fault::repeatable(ASK, error);
        match self.asker.context().reason() {
            Some(reason) => Fault::new(ASK, fault.remedy, reason),
            None => fault,
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
                return Err(Fault::new(ASK, Remedy::End, message));
            };
            topics.insert(want.name.clone(), self.describe(&want.name, partitions).await);
        }
        Ok(topics)
    }

    async fn make(&self, name: &str, make: &Make) -> Result<(), Fault> {
        let replication = TopicReplication::Fixed(make.replication as i32);
        let topic = NewTopic::new(name, make.partitions as i32, replication);
        let topic = if make.is_compacted { topic.set("cleanup.policy", "compact") } else { topic };
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        let made = self.client()?.create_topics([&topic], &options).await;
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
    async fn describe(&self, topic: &str, partitions: u32) -> Topic {
        let usual = Topic { partitions, most_bytes: USUAL_BYTES, is_compacted: false };
        let Ok(client) = self.client() else { return usual };
        let options = AdminOptions::new().request_timeout(Some(PATIENCE));
        let told = client.describe_configs([&ResourceSpecifier::Topic(topic)], &options).await;
        let Some(told) = told.ok().into_iter().flatten().flatten().next() else { return usual };
        let value = |name: &str| told.get(name).and_then(|entry| entry.value.as_deref());
        Topic {
            partitions,
            most_bytes: value("max.message.bytes").and_then(|told| told.parse().ok()).unwrap_or(USUAL_BYTES),
            is_compacted: value("cleanup.policy").is_some_and(|policy| policy.contains("compact")),
        }
    }
}

fn not_made(error: KafkaError) -> Fault {
    Fault::new("making a client", Remedy::End, error)
}
