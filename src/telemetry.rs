//! Logging to standard error. Metrics are in [`crate::metrics`].

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::ConfigEnum;
use crate::config::service::{LogConfig, LogFormat, LogLevel};

/// Libraries that are logged from `warn` on at level `info`; `debug` and `trace` apply to all libraries.
const LIBRARY_FILTER: &str = "sled=warn,hyper=warn,librdkafka=warn,rdkafka=warn";

/// Logging was already started.
#[derive(Debug, thiserror::Error)]
#[error("logging is already started")]
pub struct AlreadyStarted;

/// Starts logging for the whole process. It can be called once.
pub fn start(log: &LogConfig) -> Result<(), AlreadyStarted> {
    let lines = tracing_subscriber::fmt().with_writer(io::stderr).with_env_filter(filter(log.level));
    let started = match log.format {
        LogFormat::Pretty => lines.with_ansi(io::stderr().is_terminal()).with_target(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|_| AlreadyStarted)
}

fn filter(level: LogLevel) -> EnvFilter {
    let name = level.name();
    match level {
        LogLevel::Off | LogLevel::Error | LogLevel::Debug | LogLevel::Trace => EnvFilter::new(name),
        LogLevel::Warn | LogLevel::Info => EnvFilter::new(format!("{name},{LIBRARY_FILTER}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_its_own_maximum() {
        for (level, _) in LogLevel::VARIANTS {
            let max = filter(*level).max_level_hint().map(|hint| hint.to_string().to_lowercase());
            assert_eq!(max.as_deref(), Some(level.name()));
        }
    }
}
