//! Start positions, oversize outputs, at-least-once delivery, existing clusters and clusters of three nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

use crate::broker::process::Process;
use crate::feed::{Feed, FeedSpec};
use crate::instance::Instance;
use crate::outputs::{for_each_output, header, source};
use crate::service_fixture::{ServiceConfig, ServiceFixture};
use crate::support::{Ebb, free_address};
use crate::testbed::{TestBed, TestBedSpec, VERDICTS};
use crate::wait::TIMEOUT;
use crate::{skip_at_small_size, skip_without_kafka, skip_without_own_kafka};

#[test]
fn start_position_output_size_and_delivery_follow_the_configuration() {
    skip_without_kafka!();
    let fixture = ServiceFixture::new("modes");
    start_latest_skips_existing_records(&fixture);
    oversize_outputs_become_stubs(&fixture);
    at_least_once_loses_nothing(&fixture);
}

/// With `start: latest` records from before the first start are skipped; later ones are processed, even those that
/// arrive while the service is stopped.
fn start_latest_skips_existing_records(fixture: &ServiceFixture) {
    fixture.produce("latest", 1_000);
    let ends = [0, 1].map(|partition| fixture.admin().watermarks("latest", partition).1);
    let config = fixture.write_config(&ServiceConfig { kafka: "start: latest", ..ServiceConfig::new("latest") });
    let ebb = Ebb::start(&config, free_address(), &[]);
    // The start positions are committed before any record arrives.
    fixture.wait_until_committed("latest", 1_000);
    ebb.kill();
    fixture.produce("latest", 300);
    let ebb = Ebb::start(&config, free_address(), &[]);
    fixture.wait_until_committed("latest", 1_300);
    ebb.kill();
    let mut outputs = 0;
    for_each_output(&fixture.cluster, "latest", |_, message| {
        let (partition, offset) = source(message);
        assert!(offset >= ends[partition as usize], "{partition}/{offset} is older than the first start");
        outputs += 1;
    });
    assert_eq!(outputs, 300, "records that arrived while the service was stopped are missing or duplicated");
}

/// Inputs of every size around the output topic's limit become complete outputs or stubs, and none blocks the others.
fn oversize_outputs_become_stubs(fixture: &ServiceFixture) {
    const LIMIT: usize = 2_000;
    /// For the output's headers and its batch.
    const MARGIN: usize = 300;
    const SIZES: std::ops::Range<usize> = 1_500..2_100;
    fixture.admin().create_topic("sizes", 1, &[]);
    for verdict in VERDICTS {
        fixture.admin().create_topic(&format!("sizes.{verdict}"), 1, &[("max.message.bytes", &LIMIT.to_string())]);
    }
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", fixture.cluster.brokers()).create().expect("create a producer");
    let click = |number: usize, bytes: usize| {
        let click = format!(
            r#"{{"ip":"1.2.3.4","ad":"a","user":"{number}","campaign":"c","click_id":"{number}","cost":1,"tier":1,"ts":"#
        );
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis();
        let click = format!(r#"{click}{now},"pad":""#);
        format!("{click}{}\"}}", "x".repeat(bytes.saturating_sub(click.len() + 2)))
    };
    let sizes: Vec<usize> = SIZES.chain([150]).collect();
    let clicks: Vec<String> = sizes.iter().enumerate().map(|(number, bytes)| click(number, *bytes)).collect();
    for click in &clicks {
        producer.send(BaseRecord::<(), str>::to("sizes").payload(click)).expect("queue a record");
    }
    producer.flush(TIMEOUT).expect("write all records");
    let ebb = Ebb::start(&fixture.write_config(&ServiceConfig::new("sizes")), free_address(), &[]);
    fixture.wait_until_committed("sizes", clicks.len() as i64);
    ebb.kill();
    let (mut found, mut stubs) = (BTreeSet::new(), 0);
    for_each_output(&fixture.cluster, "sizes", |verdict, message| {
        let offset = source(message).1 as usize;
        assert!(found.insert(offset), "duplicate output of {offset}");
        match header(message, "ebb-reason").as_deref() {
            None => assert_eq!(message.payload(), Some(clicks[offset].as_bytes()), "{offset}"),
            Some("oversize") => {
                assert_eq!((verdict, message.payload()), ("rejected", None), "{offset}");
                assert_eq!(header(message, "ebb-verdict").as_deref(), Some("unique"), "{offset}");
                assert!(sizes[offset] + MARGIN > LIMIT, "a stub although {} bytes fit", sizes[offset]);
                stubs += 1;
            }
            Some(other) => panic!("{offset}: unexpected reason {other}"),
        }
    });
    println!("sizes: {stubs} of {} outputs are stubs", clicks.len());
    assert_eq!(found.len(), clicks.len(), "outputs are missing");
    assert!((100..clicks.len() - 100).contains(&stubs), "{stubs} stubs");
}

/// A crash may duplicate outputs, but loses none, and duplicates have the same verdict.
fn at_least_once_loses_nothing(fixture: &ServiceFixture) {
    const RECORDS: u64 = 30_000;
    fixture.admin().create_topic("repeat", 2, &[]);
    let config =
        fixture.write_config(&ServiceConfig { stream: "delivery: at-least-once", ..ServiceConfig::new("repeat") });
    let mut producer = fixture.start_producer("repeat", RECORDS, &["--rate", "10000"]);
    for pause in [900, 400, 700] {
        let mut ebb = Ebb::start(&config, free_address(), &[]);
        ebb.wait_ready(TIMEOUT);
        thread::sleep(Duration::from_millis(pause));
        ebb.kill();
    }
    assert!(producer.wait().expect("wait for the producer").success());
    let ebb = Ebb::start(&config, free_address(), &[]);
    fixture.wait_until_committed("repeat", RECORDS as i64);
    assert!(ebb.terminate(TIMEOUT), "the service did not stop on SIGTERM");
    let (mut verdicts, mut outputs) = (BTreeMap::new(), 0);
    for_each_output(&fixture.cluster, "repeat", |verdict, message| {
        outputs += 1;
        let first = *verdicts.entry(source(message)).or_insert(verdict);
        assert_eq!(first, verdict, "another verdict for {:?}", source(message));
    });
    println!("at least once: {outputs} outputs of {RECORDS} records after 3 kills");
    assert_eq!(verdicts.len() as u64, RECORDS, "outputs are missing");
}

/// Metadata committed with an offset in a transaction can be read by any member of the group. The recovery of torn commits
/// depends on it.
#[test]
fn metadata_of_transactionally_committed_offsets_is_readable() {
    skip_without_kafka!();
    let fixture = ServiceFixture::new("metadata");
    fixture.produce("metadata", 10);
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", fixture.cluster.brokers())
        .set("group.id", "metadata")
        .set("auto.offset.reset", "earliest");
    let consumer: BaseConsumer = config.create().expect("create a consumer");
    consumer.subscribe(&["metadata"]).expect("subscribe");
    let begun = Instant::now();
    while consumer.poll(Duration::from_millis(50)).is_none() {
        assert!(begun.elapsed() < TIMEOUT, "no record received");
    }
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", fixture.cluster.brokers()).set("transactional.id", "metadata");
    let producer: BaseProducer = config.create().expect("create a producer");
    producer.init_transactions(TIMEOUT).and_then(|()| producer.begin_transaction()).expect("begin a transaction");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("metadata", 0, Offset::Offset(1)).expect("add a partition");
    list.find_partition("metadata", 0).expect("the partition").set_metadata("http://10.0.0.1:8080");
    let group = consumer.group_metadata().expect("group metadata");
    producer.send_offsets_to_transaction(&list, &group, TIMEOUT).expect("send offsets");
    producer.commit_transaction(TIMEOUT).expect("commit");
    let mut request = TopicPartitionList::new();
    request.add_partition("metadata", 0);
    let response = consumer.committed_offsets(request, TIMEOUT).expect("read the committed offset");
    let committed = response.find_partition("metadata", 0).expect("the partition");
    assert_eq!((committed.offset(), committed.metadata()), (Offset::Offset(1), "http://10.0.0.1:8080"));
}

#[test]
fn tests_and_demo_run_on_an_existing_cluster() {
    skip_without_own_kafka!();
    let fixture = ServiceFixture::new("existing");
    let brokers = fixture.cluster.brokers();
    let mut tests = Command::new(std::env::current_exe().expect("this program"));
    tests.args(["service::delivery_modes_work_and_changed_logs_are_refused", "--exact", "--nocapture"]);
    let result = tests.env("KAFKA_BROKERS", &brokers).output().expect("run the tests");
    let output = format!("{}{}", String::from_utf8_lossy(&result.stdout), String::from_utf8_lossy(&result.stderr));
    assert!(result.status.success() && output.contains("1 passed") && !output.contains("SKIPPED"), "{output}");
    assert!(fixture.admin().length("at-least-once.unique") > 1_000, "the tests did not use this cluster");
    run_demo(&fixture);
}

/// Runs the script of `make run-kafka` with the binary under test.
fn run_demo(fixture: &ServiceFixture) {
    let (target, repository) = (fixture.directory.join("target"), Path::new(env!("CARGO_MANIFEST_DIR")));
    std::fs::create_dir_all(target.join("release")).expect("create a target directory");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ebb"), target.join("release/ebb")).expect("link the binary");
    let mut script = Command::new(repository.join("scripts/kafka/run.sh"));
    script
        .env("KAFKA_BROKERS", fixture.cluster.brokers())
        .env("CARGO_TARGET_DIR", &target)
        .env("EBB_DATA_DIR", fixture.directory.join("demo"))
        .env("EBB_HTTP__LISTEN", free_address().to_string())
        .process_group(0);
    let log = fixture.directory.join("run.log");
    let mut process = Process::start(script, &log);
    let begun = Instant::now();
    let committed = || fixture.admin().partitions("clicks").map(|_| fixture.admin().committed("ebb-demo", "clicks"));
    while committed().into_iter().flatten().flatten().sum::<i64>() < 2_000 {
        let output = std::fs::read_to_string(&log).unwrap_or_default();
        assert!(process.exit_status().is_none() && begun.elapsed() < TIMEOUT, "{output}");
        thread::sleep(Duration::from_millis(100));
    }
    // Ctrl-C signals the whole process group.
    let sent = Command::new("kill").args(["-INT", "--", &format!("-{}", process.id())]).status();
    assert!(sent.is_ok_and(|status| status.success()), "sending SIGINT failed");
    assert!(process.wait_for_exit(TIMEOUT).is_some(), "the demo did not stop on SIGINT");
    let output = std::fs::read_to_string(&log).expect("read the log");
    assert!(output.contains(&format!("kcat -b {}", fixture.cluster.brokers())), "{output}");
    assert!(fixture.admin().length("clicks.unique") > 1_000);
}

/// Each node of a cluster with replication factor 3 is killed and restarted in turn.
#[test]
fn three_node_cluster_continues_without_one_node() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    const RECORDS: u64 = 60_000;
    let mut testbed = TestBed::new(&TestBedSpec { nodes: 3, ..TestBedSpec::new("three") });
    let kafka = "  instance: {instance}\n  properties: {reconnect.backoff.max.ms: 500}";
    let mut ebb = Instance::new(&testbed, "ebb-0", kafka);
    let feed = Feed::start(&testbed, FeedSpec { per_second: Some(3_000), ..FeedSpec::new(RECORDS) });
    ebb.start(&[]);
    testbed.wait_until_committed(3_000, TIMEOUT);
    for node in 0..3 {
        testbed.cluster.nodes()[node].kill();
        testbed.wait_until_committed(testbed.committed() + 5_000, TIMEOUT);
        testbed.cluster.nodes()[node].start();
        testbed.cluster.wait_until_ready();
    }
    let records = feed.finish();
    testbed.wait_until_committed(records, TIMEOUT);
    assert!(ebb.terminate(TIMEOUT), "the service did not stop on SIGTERM");
    testbed.check().assert_clean(records);
}
