//! The running service: store, workers and HTTP servers.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::listeners::Listeners;
use super::startup_probes::StartupProbes;
use super::{embedded, hash_keys, kafka_startup, plans, storage};
use crate::config::Config;
use crate::http::{self, Api, HttpLimits, Routes};
use crate::metrics::Metrics;
use crate::workers::{Readiness, Streams, Workers, WorkersOptions};
use ebb_sketch::units::DurationMs;

/// A running service.
pub(super) struct Service {
    config: Config,
    metrics: Metrics,
    workers: Workers,
    pub(super) streams: Streams,
    listeners: Listeners,
}

impl Service {
    /// All parts are running when this returns, but shards may still be restoring.
    pub(super) async fn start(config: Config) -> anyhow::Result<Self> {
        let metrics = Metrics::new();
        std::fs::create_dir_all(&config.data_dir)
            .with_context(|| format!("cannot create the data directory {}", config.data_dir.display()))?;
        let store = storage::open_store(&config, &metrics)?;
        let keys = hash_keys::load_hash_keys(&config, &store)?;
        let mut plans = BTreeMap::new();
        for (name, stream) in &config.streams {
            let plan =
                plans::plan_with_keys(stream, &config.limits, &keys).with_context(|| format!("streams.{name}"))?;
            plans.insert(name.clone(), plan);
        }
        let options = WorkersOptions { store: Arc::new(store), metrics: metrics.clone() };
        let listeners = Listeners::bind(&config, &metrics)?;
        let (workers, routes) = match &config.kafka {
            Some(kafka) => {
                let probes = StartupProbes::serve(&listeners, options.store.clone(), &metrics, http_limits(&config))?;
                kafka_startup::start_workers(&config, kafka, &plans, &options, &probes).await?
            }
            None => embedded::start_workers(&config, plans, &options)?,
        };
        let streams = Streams::new(&workers, routes);
        Ok(Self { config, metrics, workers, streams, listeners })
    }

    pub(super) fn address(&self) -> std::io::Result<SocketAddr> {
        self.listeners.address()
    }

    /// Serves until `stop` resolves, then finishes requests in flight and writes the last checkpoints.
    pub(super) async fn run(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let Self { config, metrics, workers, streams, listeners } = self;
        let (stopping, stopped) = watch::channel(false);
        let api = Arc::new(Api::new(streams.clone(), metrics.clone(), http_limits(&config)));
        let mut servers = start_servers(listeners, api, &stopped)?;
        let reporting = tokio::spawn(report_readiness(streams.clone(), metrics.clone()));
        let checkpoint_interval = Duration::from_millis(config.checkpoint.every.0);
        let mut failure = None;
        tokio::select! {
            () = stop => {}
            () = request_checkpoints(&workers, checkpoint_interval) => {}
            cause = workers.ended() => failure = Some(cause),
            result = servers.join_next() => anyhow::bail!("the HTTP server ended unexpectedly: {result:?}"),
        }
        streams.announce_stop();
        metrics.ready.set(0);
        reporting.abort();
        stopping.send_replace(true);
        while servers.join_next().await.is_some() {}
        workers.stop().await;
        tracing::info!("stopped");
        failure.map_or(Ok(()), |cause| Err(anyhow::anyhow!(cause)))
    }
}

/// Starts the HTTP servers; they run until `stopped` is true.
fn start_servers(listeners: Listeners, api: Arc<Api>, stopped: &watch::Receiver<bool>) -> anyhow::Result<JoinSet<()>> {
    let until_stopped = || {
        let mut stopped = stopped.clone();
        async move {
            // An error means that the sender was dropped, and with it the service.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        }
    };
    let (service, admin, tokens) = (listeners.service()?, listeners.admin()?, listeners.tokens.clone());
    let (requires_tokens, tls) = (tokens.is_some(), service.tls.is_some());
    tracing::info!(address = %listeners.address()?, requires_tokens, tls, "listening");
    let mut servers = JoinSet::new();
    match admin {
        None => drop(servers.spawn(http::serve(service, Routes::all(api).with_tokens(tokens), until_stopped()))),
        Some(admin) => {
            tracing::info!(address = %admin.socket.local_addr()?, "listening for probes and metrics");
            let routes = Routes::service(api.clone()).with_tokens(tokens);
            servers.spawn(http::serve(service, routes, until_stopped()));
            servers.spawn(http::serve(admin, Routes::admin(api), until_stopped()));
        }
    }
    Ok(servers)
}

fn http_limits(config: &Config) -> HttpLimits {
    let http = &config.http;
    let duration = |ms: DurationMs| Duration::from_millis(ms.0);
    HttpLimits {
        max_body_bytes: http.max_body.0 as usize,
        request_timeout: duration(http.request_timeout),
        header_timeout: duration(http.header_timeout),
        idle_timeout: duration(http.idle_timeout),
        max_connections: http.max_connections as usize,
        drain: duration(http.drain),
        ..HttpLimits::default()
    }
}

async fn report_readiness(streams: Streams, metrics: Metrics) {
    match streams.settled().await {
        Readiness::Ready => {
            metrics.ready.set(1);
            tracing::info!("ready");
        }
        // Partitions that were assigned in the meantime are still restoring.
        Readiness::Restoring | Readiness::Waiting(_) => tracing::info!("not ready yet, restoring"),
        readiness => tracing::error!(?readiness, "not ready"),
    }
}

async fn request_checkpoints(workers: &Workers, interval: Duration) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first tick is immediate.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        workers.request_checkpoints().await;
    }
}
