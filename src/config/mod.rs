//! One YAML file and the environment to a [`Config`] that is valid because it exists.
//!
//! Promises: every key is declared once, with its documentation; all mistakes are reported at once, each with its path,
//! what is wrong and what would be right; what [`Config::effective`] prints reads back as the same configuration; secrets
//! are masked everywhere. It deliberately knows nothing of filters, shards or clients: others turn its plain values into
//! their own.
//!
//! Where to add a key: in the `section!` it belongs to ([`service`], [`kafka`], [`stream`], [`dedup`], [`aggregate`]).

pub mod aggregate;
mod declare;
pub mod dedup;
mod emit;
pub mod kafka;
mod kinds;
mod read;
mod reference;
mod scalars;
pub mod service;
pub mod stream;
mod summary;
mod tree;
mod variables;
mod words;

use std::fmt;
use std::path::Path;

use declare::section;
use kinds::{Maybe, Named};
use read::{Kind, Reader};
use scalars::{FilePath, Workers};
use tree::{Node, NodeKind, Place};

pub use read::{Mistake, PropertyCheck};
pub use scalars::WrittenDecay;

const DATA_DIR: &str = "<data_dir>";
const MOST_SHOWN: usize = 100;

section! {
    /// The whole configuration.
    pub struct Config {
        /// Where state is kept.
        data_dir: FilePath = "./data";
        /// How many threads own shards. `auto` is one for each core.
        workers: Workers = "auto";
        /// The file with the secret key that items are hashed with; made at the first start when it is absent.
        /// `<data_dir>` stands for the directory above. Losing the key means forgetting everything.
        hash_key_file: FilePath = "<data_dir>/hash.key";
        /// The file with the key before that one, while keys are exchanged: what was recorded under it is found and accepted
        /// until its window is over. It can go when the metric `ebb_previous_hash_key_needed` is 0 everywhere.
        hash_key_previous_file: Maybe<FilePath>, eg "/run/secrets/ebb/previous.key";
        /// What is logged, and how.
        log: service::Log = "{}";
        /// The HTTP service and its limits.
        http: service::Http = "{}";
        /// When shards are saved.
        checkpoint: service::Checkpoint = "{}";
        /// What a record may be at most.
        limits: service::Limits = "{}";
        /// The connection to Kafka. Without it the service runs embedded: events come by HTTP.
        kafka: Maybe<kafka::Kafka>;
        /// The streams, by names of your choice.
        streams: Named<stream::Stream>, eg "{clicks: {event: {item: [ip, ad]}}}";
    }
    rules check_config
}

fn check_config(config: &mut Config, node: &Node, reader: &mut Reader) {
    if config.hash_key_previous_file.as_ref() == Some(&config.hash_key_file) {
        reader.rule(
            node,
            "hash_key_previous_file",
            &["hash_key_file"],
            "is the same as hash_key_file; write the file of the key before, or remove it",
        );
    }
    config.hash_key_file = match config.hash_key_file.strip_prefix(DATA_DIR) {
        Ok(rest) => config.data_dir.join(rest),
        Err(_) => std::mem::take(&mut config.hash_key_file),
    };
    if config.streams.is_empty() {
        reader.rule(node, "streams", &[], "is empty; name at least one: clicks: {event: {item: [ip, ad]}}");
    }
    if config.http.max_body.0 < config.limits.record.0 {
        let message = format!("is smaller than a record may be; write at least {}", config.limits.record);
        reader.rule(node, "http.max_body", &["limits.record"], message);
    }
    if config.http.admin_listen == Some(config.http.listen) && config.http.listen.port() != 0 {
        reader.rule(
            node,
            "http.admin_listen",
            &["http.listen"],
            "is the same as listen; write another port, or remove it",
        );
    }
    if config.http.is_open_to_strangers() {
        reader.rule(
            node,
            "http.listen",
            &["http.tokens_file", "http.without_tokens", "http.tls"],
            "whoever reaches this address could ask and record; name a tokens_file, or write without_tokens: anywhere when \
             the network keeps strangers out",
        );
    }
    check_topics(config, node, reader);
}

/// Gives topics their names; no topic is read twice, and no stream reads what it writes.
fn check_topics(config: &mut Config, node: &Node, reader: &mut Reader) {
    let mut read: Vec<(String, String)> = Vec::new();
    for (name, stream) in &mut config.streams {
        stream.take_name(name);
        let outputs = stream.output.iter().flat_map(|output| output.topics());
        for (verdict, topic) in outputs.filter(|(_, topic)| *topic == stream.topic) {
            let (key, own) = (format!("streams.{name}.output.{verdict}"), format!("streams.{name}.topic"));
            reader.rule(node, &key, &[&own], format_args!("{topic} is the topic that the stream reads; write another"));
        }
        if let Some((_, other)) = read.iter().find(|(topic, _)| reader.with_kafka && *topic == stream.topic) {
            let (key, other_key) = (format!("streams.{name}.topic"), format!("streams.{other}.topic"));
            reader.rule(
                node,
                &key,
                &[&other_key],
                format_args!("{} is read by stream {other} already; write another", stream.topic),
            );
        }
        read.push((stream.topic.clone(), name.clone()));
    }
}

/// Everything that is wrong with a configuration; at least one thing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Mistakes(Vec<Mistake>);

impl Mistakes {
    /// The mistakes, from the top of the file to its end, then those of the environment.
    pub fn all(&self) -> &[Mistake] {
        &self.0
    }

    /// What others find wrong with a configuration whose keys are right, each with its path. `None` when nothing is.
    pub fn of(found: impl IntoIterator<Item = (String, String)>) -> Option<Self> {
        let mistake = |(path, message)| Mistake { path, place: Place::Unknown, message };
        let all: Vec<Mistake> = found.into_iter().map(mistake).collect();
        (!all.is_empty()).then_some(Self(all))
    }

    fn one(path: &str, place: Place, message: impl fmt::Display) -> Self {
        Self(vec![Mistake { path: path.into(), place, message: message.to_string() }])
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => f.write_str("1 mistake")?,
            count if count > MOST_SHOWN => write!(f, "{count} mistakes, of which the first {MOST_SHOWN}")?,
            count => write!(f, "{count} mistakes")?,
        }
        self.0.iter().take(MOST_SHOWN).try_for_each(|mistake| write!(f, "\n  {mistake}"))
    }
}

impl Config {
    /// Reads the file, if there is one, and the environment over it.
    pub fn load(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (String, String)>,
        property_check: PropertyCheck,
    ) -> Result<Self, Mistakes> {
        let text = match file {
            Some(path) => text_of(path)?,
            None => String::new(),
        };
        Self::parse(&text, variables, property_check)
    }

    /// Reads YAML text and the environment over it.
    pub fn parse(
        text: &str,
        variables: impl IntoIterator<Item = (String, String)>,
        property_check: PropertyCheck,
    ) -> Result<Self, Mistakes> {
        let mut root = Node::parse(text).map_err(|error| syntax(&error))?;
        // The file as a whole stands nowhere: what is missing from it has no line.
        root.place = Place::Unknown;
        if root.kind == NodeKind::Empty {
            root.kind = NodeKind::Map(Vec::new());
        }
        let mut misnamed = Vec::new();
        variables::lay_over(&mut root, &Config::inside(), variables, &mut misnamed);
        let mut reader = Reader::new(root.child("kafka").is_some(), property_check);
        let config = Config::read(&root, &mut reader);
        let mut mistakes = reader.mistakes;
        mistakes.extend(misnamed);
        match config {
            Some(config) if mistakes.is_empty() => Ok(config),
            _ => {
                mistakes.sort_by_key(|mistake| mistake.place.rank());
                Err(Mistakes(mistakes))
            }
        }
    }

    /// The configuration in force, as YAML with every default written out and secrets masked.
    pub fn effective(&self) -> String {
        let mut text = String::new();
        if let Some(node) = Config::show(self) {
            emit::emit(&node, 0, &mut text);
        }
        text
    }

    /// What the configuration amounts to, on one screen.
    pub fn summary(&self) -> String {
        summary::summary(self)
    }

    /// Every key with its documentation, form and default, as YAML.
    pub fn reference() -> String {
        reference::reference(&Config::inside())
    }
}

/// The environment's `EBB_` variables, which must be text.
pub fn environment() -> Result<Vec<(String, String)>, Mistakes> {
    let ours = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let read: Vec<_> = ours
        .filter(|(name, _)| name.starts_with(variables::PREFIX))
        .map(|(name, value)| value.into_string().map(|text| (name.clone(), text)).map_err(|_| name))
        .collect();
    let refusals: Vec<Mistake> =
        read.iter().filter_map(|read| read.as_ref().err()).map(|name| not_text(name)).collect();
    if refusals.is_empty() { Ok(read.into_iter().flatten().collect()) } else { Err(Mistakes(refusals)) }
}

fn not_text(name: &str) -> Mistake {
    let place = Place::Variable(name.into());
    Mistake { path: String::new(), place, message: "its value is not UTF-8; write it as UTF-8".into() }
}

fn text_of(path: &Path) -> Result<String, Mistakes> {
    use std::io::Read;
    let refused = |why: String| Mistakes::one("", Place::Unknown, format_args!("{}: {why}", path.display()));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| refused(error.to_string()))?;
    // One byte more than is allowed, so that the tree can tell that it is too much.
    file.take(tree::MOST_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| refused(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| {
        refused(format!("is not UTF-8 from byte {}; save it as UTF-8", error.utf8_error().valid_up_to()))
    })
}

fn syntax(error: &tree::YamlError) -> Mistakes {
    let line = match error {
        tree::YamlError::Syntax { line: Some(line), .. } => Place::Line(*line),
        _ => Place::Unknown,
    };
    Mistakes::one("", line, format_args!("the file {error}"))
}
