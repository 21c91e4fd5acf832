//! F17: instances that lose their disk and live on the snapshot topic, which is half written, polluted and compacted.

use std::fs;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::{Play, PlaySpec, Size};
use crate::{only_from_ci_on, skip_without_own_kafka};

const TOPIC: &str = "ebb-snapshots";
pub const KAFKA: &str = "  instance: {instance}\n  snapshots: {topic: ebb-snapshots, every: 1s}\n  properties: {session.timeout.ms: 6000, \
                         heartbeat.interval.ms: 500, reconnect.backoff.max.ms: 500}";
/// Compacted as often as the broker can.
const COMPACTED: [(&str, &str); 4] = [
    ("cleanup.policy", "compact"),
    ("min.cleanable.dirty.ratio", "0.01"),
    ("segment.ms", "1000"),
    ("max.compaction.lag.ms", "1000"),
];

/// Makes the topic that [`KAFKA`] names.
pub fn create_topic(play: &Play) {
    play.stage.cluster.admin().create_topic(TOPIC, play.stage.partitions, &COMPACTED);
}

/// Something that nobody can read, in a transaction that its writer leaves open.
fn pollute(play: &Play, writer: &str) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", play.stage.cluster.brokers()).set("transactional.id", writer);
    let producer: BaseProducer = config.create().expect("a producer");
    let most = Duration::from_secs(30);
    producer.init_transactions(most).and_then(|()| producer.begin_transaction()).expect("a transaction");
    for partition in 0..play.stage.partitions as i32 {
        for last in ["0", "1", "manifest"] {
            let key = format!("clicks/{partition}/0/{last}");
            let record = BaseRecord::to(TOPIC).partition(partition).key(&key).payload("not a snapshot");
            producer.send(record).expect("room in the queue");
        }
    }
    while producer.in_flight_count() > 0 {
        producer.poll(Duration::from_millis(1));
    }
    producer
}

#[test]
fn a_lost_disk_is_made_good_by_snapshots_or_by_the_log() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    let size = Size::from_environment();
    let (losses, records) = size.pick((2, 30_000), (4, 80_000), (15, 200_000));
    let mut play = Play::begin(&PlaySpec {
        instances: 2,
        per_second: Some(3_000),
        kafka: KAFKA,
        ..PlaySpec::new("snapshots", records)
    });
    create_topic(&play);
    play.start_all();
    play.wait_committed(5_000, Duration::from_secs(90));
    let mut open = Vec::new();
    for round in 0..losses {
        let number = play.random.below(2) as usize;
        play.pause(1_000, 3_000);
        play.kill(number);
        fs::remove_dir_all(&play.instances[number].data).expect("the disk is lost");
        play.note("disks lost");
        match round % 3 {
            0 => open.push(pollute(&play, &format!("forgotten-{round}"))),
            1 => {
                let polluted = pollute(&play, &format!("committed-{round}"));
                polluted.commit_transaction(Duration::from_secs(30)).expect("garbage is committed");
            }
            _ => {}
        }
        play.start_all();
        let before = play.committed();
        play.wait_committed(before + 1_000, Duration::from_secs(90));
    }
    drop(open);
    let restored = play.instances.iter().filter(|instance| instance.log_text().contains("snapshot")).count();
    println!("{restored} of 2 instances speak of snapshots");
    play.end(Duration::from_secs(180 + records / 1_000));
}
