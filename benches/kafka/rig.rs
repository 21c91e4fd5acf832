//! The environment of the benchmarks: broker, clicks, service configuration, and processes whose CPU time is measured.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ebb_traffic::{Click, Traffic, TrafficOptions};
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::broker::process::Process;
use crate::broker::{Admin, Cluster, free_ports, tools};

pub const INPUT: &str = "bench.clicks";
pub const PARTITIONS: usize = 4;
pub const VERDICTS: [&str; 4] = ["unique", "duplicate", "late", "rejected"];
/// Commit interval of the service and the baselines.
pub const COMMIT_EVERY: Duration = Duration::from_millis(100);
/// Clicks per second of event time when clicks are produced without pacing.
const EVENT_RATE: f64 = 10_000.0;
/// Event time starts this long ago, so that the broker accepts all timestamps.
const START_AGE_MS: i64 = 3_600_000;
/// The unit of CPU times in /proc, the same on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running cluster and a directory for configurations, data and logs.
pub struct Rig {
    pub cluster: Cluster,
    pub admin: Admin,
    pub directory: PathBuf,
    pub clicks: u64,
}

/// A configuration of the service.
#[derive(Debug, Clone)]
pub struct ServiceSpec<'a> {
    /// Names the group and the data directory.
    pub name: &'a str,
    pub topic: &'a str,
    /// The filter's memory per partition.
    pub memory: &'a str,
    pub with_outputs: bool,
}

/// A number from the environment.
pub fn env_number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{variable}={value}")))
}

pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_millis() as i64
}

/// The output topic of a verdict.
pub fn output_topic(topic: &str, verdict: &str) -> String {
    format!("{topic}.{verdict}")
}

impl Rig {
    pub fn new() -> Self {
        let cluster = Cluster::start("bench");
        let directory = tools::root().join("bench").join("files");
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("create the directory");
        let admin = cluster.admin();
        Self { cluster, admin, directory, clicks: env_number("EBB_BENCH_CLICKS", 2_000_000) }
    }

    /// Creates an input topic and its output topics, replacing existing ones.
    pub fn create_topics(&self, topic: &str, partitions: usize) {
        let verdicts = VERDICTS.map(|verdict| output_topic(topic, verdict));
        for name in [topic].into_iter().chain(verdicts.iter().map(String::as_str)) {
            if self.admin.partitions(name).is_some() {
                self.admin.delete_topic(name);
            }
            self.admin.create_topic(name, partitions, &[("retention.ms", "-1")]);
        }
    }

    /// Produces all clicks to the input topic.
    pub fn produce_clicks(&self) {
        self.create_topics(INPUT, PARTITIONS);
        let producer = self.producer();
        let mut bytes = 0;
        for click in clicks(now_ms() - START_AGE_MS, EVENT_RATE).take(self.clicks as usize) {
            bytes += click.json.len();
            send(&producer, INPUT, PARTITIONS, &click, click.at_ms);
        }
        producer.flush(Duration::from_secs(60)).expect("write all clicks");
        println!("{} clicks of {} bytes in {PARTITIONS} partitions", self.clicks, bytes as u64 / self.clicks);
    }

    pub fn producer(&self) -> BaseProducer {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.cluster.brokers()).set("linger.ms", "5").set("log_level", "0");
        config.create().expect("create a producer")
    }

    /// The command that runs the service. Its data directory survives restarts.
    pub fn service(&self, service: &ServiceSpec<'_>) -> Command {
        let ServiceSpec { name, topic, memory, with_outputs } = service;
        let outputs = VERDICTS.map(|verdict| format!("{verdict}: {}", output_topic(topic, verdict))).join(", ");
        let outputs = if *with_outputs { format!("output: {{{outputs}}}") } else { String::new() };
        let text = format!(
            "data_dir: {data}
workers: 1
log: {{level: info}}
http: {{listen: \"127.0.0.1:{port}\"}}
kafka:
  brokers: {brokers}
  group: {name}
  instance: {name}-0
  start: earliest
  commit_every: {commit_every}ms
streams:
  clicks:
    topic: {topic}
    event: {{item: [ip, ad, user], key: campaign, time: ts, id: click_id, value: cost, importance: tier}}
    dedup: {{window: 24h, memory: {memory}, seen: first}}
    {outputs}
",
            data = self.directory.join(name).display(),
            port = free_ports(1)[0],
            brokers = self.cluster.brokers(),
            commit_every = COMMIT_EVERY.as_millis(),
        );
        let file = self.directory.join(format!("{name}.yaml"));
        fs::write(&file, text).expect("write the configuration");
        let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
        command.arg("serve").arg(file);
        command
    }

    /// The command that runs a baseline: this program with other arguments.
    pub fn baseline(&self, kind: &str, group: &str, topic: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["baseline", kind, &self.cluster.brokers(), group, topic, &output_topic(topic, VERDICTS[0])]);
        command
    }

    /// Starts a command that logs to `<name>.log`.
    pub fn start(&self, command: Command, name: &str) -> Process {
        Process::start(command, &self.directory.join(format!("{name}.log")))
    }
}

/// Synthetic clicks from a point in time on.
pub fn clicks(start_ms: i64, rate_per_second: f64) -> Traffic {
    let options = TrafficOptions { start_ms, rate_per_second, people: 200_000, ..TrafficOptions::default() };
    Traffic::new(20_261_116, options).expect("options within bounds")
}

/// Sends a click to the partition of its item; blocks while the queue is full.
pub fn send(producer: &BaseProducer, topic: &str, partitions: usize, click: &Click, timestamp_ms: i64) {
    let key = click.truth.id.to_be_bytes();
    let partition = (click.truth.item % partitions as u128) as i32;
    let mut record =
        BaseRecord::to(topic).partition(partition).key(&key[..]).payload(&click.json[..]).timestamp(timestamp_ms);
    while let Err((error, returned)) = producer.send(record) {
        assert!(matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)), "feeding: {error}");
        producer.poll(Duration::from_millis(5));
        record = returned;
    }
}

/// CPU seconds used by all threads of a process.
pub fn cpu_seconds(process: &Process) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap_or_default();
    // The process name, in parentheses, may contain spaces.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    (ticks(11) + ticks(12)) as f64 / TICKS_PER_SECOND
}
