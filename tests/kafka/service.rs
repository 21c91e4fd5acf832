//! The service end to end on a real broker: kills and restarts, delivery modes, HTTP, and logs that changed while the
//! service was stopped.

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use ebb_sketch::random::Random;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::log_lines::{LAST_RECORD_DIFFERS, PARTITIONS_ADDED, RETENTION_REMOVED_RECORDS, TOPIC_RECREATED};
use crate::service_fixture::{ServiceConfig, ServiceFixture};
use crate::skip_without_kafka;
use crate::support::{Ebb, free_address};
use crate::wait::{TIMEOUT, wait_until};

const DECIDE: &str = "/v1/streams/clicks/decide";

#[test]
fn kills_neither_lose_nor_duplicate_outputs() {
    skip_without_kafka!();
    const RECORDS: u64 = 50_000;
    let kills: u64 = std::env::var("EBB_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(8);
    let fixture = ServiceFixture::new("service-kills");
    fixture.admin().create_topic("kills", 4, &[("retention.ms", "-1")]);
    let config = fixture.write_config(&ServiceConfig::new("kills"));
    let mut producer = fixture.start_producer("kills", RECORDS, &["--rate", "10000"]);
    let mut random = Random::new(5);
    for number in 0..kills {
        let mut ebb = Ebb::start(&config, free_address(), &[]);
        if number % 3 == 0 {
            ebb.wait_ready(TIMEOUT);
        }
        thread::sleep(Duration::from_millis(random.below(1_200)));
        ebb.kill();
    }
    assert!(producer.wait().expect("wait for the producer").success());
    let _ebb = Ebb::start(&config, free_address(), &[]);
    fixture.wait_until_committed("kills", RECORDS as i64);
    let findings = fixture.check("kills");
    println!("kills: {kills}");
    findings.assert_clean(RECORDS);
    assert!(findings.verdicts("duplicate") > 1_000 && findings.verdicts("rejected") > 100, "{}", findings.summary());
}

#[test]
fn delivery_modes_work_and_changed_logs_are_refused() {
    skip_without_kafka!();
    let fixture = ServiceFixture::new("service-modes");
    at_least_once_is_exact_without_a_crash(&fixture);
    recorded_events_go_through_the_topic(&fixture);
    missing_offset_is_refused(&fixture);
    recreated_topic_is_refused(&fixture);
    deleted_records_are_refused(&fixture);
    added_partitions_end_the_service(&fixture);
}

fn at_least_once_is_exact_without_a_crash(fixture: &ServiceFixture) {
    fixture.produce("at-least-once", 3_000);
    let config = ServiceConfig { stream: "delivery: at-least-once", ..ServiceConfig::new("at-least-once") };
    let ebb = Ebb::start(&fixture.write_config(&config), free_address(), &[]);
    fixture.wait_until_committed("at-least-once", 3_000);
    ebb.kill();
    fixture.check("at-least-once").assert_clean(3_000);
}

/// A service without outputs answers questions, and an event recorded over HTTP becomes a record of the topic.
fn recorded_events_go_through_the_topic(fixture: &ServiceFixture) {
    fixture.produce("no-outputs", 2_000);
    let config = fixture.write_config(&ServiceConfig { with_outputs: false, ..ServiceConfig::new("no-outputs") });
    let mut ebb = Ebb::start(&config, free_address(), &[]);
    fixture.wait_until_committed("no-outputs", 2_000);
    ebb.wait_ready(TIMEOUT);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis();
    let event =
        format!(r#"{{"ip":"1.2.3.4","ad":"a","user":"u","campaign":"c","ts":{now},"click_id":"x","cost":1,"tier":1}}"#);
    let decide = |ebb: &Ebb, fields: &str| {
        ebb.post(DECIDE, &format!(r#"{{{fields}"event":{event}}}"#)).expect("receive a response")
    };
    let (status, first) = decide(&ebb, r#""record":true,"#);
    assert_eq!((status, &first["verdict"]), (200, &json!("unique")), "{first}");
    let (partition, offset) = (first["as_of"]["partition"].clone(), first["offset"].clone());
    assert!(offset.as_u64() >= Some(500), "{first}");
    let (_, second) = decide(&ebb, r#""record":true,"#);
    assert_eq!(second["verdict"], "duplicate", "{second}");
    assert_eq!(second["offset"].as_u64(), offset.as_u64().map(|offset| offset + 1), "{second}");
    let (_, at_least) = decide(&ebb, &format!(r#""partition":{partition},"at_least":{offset},"#));
    assert_eq!(at_least["verdict"], "duplicate", "{at_least}");
    let (_, anywhere) = decide(&ebb, "");
    assert_eq!(anywhere["verdict"], "duplicate", "{anywhere}");
    let (status, unknown_partition) = decide(&ebb, r#""partition":2,"#);
    assert_eq!(status, 404, "{unknown_partition}");
    assert_eq!(fixture.admin().length("no-outputs"), 2_002, "the events are not in the topic");
    ebb.kill();
    let mut ebb = Ebb::start(&config, free_address(), &[]);
    ebb.wait_ready(TIMEOUT);
    let (_, after_kill) = decide(&ebb, "");
    assert_eq!(after_kill["verdict"], "duplicate", "forgotten after a kill: {after_kill}");
}

/// Waits for a refused partition and returns the detail that /readyz reports.
#[track_caller]
fn wait_for_refusal(ebb: &Ebb) -> String {
    let mut detail = None;
    wait_until("a partition is refused", TIMEOUT, || {
        if let Some((503, body)) = ebb.get("/readyz")
            && let Ok(problem) = serde_json::from_str::<Value>(&body)
            && problem["type"] == "/problems/restore-failed"
        {
            detail = problem["detail"].as_str().map(str::to_owned);
        }
        detail.is_some()
    });
    detail.expect("a detail")
}

fn missing_offset_is_refused(fixture: &ServiceFixture) {
    fixture.produce("no-offset", 100);
    let config = ServiceConfig { kafka: "start: error", ..ServiceConfig::new("no-offset") };
    let ebb = Ebb::start(&fixture.write_config(&config), free_address(), &[]);
    let refusal = wait_for_refusal(&ebb);
    assert!(refusal.contains("kafka.start"), "{refusal}");
    assert_eq!(fixture.committed("no-offset"), 0);
    assert_eq!(ebb.get("/livez").map(|(status, _)| status), Some(200));
}

/// Processes `count` records of a new topic and stops gracefully; returns the configuration.
fn process(fixture: &ServiceFixture, topic: &'static str, count: u64) -> PathBuf {
    fixture.produce(topic, count);
    let config = fixture.write_config(&ServiceConfig::new(topic));
    let ebb = Ebb::start(&config, free_address(), &[]);
    fixture.wait_until_committed(topic, count as i64);
    assert!(ebb.terminate(TIMEOUT), "the service did not stop on SIGTERM");
    config
}

/// Commits the same offset in both partitions for the group that is named like the topic.
fn commit_offset(fixture: &ServiceFixture, topic: &str, offset: i64) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", fixture.cluster.brokers())
        .set("group.id", topic)
        .create()
        .expect("create a consumer");
    let mut list = TopicPartitionList::new();
    for partition in 0..2 {
        list.add_partition_offset(topic, partition, Offset::Offset(offset)).expect("add a partition");
    }
    // The broker rejects the commit until the session of the killed static member has expired.
    let begun = Instant::now();
    while let Err(error) = consumer.commit(&list, CommitMode::Sync) {
        assert!(begun.elapsed() < TIMEOUT, "{error}");
        thread::sleep(Duration::from_millis(200));
    }
}

fn recreated_topic_is_refused(fixture: &ServiceFixture) {
    let config = process(fixture, "recreated", 1_000);
    fixture.admin().delete_topic("recreated");
    fixture.admin().create_topic("recreated", 2, &[]);
    fixture.produce("recreated", 10);
    let ebb = Ebb::start(&config, free_address(), &[]);
    let refusal = wait_for_refusal(&ebb);
    assert!(refusal.contains(TOPIC_RECREATED), "{refusal}");
    ebb.kill();
    assert_eq!(fixture.committed("recreated"), 0, "offsets were committed");
    // If the group has plausible offsets again, only the records show that the log is a different one.
    let mut producer = fixture.start_producer("recreated", 3_000, &["--seed", "9"]);
    assert!(producer.wait().expect("wait for the producer").success());
    commit_offset(fixture, "recreated", 700);
    let ebb = Ebb::start(&config, free_address(), &[]);
    let refusal = wait_for_refusal(&ebb);
    assert!(refusal.contains(LAST_RECORD_DIFFERS), "{refusal}");
    assert_eq!(fixture.committed("recreated"), 1_400, "offsets were committed");
}

fn deleted_records_are_refused(fixture: &ServiceFixture) {
    let config = process(fixture, "deleted-records", 1_000);
    fixture.produce("deleted-records", 1_000);
    let (_, end) = fixture.admin().watermarks("deleted-records", 0);
    fixture.admin().delete_records("deleted-records", 0, end - 10);
    let ebb = Ebb::start(&config, free_address(), &[]);
    let refusal = wait_for_refusal(&ebb);
    assert!(refusal.contains(RETENTION_REMOVED_RECORDS), "{refusal}");
}

fn added_partitions_end_the_service(fixture: &ServiceFixture) {
    let config = process(fixture, "added-partitions", 500);
    fixture.admin().add_partitions("added-partitions", 3);
    let output = Command::new(env!("CARGO_BIN_EXE_ebb")).arg("serve").arg(&config).output().expect("run the service");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(PARTITIONS_ADDED), "{stderr}");
}
