//! The broker, the clicks, the service's configuration, and processes whose use of the processor is read from outside.

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
/// How often everybody commits.
pub const COMMIT_EVERY: Duration = Duration::from_millis(100);
/// Clicks a second of event time where nothing waits for the clock.
const EVENT_RATE: f64 = 10_000.0;
/// Event time begins this long ago, so that no record claims a future that the broker refuses.
const BEGAN_AGO_MS: i64 = 3_600_000;
/// Of the times in /proc, on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// See the module.
pub struct Rig {
    pub cluster: Cluster,
    pub admin: Admin,
    pub folder: PathBuf,
    pub clicks: u64,
}

/// What the service does with a topic.
#[derive(Debug, Clone)]
pub struct Service<'a> {
    /// Names its group and its data.
    pub name: &'a str,
    pub topic: &'a str,
    /// The filter of each partition.
    pub memory: &'a str,
    pub with_outputs: bool,
}

/// A number from the environment.
pub fn told(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().map_or(usual, |value| value.parse().unwrap_or_else(|_| panic!("{variable}={value}")))
}

pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_millis() as i64
}

/// The topic of a verdict.
pub fn output(topic: &str, verdict: &str) -> String {
    format!("{topic}.{verdict}")
}

impl Rig {
    pub fn new() -> Self {
        let cluster = Cluster::start("bench");
        let folder = tools::root().join("bench").join("files");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for the bench");
        let admin = cluster.admin();
        Self { cluster, admin, folder, clicks: told("EBB_BENCH_CLICKS", 2_000_000) }
    }

    /// A topic and those of its verdicts, empty.
    pub fn make_topics(&self, topic: &str, partitions: usize) {
        let verdicts = VERDICTS.map(|verdict| output(topic, verdict));
        for name in [topic].into_iter().chain(verdicts.iter().map(String::as_str)) {
            if self.admin.partitions(name).is_some() {
                self.admin.delete_topic(name);
            }
            self.admin.create_topic(name, partitions, &[("retention.ms", "-1")]);
        }
    }

    /// All clicks into the input topic.
    pub fn fill(&self) {
        self.make_topics(INPUT, PARTITIONS);
        let producer = self.producer();
        let mut bytes = 0;
        for click in clicks(now_ms() - BEGAN_AGO_MS, EVENT_RATE).take(self.clicks as usize) {
            bytes += click.json.len();
            send(&producer, INPUT, PARTITIONS, &click, click.at_ms);
        }
        producer.flush(Duration::from_secs(60)).expect("all clicks are in the log");
        println!("{} clicks of {} bytes in {PARTITIONS} partitions", self.clicks, bytes as u64 / self.clicks);
    }

    /// A producer of clicks.
    pub fn producer(&self) -> BaseProducer {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.cluster.brokers()).set("linger.ms", "5").set("log_level", "0");
        config.create().expect("a producer")
    }

    /// The service on a topic, as a command. Its data is kept from one start to the next.
    pub fn service(&self, service: &Service<'_>) -> Command {
        let Service { name, topic, memory, with_outputs } = service;
        let outputs = VERDICTS.map(|verdict| format!("{verdict}: {}", output(topic, verdict))).join(", ");
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
            data = self.folder.join(name).display(),
            port = free_ports(1)[0],
            brokers = self.cluster.brokers(),
            commit_every = COMMIT_EVERY.as_millis(),
        );
        let file = self.folder.join(format!("{name}.yaml"));
        fs::write(&file, text).expect("a configuration");
        let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
        command.arg("serve").arg(file);
        command
    }

    /// A bare loop, as a command: this program again.
    pub fn peer(&self, kind: &str, group: &str, topic: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["peer", kind, &self.cluster.brokers(), group, topic, &output(topic, VERDICTS[0])]);
        command
    }

    /// Starts a command; what it says goes to a file of its name.
    pub fn start(&self, command: Command, name: &str) -> Process {
        Process::start(command, &self.folder.join(format!("{name}.log")))
    }
}

/// The synthetic clicks, from a moment on.
pub fn clicks(start_ms: i64, rate_per_second: f64) -> Traffic {
    let options = TrafficOptions { start_ms, rate_per_second, people: 200_000, ..TrafficOptions::default() };
    Traffic::new(20_261_116, options).expect("options within bounds")
}

/// One click into the partition of its item, waiting while the producer is full.
pub fn send(producer: &BaseProducer, topic: &str, partitions: usize, click: &Click, timestamp_ms: i64) {
    let key = click.truth.id.to_be_bytes();
    let partition = (click.truth.item % partitions as u128) as i32;
    let mut record =
        BaseRecord::to(topic).partition(partition).key(&key[..]).payload(&click.json[..]).timestamp(timestamp_ms);
    while let Err((error, back)) = producer.send(record) {
        assert!(matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)), "feeding: {error}");
        producer.poll(Duration::from_millis(5));
        record = back;
    }
}

/// Processor seconds that a process has used, in all its threads.
pub fn processor_seconds(process: &Process) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap_or_default();
    // The name, in parentheses, may hold anything.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    (ticks(11) + ticks(12)) as f64 / TICKS_PER_SECOND
}
