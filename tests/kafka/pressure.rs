//! F16: outputs are written a hundred times more slowly than inputs arrive. Memory stays bounded, the instance stays in the
//! group, and nothing is lost.

use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::instance::Instance;
use crate::log_lines::{PARTITIONS_ASSIGNED, RESUMED_FROM_COMMITTED};
use crate::outputs::{for_each_output, source};
use crate::proxy::{Api, FaultRule, RequestFault};
use crate::skip_without_own_kafka;
use crate::testbed::{INPUT, TestBed, TestBedSpec};
use crate::wait::wait_until;

const TIMEOUT: Duration = Duration::from_secs(120);
const PARTITIONS: usize = 4;
/// 570 MiB: twice what may be buffered at once.
const RECORDS: usize = 150_000;
const RECORD_BYTES: usize = 4_000;
/// Per partition 16 MiB prefetched and five batches of a thousand records, per producer a transaction of 16 MiB, and
/// allocator overhead. Measured: 267 MiB.
const MAX_GROWTH_BYTES: u64 = 330 << 20;
/// Added to every produce request.
const PRODUCE_DELAY: Duration = Duration::from_millis(400);
const SLOW_PERIOD: Duration = Duration::from_secs(12);

#[test]
fn slow_sink_keeps_memory_bounded_and_loses_neither_records_nor_membership() {
    skip_without_own_kafka!();
    let spec = TestBedSpec { partitions: PARTITIONS, with_proxy: true, ..TestBedSpec::new("pressure") };
    let testbed = TestBed::new(&spec);
    let proxy = testbed.proxy.as_ref().expect("a proxy");
    let rule = FaultRule::next(Api::PRODUCE, RequestFault::Delay(PRODUCE_DELAY));
    proxy.add_rule(FaultRule { client: "ebb-0".into(), times: u64::MAX, ..rule });
    let kafka = "  instance: {instance}
  properties: {session.timeout.ms: 6000, heartbeat.interval.ms: 500, max.poll.interval.ms: 8000}";
    let mut ebb = Instance::new(&testbed, "ebb-0", kafka);
    ebb.start(&[]);
    wait_until("the service is ready", TIMEOUT, || ebb.is_ready());
    let before = resident_bytes(&ebb);
    produce_large_clicks(&testbed);
    let (begun, mut peak) = (Instant::now(), 0);
    while begun.elapsed() < SLOW_PERIOD {
        peak = peak.max(resident_bytes(&ebb));
        assert!(ebb.is_running() && ebb.probe("/livez"), "{}", ebb.log_tail());
        thread::sleep(Duration::from_millis(100));
    }
    let processed = testbed.committed();
    assert!(processed < RECORDS as u64 / 2, "{processed} records were processed: the sink was not slow");
    proxy.clear_rules();
    wait_until("the remaining records are committed", TIMEOUT, || {
        peak = peak.max(resident_bytes(&ebb));
        testbed.committed() == RECORDS as u64
    });
    println!(
        "pressure: {} MiB of records, {processed} processed while the sink was slow; memory grew by {} MiB",
        (RECORDS * RECORD_BYTES) >> 20,
        (peak - before) >> 20
    );
    assert!(peak - before < MAX_GROWTH_BYTES, "memory grew from {before} to {peak} bytes");
    assert_eq!(ebb.log_count(PARTITIONS_ASSIGNED), 1, "the instance left the group:\n{}", ebb.log_text());
    assert_eq!(ebb.log_count(RESUMED_FROM_COMMITTED), 0, "a transaction failed:\n{}", ebb.log_text());
    assert!(ebb.terminate(TIMEOUT), "the service did not stop on SIGTERM");
    let mut found = BTreeSet::new();
    for_each_output(&testbed.cluster, INPUT, |_, message| {
        assert!(found.insert(source(message)), "duplicate output of {:?}", source(message))
    });
    assert_eq!(found.len(), RECORDS, "outputs are missing");
}

/// Resident memory of the service.
fn resident_bytes(ebb: &Instance) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", ebb.process_id().expect("a running process")))
        .expect("read the status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a VmRSS line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Produces large clicks, all with different items.
fn produce_large_clicks(testbed: &TestBed) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", testbed.cluster.brokers())
        .set("queue.buffering.max.kbytes", "65536")
        .create()
        .expect("create a producer");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis();
    let pad = "x".repeat(RECORD_BYTES - 120);
    for number in 0..RECORDS {
        let click = format!(
            r#"{{"ip":"1.2.3.4","ad":"a","user":"{number}","campaign":"c","click_id":"{number}","cost":1,"tier":1,"ts":{now},"pad":"{pad}"}}"#
        );
        let mut record = BaseRecord::<(), str>::to(INPUT).partition((number % PARTITIONS) as i32).payload(&click);
        while let Err((error, returned)) = producer.send(record) {
            assert!(matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)), "{error}");
            producer.poll(Duration::from_millis(5));
            record = returned;
        }
    }
    producer.flush(TIMEOUT).expect("write all clicks");
}
