//! The service as a whole: what starts in which order, and stops in which order, with which deadlines.
//!
//! Start: store, hash keys, plans, listeners, workers (which restore in the background). Probes tell the truth from the
//! moment that the listeners are there, also while brokers are waited for.
//! Stop: no new connections, requests in flight drain, workers take their last checkpoints, the store closes.

mod ask;
mod capacity;
mod demo;
#[cfg(feature = "eval")]
mod eval;
mod health;
mod listeners;
mod plans;
mod produce;
mod reference;
mod secret;
mod topics;
mod waiting;

pub use ask::{Problem, Remote, Request, show};
pub use capacity::{CapacityPlan, TrafficAssumptions, plan_capacity};
pub use demo::{DemoOptions, demo};
#[cfg(feature = "eval")]
pub use eval::{EVAL_DECAYS, EvalFormat, EvalOptions, evaluate};
pub use health::health;
pub use plans::plan;
pub use produce::{ProduceOptions, produce};
pub use reference::{ReferenceForm, configuration_markdown, metrics_reference};

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::watch;

use crate::config::{Config, ConfigErrors};
use crate::http::{self, Api, HttpLimits, Routes};
use crate::metrics::Metrics;
use crate::store::{OpenReport, ShardId, Store, StoreOptions};
use crate::workers::{Place, Placed, Readiness, Streams, Workers, WorkersOptions};
use ebb_core::Plan;
use ebb_sketch::hash::HashKey;
use listeners::Listeners;
use waiting::Waiting;

/// Runs the configured service until SIGTERM or Ctrl-C.
pub fn serve(config: Config) -> anyhow::Result<()> {
    block_on(async {
        let mut stop = std::pin::pin!(stop_signal()?);
        let service = tokio::select! {
            service = Service::start(config) => service?,
            // Nothing runs yet that would have to be ended in order.
            () = &mut stop => return Ok(()),
        };
        service.run(stop).await
    })
}

/// Finds what only the filters and sketches themselves can refuse, before anything is started.
pub fn verify(config: &Config) -> Result<(), ConfigErrors> {
    let key = HashKey::new([0; 16]);
    let refused = config.streams.iter().filter_map(|(name, stream)| {
        let error = plans::plan(stream, &config.limits, &key).err()?;
        Some((format!("streams.{name}"), format!("{error:#}")))
    });
    ConfigErrors::from_paths(refused).map_or(Ok(()), Err)
}

fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(work)
}

/// Resolves at the first SIGTERM or SIGINT.
fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("told to stop (SIGTERM)"),
            _ = interrupt.recv() => tracing::info!("told to stop (SIGINT)"),
        }
    })
}

/// A running service.
struct Service {
    config: Config,
    metrics: Metrics,
    workers: Workers,
    streams: Streams,
    listeners: Listeners,
}

impl Service {
    /// Everything is running when this returns, but shards may still be restoring.
    async fn start(config: Config) -> anyhow::Result<Self> {
        let metrics = Metrics::new();
        std::fs::create_dir_all(&config.data_dir)
            .with_context(|| format!("making the data directory {}", config.data_dir.display()))?;
        let store = open_store(&config, &metrics)?;
        let keys = secret::hash_keys(&config, &store)?;
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
                let waiting = Waiting::begin(&listeners, options.store.clone(), &metrics, http_limits(&config))?;
                topics::follow(&config, kafka, &plans, &options, &waiting).await?
            }
            None => embed(&config, plans, &options)?,
        };
        let streams = Streams::new(&workers, routes);
        Ok(Self { config, metrics, workers, streams, listeners })
    }

    fn address(&self) -> std::io::Result<SocketAddr> {
        self.listeners.address()
    }

    /// Serves until `stop` resolves, then drains and takes the last checkpoints.
    async fn run(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let Self { config, metrics, workers, streams, listeners } = self;
        let (stopping, stopped) = watch::channel(false);
        let until_stopped = || {
            let mut stopped = stopped.clone();
            async move {
                // An error means that the sender is gone, and so is the service.
                let _ = stopped.wait_for(|stopped| *stopped).await;
            }
        };
        let listener = listeners.service()?;
        let (tokens_needed, encrypted) = (listeners.tokens.is_some(), listener.tls.is_some());
        tracing::info!(address = %listeners.address()?, tokens_needed, encrypted, "listening");
        let api = Arc::new(Api::new(streams.clone(), metrics.clone(), http_limits(&config)));
        let mut servers = tokio::task::JoinSet::new();
        let (admin, tokens) = (listeners.admin()?, listeners.tokens.clone());
        drop(listeners);
        match admin {
            None => drop(servers.spawn(http::serve(listener, Routes::all(api).with_tokens(tokens), until_stopped()))),
            Some(admin) => {
                tracing::info!(address = %admin.socket.local_addr()?, "listening for probes and metrics");
                let routes = Routes::service(api.clone()).with_tokens(tokens);
                servers.spawn(http::serve(listener, routes, until_stopped()));
                servers.spawn(http::serve(admin, Routes::admin(api), until_stopped()));
            }
        }
        let reporting = tokio::spawn(report_readiness(streams.clone(), metrics.clone()));
        let every = Duration::from_millis(config.checkpoint.every.0);
        let mut failure = None;
        tokio::select! {
            () = stop => {}
            () = checkpoint_every(&workers, every) => {}
            why = workers.ended() => failure = Some(why),
            ended = servers.join_next() => anyhow::bail!("the HTTP server ended: {ended:?}"),
        }
        streams.announce_stop();
        metrics.ready.set(0);
        reporting.abort();
        stopping.send_replace(true);
        while servers.join_next().await.is_some() {}
        workers.stop().await;
        tracing::info!("stopped");
        failure.map_or(Ok(()), |why| Err(anyhow::anyhow!(why)))
    }
}

fn http_limits(config: &Config) -> HttpLimits {
    let http = &config.http;
    let ms = |duration: ebb_sketch::units::DurationMs| Duration::from_millis(duration.0);
    HttpLimits {
        max_body_bytes: http.max_body.0 as usize,
        request_timeout: ms(http.request_timeout),
        header_timeout: ms(http.header_timeout),
        idle_timeout: ms(http.idle_timeout),
        max_connections: http.max_connections as usize,
        drain: ms(http.drain),
        ..HttpLimits::default()
    }
}

fn open_store(config: &Config, metrics: &Metrics) -> anyhow::Result<Store> {
    let options = StoreOptions {
        generations: config.checkpoint.generations as usize,
        deadline: Duration::from_millis(config.checkpoint.deadline.0),
        ..StoreOptions::default()
    };
    let (store, report) = Store::open(&config.data_dir.join("store"), options)?;
    let OpenReport { quarantined, compacted_from, removed_files, orphan_chunks, lost, unreadable_slots } = report;
    if let Some(aside) = quarantined {
        metrics.store_set_aside.inc();
        tracing::error!(reason = aside.reason, kept = %aside.path.display(), "the store could not be read; began an empty one");
    }
    if let Some(bytes) = compacted_from {
        tracing::info!(bytes, now = store.disk_bytes(), "the store was written anew to free disk space");
    }
    for lost in lost {
        tracing::error!(shard = %lost.shard, from = lost.from.0, to = lost.to.0, "recorded events are lost");
    }
    if removed_files + orphan_chunks + unreadable_slots > 0 {
        tracing::warn!(removed_files, orphan_chunks, unreadable_slots, "cleaned up after a killed process");
    }
    metrics.store_bytes.set(store.disk_bytes() as i64);
    Ok(store)
}

/// Items are spread over the partitions by their number: with another number they would not be found again.
fn keep_partitions(store: &Store, stream: &str, partitions: u32) -> anyhow::Result<()> {
    let fact = format!("partitions/{stream}");
    match store.get_metadata(&fact)? {
        None => store.put_metadata(&fact, &partitions.to_be_bytes())?,
        Some(kept) => anyhow::ensure!(
            kept == partitions.to_be_bytes(),
            "streams.{stream}.partitions: is {partitions}, but the state in data_dir was made with {}; write that, or \
             begin with an empty data_dir",
            <[u8; 4]>::try_from(kept.as_slice())
                .map_or_else(|_| "another number".into(), |n| u32::from_be_bytes(n).to_string())
        ),
    }
    Ok(())
}

/// The embedded service: shards over the journal.
fn embed(
    config: &Config,
    plans: BTreeMap<String, Arc<Plan>>,
    options: &WorkersOptions,
) -> anyhow::Result<(Workers, Places)> {
    let partitions = |name: &String| config.streams[name].partitions as u32;
    let plans: BTreeMap<_, _> =
        plans.into_iter().map(|(name, plan)| (name.clone(), (plan, partitions(&name)))).collect();
    plans.iter().try_for_each(|(name, (_, partitions))| keep_partitions(&options.store, name, *partitions))?;
    let (lists, routes) = assign(plans, config.workers as usize);
    Ok((Workers::start(options, lists)?, routes))
}

type Lists = Vec<Vec<(ShardId, Arc<Plan>)>>;
type Places = BTreeMap<String, Placed>;

/// Deals the shards out to the workers, one each in turn.
fn assign(plans: BTreeMap<String, (Arc<Plan>, u32)>, workers: usize) -> (Lists, Places) {
    let shards: usize = plans.values().map(|(_, partitions)| *partitions as usize).sum();
    let mut lists: Lists = vec![Vec::new(); workers.min(shards).max(1)];
    let (mut routes, mut turn) = (Places::new(), 0);
    for (name, (plan, partitions)) in plans {
        let mut places = Vec::new();
        for partition in 0..partitions {
            let worker = turn % lists.len();
            turn += 1;
            places.push(Place { worker, shard: lists[worker].len() });
            lists[worker].push((ShardId { stream: name.clone(), partition }, plan.clone()));
        }
        routes.insert(name, Placed { plan, shards: places });
    }
    (lists, routes)
}

async fn report_readiness(streams: Streams, metrics: Metrics) {
    match streams.settled().await {
        Readiness::Ready => {
            metrics.ready.set(1);
            tracing::info!("ready");
        }
        // Partitions that came meanwhile are being restored.
        Readiness::Restoring | Readiness::Waiting(_) => tracing::info!("not ready yet"),
        readiness => tracing::error!(?readiness, "not ready"),
    }
}

async fn checkpoint_every(workers: &Workers, every: Duration) {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        workers.request_checkpoints().await;
    }
}
