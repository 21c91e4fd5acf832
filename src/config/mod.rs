//! One YAML file, overridden by environment variables, parsed into a [`Config`]. A `Config` that exists is valid.
//!
//! Guarantees: every key is declared once, with its documentation, syntax and default; defaults that depend on other
//! keys are resolved while parsing, so that [`Config::effective`] prints the values in force and parses back to the same
//! configuration; all errors are reported at once, each with its path, what is wrong and what would be right; secrets are
//! masked everywhere.
//!
//! It depends on `ebb-core` and `ebb-sketch` for what a key can hold (paths, decays, time units, aggregate methods) and
//! for the limits that filters and aggregates put on their parameters. It does not know the rest of the service: shards,
//! workers, the store and the HTTP and Kafka clients. librdkafka's property names are checked by a function that the
//! caller passes in.
//!
//! To add a key, declare it in the `section!` it belongs to: [`service`], [`kafka`], [`stream`], [`dedup`],
//! [`frequency`] or [`aggregate`].

pub mod aggregate;
mod composite;
mod declare;
pub mod dedup;
mod emit;
mod error;
pub mod frequency;
pub mod kafka;
mod overrides;
mod parser;
mod reference;
mod scalars;
pub mod service;
pub mod stream;
mod suggest;
mod summary;
mod tree;

use std::path::Path;

use composite::{MapOf, Optional};
use declare::section;
use parser::{ConfigParser, Schema};
use scalars::{FilePath, WorkerCount};
use tree::{Node, NodeKind, SourceLocation};

pub use declare::ConfigEnum;
pub use error::{ConfigError, ConfigErrors};
pub use overrides::environment;
pub use parser::PropertyCheck;
pub use scalars::DecayConfig;

const DATA_DIR: &str = "<data_dir>";

section! {
    /// The whole configuration.
    pub struct Config {
        /// The directory of the store and of generated files.
        data_dir: FilePath = "./data";
        /// Number of worker threads. `auto` starts one per CPU core.
        workers: WorkerCount = "auto";
        /// The file with the secret key that items are hashed with. A missing file is created with a random key at the
        /// first start. `<data_dir>` stands for the directory above. Without this key all stored state is unreadable.
        hash_key_file: FilePath = "<data_dir>/hash.key";
        /// The file with the previous hash key, during a key rotation. Items recorded under that key are still recognised
        /// until their window has passed. Remove it once the metric `ebb_previous_hash_key_needed` is 0 on all instances.
        hash_key_previous_file: Optional<FilePath>, eg "/run/secrets/ebb/previous.key";
        /// Logging.
        log: service::LogConfig = "{}";
        /// The HTTP server and its limits.
        http: service::HttpConfig = "{}";
        /// Checkpoints of the shards.
        checkpoint: service::CheckpointConfig = "{}";
        /// Limits on the size of a record.
        limits: service::LimitsConfig = "{}";
        /// The connection to Kafka. Without this section the service runs embedded and receives events over HTTP.
        kafka: Optional<kafka::KafkaConfig>;
        /// The streams, by name.
        streams: MapOf<stream::StreamConfig>, eg "{clicks: {event: {item: [ip, ad]}}}";
    }
    check check_config
}

fn check_config(config: &mut Config, node: &Node, parser: &mut ConfigParser) {
    if config.hash_key_previous_file.as_ref() == Some(&config.hash_key_file) {
        let message = "must differ from hash_key_file; set the file of the previous key, or remove this key";
        parser.key_error(node, "hash_key_previous_file", &["hash_key_file"], message);
    }
    config.hash_key_file = match config.hash_key_file.strip_prefix(DATA_DIR) {
        Ok(rest) => config.data_dir.join(rest),
        Err(_) => std::mem::take(&mut config.hash_key_file),
    };
    if config.streams.is_empty() {
        let message = "is empty; configure at least one stream, such as clicks: {event: {item: [ip, ad]}}";
        parser.key_error(node, "streams", &[], message);
    }
    check_http(config, node, parser);
    check_topics(config, node, parser);
}

fn check_http(config: &Config, node: &Node, parser: &mut ConfigParser) {
    if config.http.max_body.0 < config.limits.record.0 {
        let message = format!("must be at least limits.record, which is {}", config.limits.record);
        parser.key_error(node, "http.max_body", &["limits.record"], message);
    }
    if config.http.admin_listen == Some(config.http.listen) && config.http.listen.port() != 0 {
        let message = "must differ from listen; set another port, or remove this key";
        parser.key_error(node, "http.admin_listen", &["http.listen"], message);
    }
    if config.http.allows_anonymous_remote_clients() {
        let message = "any client that can reach this address could query and record events; set http.tokens_file, or \
                       set http.without_tokens: anywhere if the network restricts who can connect";
        parser.key_error(node, "http.listen", &["http.tokens_file", "http.without_tokens", "http.tls"], message);
    }
}

/// Resolves topic names. No topic is read by two streams, and no stream reads a topic that it writes.
fn check_topics(config: &mut Config, node: &Node, parser: &mut ConfigParser) {
    let mut sources: Vec<(String, String)> = Vec::new();
    for (name, stream) in &mut config.streams {
        stream.resolve_topics(name);
        let outputs = stream.output.iter().flat_map(|output| output.topics());
        for (verdict, topic) in outputs.filter(|(_, topic)| *topic == stream.topic) {
            let (key, source) = (format!("streams.{name}.output.{verdict}"), format!("streams.{name}.topic"));
            let message = format!("{topic} is the source topic of this stream; set another topic");
            parser.key_error(node, &key, &[&source], message);
        }
        if let Some((_, other)) = sources.iter().find(|(topic, _)| parser.with_kafka && *topic == stream.topic) {
            let (key, other_key) = (format!("streams.{name}.topic"), format!("streams.{other}.topic"));
            let message = format!("{} is already read by stream {other}; set another topic", stream.topic);
            parser.key_error(node, &key, &[&other_key], message);
        }
        sources.push((stream.topic.clone(), name.clone()));
    }
}

impl Config {
    /// Parses the file, if there is one, overridden by the variables.
    pub fn load(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (String, String)>,
        property_check: PropertyCheck,
    ) -> Result<Self, ConfigErrors> {
        let text = match file {
            Some(path) => read_file(path)?,
            None => String::new(),
        };
        Self::parse(&text, variables, property_check)
    }

    /// Parses YAML text, overridden by the variables.
    pub fn parse(
        text: &str,
        variables: impl IntoIterator<Item = (String, String)>,
        property_check: PropertyCheck,
    ) -> Result<Self, ConfigErrors> {
        let mut root = Node::parse(text)?;
        // A key that is missing at the top level has no line.
        root.location = SourceLocation::Unknown;
        if root.kind == NodeKind::Empty {
            root.kind = NodeKind::Map(Vec::new());
        }
        let mut override_errors = Vec::new();
        overrides::apply(&mut root, &Config::children(), variables, &mut override_errors);
        let mut parser = ConfigParser::new(root.child("kafka").is_some(), property_check);
        let config = Config::from_node(&root, &mut parser);
        let mut errors = parser.errors;
        errors.extend(override_errors);
        match (config, ConfigErrors::from_errors(errors)) {
            (_, Some(errors)) => Err(errors),
            (Some(config), None) => Ok(config),
            (None, None) => Err(ConfigErrors::of_file("cannot be parsed")),
        }
    }

    /// The values in force as YAML, including all defaults, with secrets masked.
    pub fn effective(&self) -> String {
        let mut text = String::new();
        if let Some(node) = Config::to_node(self) {
            emit::emit(&node, 0, &mut text);
        }
        text
    }

    /// A short description for a terminal.
    pub fn summary(&self) -> String {
        summary::summary(self)
    }

    /// Every key with its documentation, syntax and default, as YAML.
    pub fn reference() -> String {
        reference::reference(&Config::children())
    }
}

fn read_file(path: &Path) -> Result<String, ConfigErrors> {
    use std::io::Read;
    let failed = |cause: String| ConfigErrors::of_file(format_args!("{}: {cause}", path.display()));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    // One byte more than the limit, so that the YAML parser reports a file that is too large.
    file.take(tree::MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| {
        failed(format!("is not UTF-8 from byte {}; save it as UTF-8", error.utf8_error().valid_up_to()))
    })
}
