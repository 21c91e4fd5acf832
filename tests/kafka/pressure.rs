//! F16: outputs that are written a hundred times more slowly than inputs come. Memory stays bounded, the membership is
//! kept, nothing is dropped.

use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::instance::Instance;
use crate::outputs::{each_output, source};
use crate::proxy::{Act, Api, Rule};
use crate::skip_without_own_kafka;
use crate::stage::{GROUP, INPUT, Stage, StageSpec};

const PATIENCE: Duration = Duration::from_secs(120);
const PARTITIONS: usize = 4;
/// 570 MiB: twice what may be held at once.
const RECORDS: usize = 150_000;
const RECORD_BYTES: usize = 4_000;
/// For each partition 16 MiB fetched ahead and five batches of a thousand records, for each of two producers a
/// transaction of 16 MiB, and what the allocator keeps of it: 267 MiB were seen.
const MOST_GROWTH_BYTES: u64 = 330 << 20;
/// Each write waits so long.
const DELAY: Duration = Duration::from_millis(400);
const SLOW_FOR: Duration = Duration::from_secs(12);

#[test]
fn a_slow_sink_bounds_memory_and_loses_neither_records_nor_membership() {
    skip_without_own_kafka!();
    let spec = StageSpec { partitions: PARTITIONS, with_proxy: true, ..StageSpec::new("pressure") };
    let stage = Stage::new(&spec);
    let proxy = stage.proxy.as_ref().expect("a proxy");
    proxy.add_rule(Rule { client: "ebb-0".into(), times: u64::MAX, ..Rule::next(Api::PRODUCE, Act::Delay(DELAY)) });
    let kafka = "  instance: {instance}
  properties: {session.timeout.ms: 6000, heartbeat.interval.ms: 500, max.poll.interval.ms: 8000}";
    let mut ebb = Instance::new(&stage, "ebb-0", kafka);
    ebb.start(&[]);
    wait("readiness", || ebb.probe("/readyz"));
    let before = memory_bytes(&ebb);
    fill(&stage);
    let (begun, mut most) = (Instant::now(), 0);
    while begun.elapsed() < SLOW_FOR {
        most = most.max(memory_bytes(&ebb));
        assert!(ebb.is_running() && ebb.probe("/livez"), "{}", ebb.log_tail());
        thread::sleep(Duration::from_millis(100));
    }
    let passed = committed(&stage);
    assert!(passed < RECORDS as u64 / 2, "{passed} records passed: the sink was not slow");
    proxy.clear_rules();
    wait("the rest", || {
        most = most.max(memory_bytes(&ebb));
        committed(&stage) == RECORDS as u64
    });
    let log = ebb.log_text();
    println!(
        "pressure: {} MiB of records, {passed} passed while it was slow; memory grew by {} MiB",
        (RECORDS * RECORD_BYTES) >> 20,
        (most - before) >> 20
    );
    assert!(most - before < MOST_GROWTH_BYTES, "memory grew from {before} to {most} bytes");
    assert_eq!(log.matches("partitions assigned").count(), 1, "it was thrown out of the group:\n{log}");
    assert!(!log.contains("going back"), "a transaction was given up:\n{log}");
    assert!(ebb.terminate(PATIENCE), "SIGTERM was not obeyed");
    let mut found = BTreeSet::new();
    each_output(&stage.cluster, INPUT, |_, message| {
        assert!(found.insert(source(message)), "twice: {:?}", source(message))
    });
    assert_eq!(found.len(), RECORDS, "lost");
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "no {what} after {PATIENCE:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn committed(stage: &Stage) -> u64 {
    stage.cluster.admin().committed(GROUP, INPUT).into_iter().flatten().sum::<i64>() as u64
}

/// Resident memory of the service.
fn memory_bytes(ebb: &Instance) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", ebb.id().expect("it runs"))).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Large clicks, all different.
fn fill(stage: &Stage) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", stage.cluster.brokers())
        .set("queue.buffering.max.kbytes", "65536")
        .create()
        .expect("a producer");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis();
    let pad = "x".repeat(RECORD_BYTES - 120);
    for number in 0..RECORDS {
        let click = format!(
            r#"{{"ip":"1.2.3.4","ad":"a","user":"{number}","campaign":"c","click_id":"{number}","cost":1,"tier":1,"ts":{now},"pad":"{pad}"}}"#
        );
        let mut record = BaseRecord::<(), str>::to(INPUT).partition((number % PARTITIONS) as i32).payload(&click);
        while let Err((error, back)) = producer.send(record) {
            assert!(matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)), "{error}");
            producer.poll(Duration::from_millis(5));
            record = back;
        }
    }
    producer.flush(PATIENCE).expect("all is written");
}
