//! A broker, topics and the real binary over them, for tests that differ in how the service is configured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::broker::{Admin, Cluster, tools};

pub const VERDICTS: [&str; 4] = ["unique", "duplicate", "late", "rejected"];
pub const PATIENCE: Duration = Duration::from_secs(90);

/// One topic, its outputs, and a service over them.
pub struct Site {
    pub cluster: Cluster,
    pub folder: PathBuf,
}

/// What a configuration may differ in.
pub struct Setup {
    pub topic: &'static str,
    /// A line under `kafka:`.
    pub kafka: &'static str,
    /// A line under the stream.
    pub stream: &'static str,
    pub with_outputs: bool,
}

impl Setup {
    pub fn new(topic: &'static str) -> Self {
        Self { topic, kafka: "start: earliest", stream: "", with_outputs: true }
    }
}

impl Site {
    pub fn new(name: &str) -> Self {
        let cluster = Cluster::start(name);
        let folder = tools::root().join(name).join("files");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for the test");
        Self { cluster, folder }
    }

    pub fn admin(&self) -> Admin {
        self.cluster.admin()
    }

    pub fn produce(&self, topic: &str, count: u64, more: &[&str]) -> std::process::Child {
        let count = count.to_string();
        let arguments = ["produce", "--topic", topic, "--malformed", "0.01", "--count", &count, "--brokers"];
        Command::new(env!("CARGO_BIN_EXE_ebb"))
            .args(arguments)
            .arg(self.cluster.brokers())
            .args(more)
            .stdout(Stdio::null())
            .spawn()
            .expect("the producer starts")
    }

    pub fn config(&self, setup: &Setup) -> PathBuf {
        let Setup { topic, kafka, stream, with_outputs } = setup;
        let names: Vec<String> = VERDICTS.iter().map(|verdict| format!("{verdict}: {topic}.{verdict}")).collect();
        let output = if *with_outputs { format!("output: {{{}}}", names.join(", ")) } else { String::new() };
        let text = format!(
            "data_dir: {data}
workers: 2
checkpoint: {{every: 300ms}}
kafka:
  brokers: {brokers}
  group: {topic}
  instance: one
  commit_every: 50ms
  create_topics: {{}}
  properties: {{session.timeout.ms: 6000, heartbeat.interval.ms: 500}}
  {kafka}
streams:
  clicks:
    topic: {topic}
    event: {{item: [ip, ad, user], key: campaign, time: ts, id: click_id, value: cost, importance: tier}}
    dedup: {{window: 2m, lateness: 15s, memory: 1MiB}}
    {output}
    {stream}
",
            data = self.folder.join(topic).display(),
            brokers = self.cluster.brokers(),
        );
        let file = self.folder.join(format!("{topic}.yaml"));
        fs::write(&file, text).expect("a configuration");
        file
    }

    pub fn committed(&self, topic: &str) -> i64 {
        self.admin().committed(topic, topic).into_iter().flatten().sum()
    }

    pub fn wait_committed(&self, topic: &str, at_least: i64) {
        let begun = Instant::now();
        while self.committed(topic) < at_least {
            assert!(begun.elapsed() < PATIENCE, "{topic}: {} of {at_least} committed", self.committed(topic));
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Clicks in two partitions, all of them in the log.
    pub fn produced(&self, topic: &str, count: u64) {
        assert!(self.produce(topic, count, &["--partitions", "2"]).wait().expect("the producer").success());
    }

    pub fn check(&self, topic: &str) -> Value {
        let outputs: Value = VERDICTS.iter().map(|v| ((*v).to_owned(), json!(format!("{topic}.{v}")))).collect();
        let spec = json!({
            "brokers": self.cluster.brokers(), "group": topic, "input": topic, "outputs": outputs,
            "event": {
                "item": ["ip", "ad", "user"], "key": "campaign", "time": "ts", "id": "click_id", "value": "cost",
                "importance": "tier", "max_skew_ms": 300_000,
            },
            "dedup": {
                "window_ms": 120_000, "lateness_ms": 15_000, "block_ms": 11_250, "seen": "first", "false_rate": 0.000_5,
            },
        });
        let file = self.folder.join(format!("{topic}.json"));
        fs::write(&file, spec.to_string()).expect("the checker's task");
        let checker = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kafka/checker");
        let mut python = Command::new(tools::root().join("checker/bin/python"));
        let ran = python.arg("-B").arg("check.py").arg(&file).current_dir(checker).output().expect("python runs");
        let said = String::from_utf8_lossy(&ran.stderr);
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("the checker failed: {error}: {said}"))
    }
}

#[track_caller]
pub fn assert_clean(found: &Value, inputs: u64) {
    let counts = ["lost", "doubled", "reordered", "wrong", "holes", "open", "unfinished"];
    let line: Vec<String> = counts.iter().map(|name| format!("{name}={}", found[name])).collect();
    println!("checker: inputs={} {} verdicts={}", found["inputs"], line.join(" "), found["verdicts"]);
    assert_eq!(found["inputs"], inputs);
    assert_eq!(found["ok"], true, "{found:#}");
}
