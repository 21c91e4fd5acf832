//! The service as a whole: the order in which its parts start and stop, and the commands that use these parts.
//!
//! Start: store, hash keys, plans, listeners, workers (which restore in the background). Probes are answered as soon as the
//! listeners exist, also while the brokers are not reachable yet.
//! Stop: no new connections, requests in flight finish, workers write their last checkpoints, the store closes.

mod ask;
mod capacity;
mod clock;
mod demo;
mod embedded;
#[cfg(feature = "eval")]
mod eval;
mod file_permissions;
mod hash_keys;
mod health;
mod kafka_startup;
mod listeners;
mod plans;
mod produce;
mod reference;
mod service;
mod startup_probes;
mod storage;

pub use ask::{ApiClient, ApiProblem, ApiRequest, render};
pub use capacity::{CapacityPlan, TrafficAssumptions, plan_capacity};
pub use demo::{DemoOptions, demo};
#[cfg(feature = "eval")]
pub use eval::{EVAL_DECAYS, EvalFormat, EvalOptions, evaluate};
pub use health::health;
pub use plans::plan;
pub use produce::{ProduceOptions, produce};
pub use reference::{ReferenceFormat, configuration_markdown, metrics_reference};

use std::future::Future;

use anyhow::Context;

use crate::config::{Config, ConfigErrors};
use ebb_sketch::hash::HashKey;
use service::Service;

/// Runs the configured service until SIGTERM or Ctrl-C.
pub fn serve(config: Config) -> anyhow::Result<()> {
    block_on(async {
        let mut stop = std::pin::pin!(stop_signal()?);
        let service = tokio::select! {
            service = Service::start(config) => service?,
            // No worker has started, so there is nothing to shut down in order.
            () = &mut stop => return Ok(()),
        };
        service.run(stop).await
    })
}

/// Reports what only the filters and sketches themselves can reject, before anything is started.
pub fn verify(config: &Config) -> Result<(), ConfigErrors> {
    let key = HashKey::new([0; 16]);
    let errors = config.streams.iter().filter_map(|(name, stream)| {
        let error = plans::plan(stream, &config.limits, &key).err()?;
        Some((format!("streams.{name}"), format!("{error:#}")))
    });
    ConfigErrors::from_paths(errors).map_or(Ok(()), Err)
}

fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the async runtime")?;
    runtime.block_on(work)
}

/// Resolves at the first SIGTERM or SIGINT.
fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("received SIGTERM, shutting down"),
            _ = interrupt.recv() => tracing::info!("received SIGINT, shutting down"),
        }
    })
}
