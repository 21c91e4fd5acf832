//! The embedded service with a synthetic click stream to look at.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;

use super::{Service, block_on, stop_signal};
use crate::config::Config;
use crate::kafka::properties;
use crate::telemetry;
use crate::workers::{Readiness, Stream};
use ebb_core::{Reason, Verdict, VerdictCounts};
use ebb_traffic::{Click, Traffic, TrafficOptions};

/// What the demonstration may be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoOptions {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Synthetic clicks a second.
    pub rate: u32,
    /// Where state is kept.
    pub data_dir: PathBuf,
}

/// What the demonstration runs: what one would write for real clicks.
pub const CONFIGURATION: &str = include_str!("demo.yaml");
const STREAM: &str = "clicks";
/// How often arrived clicks are handed over.
const TURN: Duration = Duration::from_millis(20);
/// Damaged on purpose, so that rejections can be seen.
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
                other => anyhow::bail!("the shards are not ready: {other:?}"),
            }
            let stream = streams.get(STREAM).context("the demonstration has a stream of clicks")?;
            println!(
                "\n  service   http://{address}\n  metrics   http://{address}/metrics\n  readiness http://{address}/readyz\n"
            );
            feed(stream, rate, address).await
        });
        let fed = async {
            stop.await;
            feeding.abort();
        };
        service.run(fed).await?;
        println!("stopped; the last checkpoint is stored");
        Ok(())
    })
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Hands clicks over as they arrive, and tells once a second what became of them.
async fn feed(stream: &Stream, rate: u32, address: SocketAddr) -> anyhow::Result<()> {
    let options = TrafficOptions {
        start_ms: now_ms(),
        rate_per_second: f64::from(rate),
        malformed_share: MALFORMED_SHARE,
        ..TrafficOptions::default()
    };
    let mut clicks = Traffic::new(now_ms() as u64, options)?.peekable();
    let (mut counts, mut told, mut shown) = (VerdictCounts::default(), Instant::now(), false);
    let mut turns = tokio::time::interval(TURN);
    loop {
        turns.tick().await;
        let now = now_ms();
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
        if let Some(example) = example.filter(|_| !shown) {
            println!("ask whether this click was seen within the last day:\n");
            println!("  curl -s http://{address}/v1/streams/{STREAM}/decide --json '{{\"event\":{example}}}'\n");
            shown = true;
        }
        if told.elapsed() >= Duration::from_secs(1) {
            told = Instant::now();
            tell(&counts, stream).await;
        }
    }
}

async fn tell(counts: &VerdictCounts, stream: &Stream) {
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
