//! Modes of the service that differ in what readers may rely on: where it begins, what becomes of outputs that are too
//! large, what a crash does without transactions, and clusters that are not one node of our own.

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
use crate::check::check;
use crate::feed::{Feed, FeedSpec};
use crate::instance::Instance;
use crate::outputs::{each_output, header, source};
use crate::site::{PATIENCE, Setup, Site, VERDICTS};
use crate::stage::{GROUP, INPUT, Stage, StageSpec};
use crate::support::{Ebb, free_address};
use crate::{only_from_ci_on, skip_without_kafka, skip_without_own_kafka};

#[test]
fn starts_deliveries_and_sizes_are_what_is_configured() {
    skip_without_kafka!();
    let site = Site::new("modes");
    begins_at_the_end(&site);
    leaves_stubs(&site);
    loses_nothing_without_transactions(&site);
}

/// `start: latest`: what was there before is not processed; what comes later is, also when it comes while nobody is there.
fn begins_at_the_end(site: &Site) {
    site.produced("latest", 1_000);
    let ends = [0, 1].map(|partition| site.admin().watermarks("latest", partition).1);
    let config = site.config(&Setup { kafka: "start: latest", ..Setup::new("latest") });
    let ebb = Ebb::start(&config, free_address(), &[]);
    // The positions that it begins at are committed before anything comes.
    site.wait_committed("latest", 1_000);
    ebb.kill();
    site.produced("latest", 300);
    let ebb = Ebb::start(&config, free_address(), &[]);
    site.wait_committed("latest", 1_300);
    ebb.kill();
    let mut outputs = 0;
    each_output(&site.cluster, "latest", |_, message| {
        let (partition, offset) = source(message);
        assert!(offset >= ends[partition as usize], "{partition}/{offset} was there before");
        outputs += 1;
    });
    assert_eq!(outputs, 300, "what came while it was away is not there, or twice");
}

/// Every size around the limit of the output topic ends as a whole output or as a stub; nothing stalls.
fn leaves_stubs(site: &Site) {
    const LIMIT: usize = 2_000;
    /// What the output's headers and its batch may take of it.
    const MARGIN: usize = 300;
    const SIZES: std::ops::Range<usize> = 1_500..2_100;
    site.admin().create_topic("sizes", 1, &[]);
    for verdict in VERDICTS {
        site.admin().create_topic(&format!("sizes.{verdict}"), 1, &[("max.message.bytes", &LIMIT.to_string())]);
    }
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", site.cluster.brokers()).create().expect("a producer");
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
        producer.send(BaseRecord::<(), str>::to("sizes").payload(click)).expect("room in the queue");
    }
    producer.flush(PATIENCE).expect("all is written");
    let ebb = Ebb::start(&site.config(&Setup::new("sizes")), free_address(), &[]);
    site.wait_committed("sizes", clicks.len() as i64);
    ebb.kill();
    let (mut found, mut stubs) = (BTreeSet::new(), 0);
    each_output(&site.cluster, "sizes", |verdict, message| {
        let offset = source(message).1 as usize;
        assert!(found.insert(offset), "{offset} is there twice");
        match header(message, "ebb-reason").as_deref() {
            None => assert_eq!(message.payload(), Some(clicks[offset].as_bytes()), "{offset}"),
            Some("oversize") => {
                assert_eq!((verdict, message.payload()), ("rejected", None), "{offset}");
                assert_eq!(header(message, "ebb-verdict").as_deref(), Some("unique"), "{offset}");
                assert!(sizes[offset] + MARGIN > LIMIT, "{} bytes would have fitted", sizes[offset]);
                stubs += 1;
            }
            Some(other) => panic!("{offset} is {other}"),
        }
    });
    println!("sizes: {stubs} of {} outputs are stubs", clicks.len());
    assert_eq!(found.len(), clicks.len(), "lost");
    assert!((100..clicks.len() - 100).contains(&stubs), "{stubs} stubs");
}

/// At least once: a crash may repeat outputs, and loses none; what is repeated is the same decision.
fn loses_nothing_without_transactions(site: &Site) {
    const RECORDS: u64 = 30_000;
    site.admin().create_topic("repeat", 2, &[]);
    let config = site.config(&Setup { stream: "delivery: at-least-once", ..Setup::new("repeat") });
    let mut producer = site.produce("repeat", RECORDS, &["--rate", "10000"]);
    for pause in [900, 400, 700] {
        let mut ebb = Ebb::start(&config, free_address(), &[]);
        ebb.wait_ready(PATIENCE);
        thread::sleep(Duration::from_millis(pause));
        ebb.kill();
    }
    assert!(producer.wait().expect("the producer").success());
    let ebb = Ebb::start(&config, free_address(), &[]);
    site.wait_committed("repeat", RECORDS as i64);
    assert!(ebb.terminate(PATIENCE), "SIGTERM was not obeyed");
    let (mut verdicts, mut outputs) = (BTreeMap::new(), 0);
    each_output(&site.cluster, "repeat", |verdict, message| {
        outputs += 1;
        let first = *verdicts.entry(source(message)).or_insert(verdict);
        assert_eq!(first, verdict, "decided anew: {:?}", source(message));
    });
    println!("at least once: {outputs} outputs of {RECORDS} records after 3 kills");
    assert_eq!(verdicts.len() as u64, RECORDS, "lost");
}

/// What is said beside an offset that a transaction commits is there for every member of the group to read: that outputs
/// are counted rests on it.
#[test]
fn offsets_carry_metadata() {
    skip_without_kafka!();
    let site = Site::new("told");
    site.produced("told", 10);
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", site.cluster.brokers())
        .set("group.id", "told")
        .set("auto.offset.reset", "earliest");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    consumer.subscribe(&["told"]).expect("subscribed");
    let begun = Instant::now();
    while consumer.poll(Duration::from_millis(50)).is_none() {
        assert!(begun.elapsed() < PATIENCE, "not a member");
    }
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", site.cluster.brokers()).set("transactional.id", "told");
    let producer: BaseProducer = config.create().expect("a producer");
    producer.init_transactions(PATIENCE).and_then(|()| producer.begin_transaction()).expect("a transaction");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("told", 0, Offset::Offset(1)).expect("an offset");
    list.find_partition("told", 0).expect("the partition").set_metadata("http://10.0.0.1:8080");
    let group = consumer.group_metadata().expect("a member");
    producer.send_offsets_to_transaction(&list, &group, PATIENCE).expect("offsets");
    producer.commit_transaction(PATIENCE).expect("committed");
    let mut asked = TopicPartitionList::new();
    asked.add_partition("told", 0);
    let told = consumer.committed_offsets(asked, PATIENCE).expect("an answer");
    let told = told.find_partition("told", 0).expect("the partition");
    assert_eq!((told.offset(), told.metadata()), (Offset::Offset(1), "http://10.0.0.1:8080"));
}

/// Tests and the demonstration on a cluster that was there before.
#[test]
fn an_existing_cluster_serves_the_tests_and_the_demonstration() {
    skip_without_own_kafka!();
    let site = Site::new("existing");
    let brokers = site.cluster.brokers();
    let mut tests = Command::new(std::env::current_exe().expect("this program"));
    tests.args(["service::every_mode_serves_and_every_changed_log_is_refused", "--exact", "--nocapture"]);
    let ran = tests.env("KAFKA_BROKERS", &brokers).output().expect("the tests start");
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && said.contains("1 passed") && !said.contains("SKIPPED"), "{said}");
    assert!(site.admin().length("least.unique") > 1_000, "the tests ran elsewhere");
    demonstration(&site);
}

/// What `make run-kafka` starts, here with the binary under test.
fn demonstration(site: &Site) {
    let (target, source) = (site.folder.join("target"), Path::new(env!("CARGO_MANIFEST_DIR")));
    std::fs::create_dir_all(target.join("release")).expect("a folder");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ebb"), target.join("release/ebb")).expect("the binary");
    let mut script = Command::new(source.join("scripts/kafka/run.sh"));
    script
        .env("KAFKA_BROKERS", site.cluster.brokers())
        .env("CARGO_TARGET_DIR", &target)
        .env("EBB_DATA_DIR", site.folder.join("demonstration"))
        .env("EBB_HTTP__LISTEN", free_address().to_string())
        .process_group(0);
    let log = site.folder.join("run.log");
    let mut process = Process::start(script, &log);
    let begun = Instant::now();
    let committed = || site.admin().partitions("clicks").map(|_| site.admin().committed("ebb-demo", "clicks"));
    while committed().into_iter().flatten().flatten().sum::<i64>() < 2_000 {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        assert!(process.ended().is_none() && begun.elapsed() < PATIENCE, "{said}");
        thread::sleep(Duration::from_millis(100));
    }
    // As Ctrl-C does: to everybody.
    let told = Command::new("kill").args(["-INT", "--", &format!("-{}", process.id())]).status();
    assert!(told.is_ok_and(|status| status.success()), "the demonstration can be told to stop");
    assert!(process.wait_end(PATIENCE).is_some(), "the demonstration does not stop");
    let said = std::fs::read_to_string(&log).expect("what it said");
    assert!(said.contains(&format!("kcat -b {}", site.cluster.brokers())), "{said}");
    assert!(site.admin().length("clicks.unique") > 1_000);
}

/// Replication 3: one node dies, whatever it led, and comes back; nothing is lost, nothing doubled.
#[test]
fn three_nodes_go_on_without_one() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    const RECORDS: u64 = 60_000;
    let mut stage = Stage::new(&StageSpec { nodes: 3, ..StageSpec::new("three") });
    let kafka = "  instance: {instance}\n  properties: {reconnect.backoff.max.ms: 500}";
    let mut ebb = Instance::new(&stage, "ebb-0", kafka);
    let feed = Feed::start(&stage, FeedSpec { per_second: Some(3_000), ..FeedSpec::new(RECORDS) });
    ebb.start(&[]);
    let mut least = 3_000;
    for node in 0..3 {
        wait_committed(&stage, least);
        stage.cluster.nodes()[node].kill();
        // Goes on while the node is away.
        least = committed(&stage) + 5_000;
        wait_committed(&stage, least);
        stage.cluster.nodes()[node].start();
        stage.cluster.settle();
    }
    let records = feed.finish();
    wait_committed(&stage, records);
    assert!(ebb.terminate(PATIENCE), "SIGTERM was not obeyed");
    check(&stage).assert_clean(records);
}

fn committed(stage: &Stage) -> u64 {
    stage.cluster.admin().committed(GROUP, INPUT).into_iter().flatten().sum::<i64>() as u64
}

#[track_caller]
fn wait_committed(stage: &Stage, least: u64) {
    let begun = Instant::now();
    while committed(stage) < least {
        assert!(begun.elapsed() < PATIENCE, "{} of {least} committed", committed(stage));
        thread::sleep(Duration::from_millis(50));
    }
}
