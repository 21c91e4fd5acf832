//! The service end to end on a real broker: killed, restarted, asked, and shown logs that are not what they were.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ebb::random::Random;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::broker::{Admin, Cluster, tools};
use crate::skip_without_kafka;
use crate::support::{Ebb, free_address};

const VERDICTS: [&str; 4] = ["unique", "duplicate", "late", "rejected"];
const PATIENCE: Duration = Duration::from_secs(90);

/// One topic, its outputs, and a service over them.
struct Stage {
    cluster: Cluster,
    folder: PathBuf,
}

/// What a configuration may differ in.
struct Setup {
    topic: &'static str,
    kafka: &'static str,
    stream: &'static str,
    with_outputs: bool,
}

impl Setup {
    fn new(topic: &'static str) -> Self {
        Self { topic, kafka: "start: earliest", stream: "", with_outputs: true }
    }
}

impl Stage {
    fn new(name: &str) -> Self {
        let cluster = Cluster::start(name);
        let folder = tools::root().join(name).join("files");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for the test");
        Self { cluster, folder }
    }

    fn admin(&self) -> Admin {
        self.cluster.admin()
    }

    fn produce(&self, topic: &str, count: u64, more: &[&str]) -> std::process::Child {
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

    fn config(&self, setup: &Setup) -> PathBuf {
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

    fn committed(&self, topic: &str) -> i64 {
        self.admin().committed(topic, topic).into_iter().flatten().sum()
    }

    fn wait_committed(&self, topic: &str, at_least: i64) {
        let begun = Instant::now();
        while self.committed(topic) < at_least {
            assert!(begun.elapsed() < PATIENCE, "{topic}: {} of {at_least} committed", self.committed(topic));
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn check(&self, topic: &str) -> Value {
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
fn assert_clean(found: &Value, inputs: u64) {
    let counts = ["lost", "doubled", "reordered", "wrong", "holes", "open", "unfinished"];
    let line: Vec<String> = counts.iter().map(|name| format!("{name}={}", found[name])).collect();
    println!("checker: inputs={} {} verdicts={}", found["inputs"], line.join(" "), found["verdicts"]);
    assert_eq!(found["inputs"], inputs);
    assert_eq!(found["ok"], true, "{found:#}");
}

#[test]
fn kills_lose_nothing_and_double_nothing() {
    skip_without_kafka!();
    const RECORDS: u64 = 50_000;
    let kills: u64 = std::env::var("EBB_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(8);
    let stage = Stage::new("service-kills");
    stage.admin().create_topic("kills", 4, &[("retention.ms", "-1")]);
    let config = stage.config(&Setup::new("kills"));
    let mut producer = stage.produce("kills", RECORDS, &["--rate", "10000"]);
    let (mut random, mut killed) = (Random::new(5), 0);
    while killed < kills {
        let mut ebb = Ebb::start(&config, free_address(), &[]);
        if killed % 3 == 0 {
            ebb.wait_ready(PATIENCE);
        }
        thread::sleep(Duration::from_millis(random.below(1_200)));
        ebb.kill();
        killed += 1;
    }
    assert!(producer.wait().expect("the producer").success());
    let _ebb = Ebb::start(&config, free_address(), &[]);
    stage.wait_committed("kills", RECORDS as i64);
    let found = stage.check("kills");
    println!("kills: {killed}");
    assert_clean(&found, RECORDS);
    assert!(
        found["verdicts"]["duplicate"].as_u64() > Some(1_000) && found["verdicts"]["rejected"].as_u64() > Some(100)
    );
}

#[test]
fn every_mode_serves_and_every_changed_log_is_refused() {
    skip_without_kafka!();
    let stage = Stage::new("service-modes");
    at_least_once(&stage);
    without_outputs(&stage);
    without_an_offset(&stage);
    made_anew(&stage);
    retention(&stage);
    more_partitions(&stage);
}

fn produced(stage: &Stage, topic: &str, count: u64) {
    assert!(stage.produce(topic, count, &["--partitions", "2"]).wait().expect("the producer").success());
}

/// Without a crash at-least-once is exact; an output that its topic does not take whole leaves a stub.
fn at_least_once(stage: &Stage) {
    produced(stage, "least", 3_000);
    let setup = Setup { stream: "delivery: at-least-once", ..Setup::new("least") };
    let ebb = Ebb::start(&stage.config(&setup), free_address(), &[]);
    stage.wait_committed("least", 3_000);
    ebb.kill();
    assert_clean(&stage.check("least"), 3_000);
}

/// Queries only; and what is recorded over HTTP goes through the topic.
fn without_outputs(stage: &Stage) {
    produced(stage, "quiet", 2_000);
    let setup = Setup { with_outputs: false, ..Setup::new("quiet") };
    let config = stage.config(&setup);
    let mut ebb = Ebb::start(&config, free_address(), &[]);
    stage.wait_committed("quiet", 2_000);
    ebb.wait_ready(PATIENCE);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis();
    let event =
        format!(r#"{{"ip":"1.2.3.4","ad":"a","user":"u","campaign":"c","ts":{now},"click_id":"x","cost":1,"tier":1}}"#);
    let path = "/v1/streams/clicks/decide";
    let (status, first) = ebb.post(path, &format!(r#"{{"record":true,"event":{event}}}"#)).expect("an answer");
    assert_eq!((status, &first["verdict"]), (200, &json!("unique")), "{first}");
    let (partition, offset) = (first["as_of"]["partition"].clone(), first["offset"].clone());
    assert!(offset.as_u64() >= Some(500), "{first}");
    let (_, again) = ebb.post(path, &format!(r#"{{"record":true,"event":{event}}}"#)).expect("an answer");
    assert_eq!(again["verdict"], "duplicate", "{again}");
    assert_eq!(again["offset"].as_u64(), offset.as_u64().map(|offset| offset + 1), "{again}");
    let (_, asked) = ebb
        .post(path, &format!(r#"{{"event":{event},"partition":{partition},"at_least":{offset}}}"#))
        .expect("an answer");
    assert_eq!(asked["verdict"], "duplicate", "{asked}");
    let (_, anywhere) = ebb.post(path, &format!(r#"{{"event":{event}}}"#)).expect("an answer");
    assert_eq!(anywhere["verdict"], "duplicate", "{anywhere}");
    let (status, none) = ebb.post(path, &format!(r#"{{"event":{event},"partition":2}}"#)).expect("an answer");
    assert_eq!(status, 422, "{none}");
    assert_eq!(stage.admin().length("quiet"), 2_002, "not in the topic");
    ebb.kill();
    let mut ebb = Ebb::start(&config, free_address(), &[]);
    ebb.wait_ready(PATIENCE);
    let (_, after) = ebb.post(path, &format!(r#"{{"event":{event}}}"#)).expect("an answer");
    assert_eq!(after["verdict"], "duplicate", "forgotten after a kill: {after}");
}

/// The detail that /readyz gives once it has one.
#[track_caller]
fn refusal(ebb: &Ebb) -> String {
    let begun = Instant::now();
    loop {
        if let Some((503, body)) = ebb.get("/readyz")
            && let Ok(problem) = serde_json::from_str::<Value>(&body)
            && problem["type"] == "/problems/restore-failed"
        {
            return problem["detail"].as_str().expect("a detail").to_owned();
        }
        assert!(begun.elapsed() < PATIENCE, "nothing was refused");
        thread::sleep(Duration::from_millis(20));
    }
}

fn without_an_offset(stage: &Stage) {
    produced(stage, "unknown", 100);
    let setup = Setup { kafka: "start: error", ..Setup::new("unknown") };
    let ebb = Ebb::start(&stage.config(&setup), free_address(), &[]);
    let told = refusal(&ebb);
    assert!(told.contains("kafka.start"), "{told}");
    assert_eq!(stage.committed("unknown"), 0);
    assert_eq!(ebb.get("/livez").map(|(status, _)| status), Some(200));
}

/// Folds `count` records of a new topic and stops in order.
fn fold(stage: &Stage, topic: &'static str, count: u64) -> PathBuf {
    produced(stage, topic, count);
    let config = stage.config(&Setup::new(topic));
    let ebb = Ebb::start(&config, free_address(), &[]);
    stage.wait_committed(topic, count as i64);
    assert!(ebb.terminate(PATIENCE), "SIGTERM was not obeyed");
    config
}

/// Gives a group the same offset in both partitions of its topic.
fn commit(stage: &Stage, topic: &str, offset: i64) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", stage.cluster.brokers())
        .set("group.id", topic)
        .create()
        .expect("a consumer");
    let mut list = TopicPartitionList::new();
    for partition in 0..2 {
        list.add_partition_offset(topic, partition, Offset::Offset(offset)).expect("an offset");
    }
    // The static member of the killed service is still in the group until its session ends.
    let begun = Instant::now();
    while let Err(error) = consumer.commit(&list, CommitMode::Sync) {
        assert!(begun.elapsed() < PATIENCE, "{error}");
        thread::sleep(Duration::from_millis(200));
    }
}

fn made_anew(stage: &Stage) {
    let config = fold(stage, "anew", 1_000);
    stage.admin().delete_topic("anew");
    stage.admin().create_topic("anew", 2, &[]);
    produced(stage, "anew", 10);
    let ebb = Ebb::start(&config, free_address(), &[]);
    let told = refusal(&ebb);
    assert!(told.contains("made anew"), "{told}");
    ebb.kill();
    assert_eq!(stage.committed("anew"), 0, "offsets were committed");
    // With offsets that somebody gave the group again, only the records tell that it is another log.
    assert!(stage.produce("anew", 3_000, &["--seed", "9"]).wait().expect("the producer").success());
    commit(stage, "anew", 700);
    let ebb = Ebb::start(&config, free_address(), &[]);
    let told = refusal(&ebb);
    assert!(told.contains("is not the one that was folded last"), "{told}");
    assert_eq!(stage.committed("anew"), 1_400, "offsets were committed");
}

fn retention(stage: &Stage) {
    let config = fold(stage, "short", 1_000);
    produced(stage, "short", 1_000);
    let (_, end) = stage.admin().watermarks("short", 0);
    stage.admin().delete_records("short", 0, end - 10);
    let ebb = Ebb::start(&config, free_address(), &[]);
    let told = refusal(&ebb);
    assert!(told.contains("retention removed the records"), "{told}");
}

fn more_partitions(stage: &Stage) {
    let config = fold(stage, "wider", 500);
    stage.admin().add_partitions("wider", 3);
    let ran = Command::new(env!("CARGO_BIN_EXE_ebb")).arg("serve").arg(&config).output().expect("the binary runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("partitions were added"), "{said}");
}
