//! `ebb demo`: the embedded service with a synthetic click stream.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::clock::unix_time_ms;
use super::service::Service;
use super::{block_on, stop_signal};
use crate::config::Config;
use crate::kafka::properties;
use crate::telemetry;
use crate::workers::{Readiness, Stream};
use ebb_core::{Reason, Verdict, VerdictCounts};
use ebb_traffic::{Click, Traffic, TrafficOptions};

/// Options of `ebb demo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoOptions {
    /// The address of the HTTP server.
    pub listen: SocketAddr,
    /// Synthetic clicks per second.
    pub rate: u32,
    /// The directory of the store.
    pub data_dir: PathBuf,
}

/// The configuration of the demo, as it would be for real clicks.
pub const CONFIGURATION: &str = include_str!("demo.yaml");
const STREAM: &str = "clicks";
/// Interval between batches of clicks.
const BATCH_INTERVAL: Duration = Duration::from_millis(20);
/// Share of damaged clicks, so that the demo shows rejected events.
const MALFORMED_SHARE: f64 = 0.001;

/// Runs the embedded service with a synthetic click stream until SIGTERM or Ctrl-C.
pub fn demo(options: DemoOptions) -> anyhow::Result<()> {
    let mut config = Config::parse(CONFIGURATION, [], properties::check)?;
    config.http.listen = options.listen;
    config.hash_key_file = options.data_dir.join("hash.key");
    config.data_dir = options.data_dir;
    telemetry::start(&config.log)?;
    block_on(async {
        let service = Service::start(config).await?;
        let stop = stop_signal()?;
        let address = service.address()?;
        let streams = service.streams.clone();
        let rate = options.rate;
        let feeding = tokio::spawn(async move {
            match streams.settled().await {
                Readiness::Ready => {}
                other => anyhow::bail!("the shards did not become ready: {other:?}"),
            }
            let stream = streams.get(STREAM).context("the demo has no stream of clicks")?;
            println!(
                "\n  service   http://{address}\n  metrics   http://{address}/metrics\n  readiness http://{address}/readyz\n"
            );
            feed(stream, rate, address).await
        });
        let stop_feeding = async {
            stop.await;
            feeding.abort();
        };
        service.run(stop_feeding).await?;
        println!("stopped, the last checkpoint is stored");
        Ok(())
    })
}

/// Submits clicks as they become due, and prints the counts once per second.
async fn feed(stream: &Stream, rate: u32, address: SocketAddr) -> anyhow::Result<()> {
    let options = TrafficOptions {
        start_ms: unix_time_ms(),
        rate_per_second: f64::from(rate),
        malformed_share: MALFORMED_SHARE,
        ..TrafficOptions::default()
    };
    let mut clicks = Traffic::new(unix_time_ms() as u64, options)?.peekable();
    let (mut counts, mut printed_at, mut is_example_printed) = (VerdictCounts::default(), Instant::now(), false);
    let mut ticks = tokio::time::interval(BATCH_INTERVAL);
    loop {
        ticks.tick().await;
        let now = unix_time_ms();
        let mut submissions = Vec::new();
        while let Some(Click { json, .. }) = clicks.next_if(|click| click.at_ms <= now) {
            match stream.submission(json) {
                Ok(submission) => submissions.push(submission),
                Err(reason) => counts.add(Verdict::Rejected(reason)),
            }
        }
        let example = submissions.first().map(|submission| String::from_utf8_lossy(&submission.payload).into_owned());
        if submissions.is_empty() {
            continue;
        }
        for recorded in stream.record(submissions).await? {
            counts.add(recorded.outcome.verdict);
        }
        if let Some(example) = example.filter(|_| !is_example_printed) {
            println!("was this click seen within the last day?\n");
            println!("  curl -s http://{address}/v1/streams/{STREAM}/decide --json '{{\"event\":{example}}}'\n");
            is_example_printed = true;
        }
        if printed_at.elapsed() >= Duration::from_secs(1) {
            printed_at = Instant::now();
            print_counts(&counts, stream).await;
        }
    }
}

async fn print_counts(counts: &VerdictCounts, stream: &Stream) {
    let rejected: u64 = Reason::ALL.into_iter().map(|reason| counts.rejected(reason)).sum();
    let Ok(shards) = stream.status().await else { return };
    let mean = |figure: fn(&crate::workers::PartitionStatus) -> f64| {
        shards.iter().map(figure).sum::<f64>() / shards.len() as f64
    };
    println!(
        "clicks {:>9}   unique {:>9}   duplicate {:>8}   late {:>6}   rejected {:>5}   filter {:.2}% full, {:.1e} false duplicates",
        counts.total(),
        counts.unique,
        counts.duplicate,
        counts.late,
        rejected,
        100.0 * mean(|shard| shard.status.fill),
        mean(|shard| shard.status.false_duplicate_rate),
    );
}
