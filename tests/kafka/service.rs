//! The service end to end on a real broker: killed, restarted, asked, and shown logs that are not what they were.

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use ebb_sketch::random::Random;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::site::{PATIENCE, Setup, Site, assert_clean};
use crate::skip_without_kafka;
use crate::support::{Ebb, free_address};

#[test]
fn kills_lose_nothing_and_double_nothing() {
    skip_without_kafka!();
    const RECORDS: u64 = 50_000;
    let kills: u64 = std::env::var("EBB_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(8);
    let site = Site::new("service-kills");
    site.admin().create_topic("kills", 4, &[("retention.ms", "-1")]);
    let config = site.config(&Setup::new("kills"));
    let mut producer = site.produce("kills", RECORDS, &["--rate", "10000"]);
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
    site.wait_committed("kills", RECORDS as i64);
    let found = site.check("kills");
    println!("kills: {killed}");
    assert_clean(&found, RECORDS);
    assert!(
        found["verdicts"]["duplicate"].as_u64() > Some(1_000) && found["verdicts"]["rejected"].as_u64() > Some(100)
    );
}

#[test]
fn every_mode_serves_and_every_changed_log_is_refused() {
    skip_without_kafka!();
    let site = Site::new("service-modes");
    at_least_once(&site);
    without_outputs(&site);
    without_an_offset(&site);
    made_anew(&site);
    retention(&site);
    more_partitions(&site);
}

/// Without a crash at-least-once is exact; an output that its topic does not take whole leaves a stub.
fn at_least_once(site: &Site) {
    site.produced("least", 3_000);
    let setup = Setup { stream: "delivery: at-least-once", ..Setup::new("least") };
    let ebb = Ebb::start(&site.config(&setup), free_address(), &[]);
    site.wait_committed("least", 3_000);
    ebb.kill();
    assert_clean(&site.check("least"), 3_000);
}

/// Queries only; and what is recorded over HTTP goes through the topic.
fn without_outputs(site: &Site) {
    site.produced("quiet", 2_000);
    let setup = Setup { with_outputs: false, ..Setup::new("quiet") };
    let config = site.config(&setup);
    let mut ebb = Ebb::start(&config, free_address(), &[]);
    site.wait_committed("quiet", 2_000);
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
    assert_eq!(status, 404, "{none}");
    assert_eq!(site.admin().length("quiet"), 2_002, "not in the topic");
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

fn without_an_offset(site: &Site) {
    site.produced("unknown", 100);
    let setup = Setup { kafka: "start: error", ..Setup::new("unknown") };
    let ebb = Ebb::start(&site.config(&setup), free_address(), &[]);
    let told = refusal(&ebb);
    assert!(told.contains("kafka.start"), "{told}");
    assert_eq!(site.committed("unknown"), 0);
    assert_eq!(ebb.get("/livez").map(|(status, _)| status), Some(200));
}

/// Folds `count` records of a new topic and stops in order.
fn fold(site: &Site, topic: &'static str, count: u64) -> PathBuf {
    site.produced(topic, count);
    let config = site.config(&Setup::new(topic));
    let ebb = Ebb::start(&config, free_address(), &[]);
    site.wait_committed(topic, count as i64);
    assert!(ebb.terminate(PATIENCE), "SIGTERM was not obeyed");
    config
}

/// Gives a group the same offset in both partitions of its topic.
fn commit(site: &Site, topic: &str, offset: i64) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", site.cluster.brokers())
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

fn made_anew(site: &Site) {
    let config = fold(site, "anew", 1_000);
    site.admin().delete_topic("anew");
    site.admin().create_topic("anew", 2, &[]);
    site.produced("anew", 10);
    let ebb = Ebb::start(&config, free_address(), &[]);
    let told = refusal(&ebb);
    assert!(told.contains("made anew"), "{told}");
    ebb.kill();
    assert_eq!(site.committed("anew"), 0, "offsets were committed");
    // With offsets that somebody gave the group again, only the records tell that it is another log.
    assert!(site.produce("anew", 3_000, &["--seed", "9"]).wait().expect("the producer").success());
    commit(site, "anew", 700);
    let ebb = Ebb::start(&config, free_address(), &[]);
    let told = refusal(&ebb);
    assert!(told.contains("is not the one that was folded last"), "{told}");
    assert_eq!(site.committed("anew"), 1_400, "offsets were committed");
}

fn retention(site: &Site) {
    let config = fold(site, "short", 1_000);
    site.produced("short", 1_000);
    let (_, end) = site.admin().watermarks("short", 0);
    site.admin().delete_records("short", 0, end - 10);
    let ebb = Ebb::start(&config, free_address(), &[]);
    let told = refusal(&ebb);
    assert!(told.contains("retention removed the records"), "{told}");
}

fn more_partitions(site: &Site) {
    let config = fold(site, "wider", 500);
    site.admin().add_partitions("wider", 3);
    let ran = Command::new(env!("CARGO_BIN_EXE_ebb")).arg("serve").arg(&config).output().expect("the binary runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("partitions were added"), "{said}");
}
