//! A broker and the real binary for tests with several topics and service configurations.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::broker::{Admin, Cluster, tools};
use crate::checker::{CheckerSpec, Findings, run_checker};
use crate::testbed::{Delivery, LATENESS_MS, VERDICTS, WINDOW_MS};
use crate::wait::{TIMEOUT, wait_until};

/// A cluster and a directory of configurations and data.
pub struct ServiceFixture {
    pub cluster: Cluster,
    pub directory: PathBuf,
}

/// The variable part of a service configuration.
pub struct ServiceConfig {
    pub topic: &'static str,
    /// A line under `kafka:`.
    pub kafka: &'static str,
    /// A line under the stream.
    pub stream: &'static str,
    pub with_outputs: bool,
}

impl ServiceConfig {
    pub fn new(topic: &'static str) -> Self {
        Self { topic, kafka: "start: earliest", stream: "", with_outputs: true }
    }
}

impl ServiceFixture {
    pub fn new(name: &str) -> Self {
        let cluster = Cluster::start(name);
        let directory = tools::root().join(name).join("files");
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("create the test's directory");
        Self { cluster, directory }
    }

    pub fn admin(&self) -> Admin {
        self.cluster.admin()
    }

    /// Starts a producer of `count` clicks.
    pub fn start_producer(&self, topic: &str, count: u64, extra_arguments: &[&str]) -> Child {
        let count = count.to_string();
        let arguments = ["produce", "--topic", topic, "--malformed", "0.01", "--count", &count, "--brokers"];
        Command::new(env!("CARGO_BIN_EXE_ebb"))
            .args(arguments)
            .arg(self.cluster.brokers())
            .args(extra_arguments)
            .stdout(Stdio::null())
            .spawn()
            .expect("start the producer")
    }

    /// Writes a configuration file; the topic also names the group, the data directory and the outputs.
    pub fn write_config(&self, config: &ServiceConfig) -> PathBuf {
        let ServiceConfig { topic, kafka, stream, with_outputs } = config;
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
    dedup: {{window: {WINDOW_MS}ms, lateness: {LATENESS_MS}ms, memory: 1MiB}}
    {output}
    {stream}
",
            data = self.directory.join(topic).display(),
            brokers = self.cluster.brokers(),
        );
        let file = self.directory.join(format!("{topic}.yaml"));
        fs::write(&file, text).expect("write the configuration");
        file
    }

    /// The sum of the committed offsets.
    pub fn committed(&self, topic: &str) -> i64 {
        self.admin().committed(topic, topic).into_iter().flatten().sum()
    }

    #[track_caller]
    pub fn wait_until_committed(&self, topic: &str, target: i64) {
        let expectation = format!("{target} records of {topic} are committed");
        wait_until(&expectation, TIMEOUT, || self.committed(topic) >= target);
    }

    /// Produces `count` clicks to a topic with two partitions.
    pub fn produce(&self, topic: &str, count: u64) {
        let mut producer = self.start_producer(topic, count, &["--partitions", "2"]);
        assert!(producer.wait().expect("wait for the producer").success());
    }

    pub fn check(&self, topic: &str) -> Findings {
        run_checker(&CheckerSpec {
            cluster: &self.cluster,
            group: topic,
            input: topic,
            delivery: Delivery::ExactlyOnce,
            file: self.directory.join(format!("{topic}.json")),
        })
    }
}
