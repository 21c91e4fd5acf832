//! F17: instances lose their data directory and restore from the snapshot topic, which contains incomplete snapshots,
//! foreign records and open transactions, and is compacted.

use std::fs;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::{ChaosSize, Scenario, ScenarioSpec};
use crate::{skip_at_small_size, skip_without_own_kafka};

const TOPIC: &str = "ebb-snapshots";
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// `kafka:` lines of static members with the snapshot topic.
pub const WITH_SNAPSHOTS: &str = "  instance: {instance}\n  snapshots: {topic: ebb-snapshots, every: 1s}\n  properties: {session.timeout.ms: 6000, \
                         heartbeat.interval.ms: 500, reconnect.backoff.max.ms: 500}";
/// Compacts as often as the broker can.
const COMPACTED: [(&str, &str); 4] = [
    ("cleanup.policy", "compact"),
    ("min.cleanable.dirty.ratio", "0.01"),
    ("segment.ms", "1000"),
    ("max.compaction.lag.ms", "1000"),
];

/// Creates the snapshot topic of [`WITH_SNAPSHOTS`].
pub fn create_topic(scenario: &Scenario) {
    scenario.testbed.cluster.admin().create_topic(TOPIC, scenario.testbed.partitions, &COMPACTED);
}

/// Writes unreadable records under the keys of snapshots, in a transaction that stays open.
fn write_garbage(scenario: &Scenario, transactional_id: &str) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", scenario.testbed.cluster.brokers()).set("transactional.id", transactional_id);
    let producer: BaseProducer = config.create().expect("create a producer");
    producer.init_transactions(CALL_TIMEOUT).and_then(|()| producer.begin_transaction()).expect("begin a transaction");
    for partition in 0..scenario.testbed.partitions as i32 {
        for suffix in ["0", "1", "manifest"] {
            let key = format!("clicks/{partition}/0/{suffix}");
            let record = BaseRecord::to(TOPIC).partition(partition).key(&key).payload("not a snapshot");
            producer.send(record).expect("queue a record");
        }
    }
    while producer.in_flight_count() > 0 {
        producer.poll(Duration::from_millis(1));
    }
    producer
}

#[test]
fn lost_data_directory_is_restored_from_snapshots_or_the_log() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    let (losses, records) = ChaosSize::from_environment().pick((2, 30_000), (4, 80_000), (15, 200_000));
    let mut scenario = Scenario::start(&ScenarioSpec {
        instances: 2,
        per_second: Some(3_000),
        kafka: WITH_SNAPSHOTS,
        ..ScenarioSpec::new("snapshots", records)
    });
    create_topic(&scenario);
    scenario.start_all();
    scenario.wait_until_committed(5_000, Duration::from_secs(90));
    let mut open_transactions = Vec::new();
    for round in 0..losses {
        let number = scenario.random.below(2) as usize;
        scenario.pause(1_000, 3_000);
        scenario.kill_instance(number);
        fs::remove_dir_all(&scenario.instances[number].data).expect("remove the data directory");
        scenario.count_event("disks lost");
        match round % 3 {
            0 => open_transactions.push(write_garbage(&scenario, &format!("forgotten-{round}"))),
            1 => {
                let producer = write_garbage(&scenario, &format!("committed-{round}"));
                producer.commit_transaction(CALL_TIMEOUT).expect("commit garbage");
            }
            _ => {}
        }
        scenario.start_all();
        scenario.wait_for_progress(1_000, Duration::from_secs(90));
    }
    drop(open_transactions);
    let restored = scenario.instances.iter().filter(|instance| instance.log_count("snapshot") > 0).count();
    println!("{restored} of 2 instances log snapshots");
    scenario.finish(Duration::from_secs(180 + records / 1_000));
}
