//! kill -9 of the real binary under HTTP load: acknowledged events are known after the restart, the store always opens, and
//! disk usage stays bounded. `EBB_KILLS` sets the number of kills.

mod support;

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ebb_sketch::random::Random;
use support::{Ebb, disk_bytes, free_address};

const STATE_BYTES: u64 = 2 * (1 << 20);
const CLIENTS: u64 = 3;
const BATCH: u64 = 4;

const CONFIG: &str = "
checkpoint: {every: 100ms}
log: {level: error}
streams:
  clicks:
    partitions: 2
    event: {item: id}
    dedup: {window: 24h, memory: 1MiB}
";

fn kills() -> u64 {
    std::env::var("EBB_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(100)
}

/// Records `count` new items from `first` on; returns whether the service acknowledged them.
fn record(ebb: &Ebb, first: u64, count: u64) -> bool {
    let events: Vec<String> = (first..first + count).map(|id| format!(r#"{{"id":{id}}}"#)).collect();
    let body = format!(r#"{{"record":true,"events":[{}]}}"#, events.join(","));
    match ebb.post("/v1/streams/clicks/decide", &body) {
        Some((200, answer)) => {
            let decisions = answer["decisions"].as_array().expect("decisions");
            assert_eq!(decisions.len() as u64, count);
            true
        }
        _ => false,
    }
}

/// The items among `ids` that the service does not call duplicate.
fn forgotten(ebb: &Ebb, ids: &[u64]) -> Vec<u64> {
    let mut missing = Vec::new();
    for part in ids.chunks(5_000) {
        let events: Vec<String> = part.iter().map(|id| format!(r#"{{"id":{id}}}"#)).collect();
        let (status, answer) = ebb
            .post("/v1/streams/clicks/decide", &format!(r#"{{"events":[{}]}}"#, events.join(",")))
            .expect("an answer");
        assert_eq!(status, 200, "{answer}");
        let decisions = answer["decisions"].as_array().expect("decisions");
        let unknown = part.iter().zip(decisions).filter(|(_, decision)| decision["verdict"] != "duplicate");
        missing.extend(unknown.map(|(id, _)| *id));
    }
    missing
}

/// Several clients record until the deadline or until the service is gone; returns the acknowledged items.
fn load(ebb: &Ebb, next: &AtomicU64, duration: Duration) -> Vec<u64> {
    let deadline = Instant::now() + duration;
    let client = || {
        let mut acknowledged = Vec::new();
        while Instant::now() < deadline {
            let first = next.fetch_add(BATCH, Ordering::Relaxed);
            if !record(ebb, first, BATCH) {
                break;
            }
            acknowledged.extend(first..first + BATCH);
        }
        acknowledged
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    })
}

#[test]
fn acknowledged_events_are_known_after_every_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("ebb.yaml");
    fs::write(&config, CONFIG).expect("a configuration");
    let data = folder.path().join("data");
    let data_dir = data.to_str().expect("a path");
    let mut random = Random::new(20_261_116);
    let (next, mut acknowledged, mut early, mut largest) = (AtomicU64::new(0), Vec::new(), 0, 0);
    let kills = kills();
    for round in 0..kills {
        let mut ebb = Ebb::start(&config, free_address(), &[("EBB_DATA_DIR", data_dir)]);
        if round % 5 == 4 {
            // Kill it while the store opens or the shards are restored.
            thread::sleep(Duration::from_millis(random.below(60)));
            early += 1;
            ebb.kill();
            continue;
        }
        ebb.wait_ready(Duration::from_secs(30));
        assert_eq!(forgotten(&ebb, &acknowledged), Vec::<u64>::new(), "after kill {round}");
        let load_duration = Duration::from_millis(20 + random.below(180));
        let kill_after = Duration::from_millis(5 + random.below(load_duration.as_millis() as u64));
        let recorded = thread::scope(|scope| {
            let loading = scope.spawn(|| load(&ebb, &next, load_duration));
            thread::sleep(kill_after);
            kill_nine(ebb.child.id());
            loading.join().expect("the load")
        });
        acknowledged.extend(recorded);
        drop(ebb);
        largest = largest.max(disk_bytes(&data));
    }
    let mut ebb = Ebb::start(&config, free_address(), &[("EBB_DATA_DIR", data_dir)]);
    ebb.wait_ready(Duration::from_secs(30));
    assert_eq!(forgotten(&ebb, &acknowledged), Vec::<u64>::new(), "at the end");
    let unknown: Vec<u64> = (1 << 40..(1 << 40) + 2_000).collect();
    assert!(forgotten(&ebb, &unknown).len() > 1_950, "unknown items must not be called duplicate");
    println!(
        "{kills} kills ({early} before the service was ready), {} events acknowledged, 0 lost; disk at most {:.1}x of {} bytes of state",
        acknowledged.len(),
        largest as f64 / STATE_BYTES as f64,
        STATE_BYTES
    );
    assert!(acknowledged.len() as u64 > kills * 10, "only {} events were acknowledged", acknowledged.len());
    // Three generations are kept, and sled needs space to rewrite segments.
    assert!(largest < 3 * 10 * STATE_BYTES, "{largest} bytes on disk");
}

fn kill_nine(id: u32) {
    let killed = std::process::Command::new("kill").args(["-9", &id.to_string()]).status().expect("kill runs");
    assert!(killed.success());
}
