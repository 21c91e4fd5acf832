//! `ebb eval`: evaluates a file of events with the streams of a configuration.
//!
//! With the hash key of a service, the decisions are exactly those of that service.

use anyhow::Context;

use super::clock::unix_time_ms;
use super::{hash_keys, plans};
use crate::config::dedup::WindowConfig;
use crate::config::stream::StreamConfig;
use crate::config::{Config, ConfigEnum};
use ebb_eval::{EvalStream, Report, StreamLabels};
use ebb_sketch::decay::Decay;
use ebb_sketch::hash::HashKey;

pub use ebb_eval::{DECAYS as EVAL_DECAYS, InputFormat as EvalFormat};

/// Options of `ebb eval`.
#[derive(Debug, Clone)]
pub struct EvalOptions {
    pub file: std::path::PathBuf,
    /// Derived from the file's name when absent.
    pub format: Option<EvalFormat>,
    /// All streams when empty.
    pub streams: Vec<String>,
    pub decays: Vec<Decay>,
    /// Aggregates are queried each time this many lines were read, and at the end.
    pub every: Option<u64>,
}

/// Evaluates the file once, with all chosen streams.
pub fn evaluate(config: &Config, options: &EvalOptions) -> anyhow::Result<Report> {
    let offline = ebb_eval::EvalOptions {
        file: options.file.clone(),
        format: options.format,
        decays: options.decays.clone(),
        every: options.every,
        max_record_bytes: config.limits.record.0 as usize,
        now_ms: unix_time_ms(),
    };
    ebb_eval::evaluate(streams(config, &options.streams)?, &offline)
}

fn streams(config: &Config, names: &[String]) -> anyhow::Result<Vec<EvalStream>> {
    if let Some(unknown) = names.iter().find(|name| !config.streams.contains_key(*name)) {
        let known: Vec<&str> = config.streams.keys().map(String::as_str).collect();
        anyhow::bail!("unknown stream {unknown:?}; configured: {}", known.join(", "));
    }
    let key = hash_key(config)?;
    let chosen = config.streams.iter().filter(|(name, _)| names.is_empty() || names.contains(name));
    let stream = |(name, stream): (&String, &StreamConfig)| {
        anyhow::ensure!(
            stream.event.time.is_some(),
            "streams.{name}.event.time: is required by ebb eval, because lines of a file have no timestamp; set the field"
        );
        let plan = plans::plan(stream, &config.limits, &key).with_context(|| format!("streams.{name}"))?;
        let window = match stream.dedup.window {
            WindowConfig::Time(window) => window.to_string(),
            WindowConfig::Events(events) => format!("{events} events"),
        };
        let labels = StreamLabels {
            name: name.clone(),
            window: plan.dedup.window().map(|_| window.clone()),
            counted_within: plan.dedup.filter.stable().map(|_| window),
            filter: stream.dedup.filter.name(),
        };
        Ok(EvalStream { labels, plan, partitions: stream.partitions as u32 })
    };
    chosen.map(stream).collect()
}

/// The key of the service if its file exists, otherwise a constant key.
fn hash_key(config: &Config) -> anyhow::Result<HashKey> {
    match config.hash_key_file.exists() {
        true => hash_keys::load_or_create(&config.hash_key_file),
        false => Ok(HashKey::new(*b"a key for trials")),
    }
}

#[cfg(test)]
mod tests;
