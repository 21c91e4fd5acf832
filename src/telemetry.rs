//! Log lines to standard error, for people or for machines. Nothing else is decided here: metrics have their own module.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::ConfigEnum;
use crate::config::service::{LogConfig, LogFormat, LogLevel};

/// Libraries whose news is not ours: heard from `warn` on, unless `debug` or `trace` asks for everything.
const QUIET: &str = "sled=warn,hyper=warn,librdkafka=warn,rdkafka=warn";

/// The lines were already going somewhere.
#[derive(Debug, thiserror::Error)]
#[error("logging was started twice")]
pub struct StartedTwice;

/// Starts logging for the whole process. Once.
pub fn start(log: &LogConfig) -> Result<(), StartedTwice> {
    let lines = tracing_subscriber::fmt().with_writer(io::stderr).with_env_filter(filter(log.level));
    let started = match log.format {
        LogFormat::Pretty => lines.with_ansi(io::stderr().is_terminal()).with_target(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|_| StartedTwice)
}

fn filter(level: LogLevel) -> EnvFilter {
    let word = level.name();
    match level {
        LogLevel::Off | LogLevel::Error | LogLevel::Debug | LogLevel::Trace => EnvFilter::new(word),
        LogLevel::Warn | LogLevel::Info => EnvFilter::new(format!("{word},{QUIET}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_a_filter_that_lets_through_just_that_much() {
        for (level, _) in LogLevel::VARIANTS {
            let most = filter(*level).max_level_hint().map(|hint| hint.to_string().to_lowercase());
            assert_eq!(most.as_deref(), Some(level.name()));
        }
    }
}
