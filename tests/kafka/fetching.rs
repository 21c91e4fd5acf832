//! The consumer on librdkafka's mock cluster, which can return errors on demand.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ebb::kafka::{Consumer, ConsumerEvent, Fetched, Settings, TopicPartition};
use ebb_core::NextOffset;
use rdkafka::config::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

const TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

fn produce(brokers: &str, count: u64) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", brokers).create().expect("create a producer");
    for _ in 0..count {
        producer.send(BaseRecord::<(), str>::to("clicks").partition(0).payload("{}")).expect("queue a record");
    }
    producer.flush(TIMEOUT).expect("write all records");
}

/// Polls until the condition holds for an event or for what was fetched.
fn poll_until(
    consumer: &mut Consumer,
    partition: &TopicPartition,
    mut condition: impl FnMut(&ConsumerEvent, &[Fetched]) -> bool,
) {
    let begun = Instant::now();
    loop {
        let event = consumer.poll(POLL_INTERVAL);
        if condition(&event, &consumer.fetch(partition)) {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "the condition did not hold within {TIMEOUT:?}");
    }
}

fn wait_for_records(consumer: &mut Consumer, partition: &TopicPartition, count: usize) {
    let mut received = 0;
    poll_until(consumer, partition, |_, fetched| {
        let records = |one: &Fetched| if let Fetched::Records(records) = one { records.len() } else { 0 };
        received += fetched.iter().map(records).sum::<usize>();
        received >= count
    });
}

#[test]
fn fetch_error_does_not_advance_the_position() {
    let cluster = MockCluster::new(1).expect("create a mock cluster");
    cluster.create_topic("clicks", 1, 1).expect("create a topic");
    let brokers = cluster.bootstrap_servers();
    produce(&brokers, 3);
    let settings =
        Settings { brokers: brokers.clone(), group: "g".into(), instance: None, properties: BTreeMap::new() };
    let partition = TopicPartition { topic: "clicks".into(), partition: 0 };
    let mut consumer = Consumer::subscribe(&settings, &["clicks"]).expect("subscribe");
    poll_until(&mut consumer, &partition, |event, _| matches!(event, ConsumerEvent::Assigned(_)));
    consumer.assign(&[(partition.clone(), Some(NextOffset(0)))]).expect("assign the partition");
    wait_for_records(&mut consumer, &partition, 3);
    assert_eq!(consumer.positions(), [(partition.clone(), NextOffset(3))]);
    cluster.request_errors(RDKafkaApiKey::Fetch, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN]);
    poll_until(&mut consumer, &partition, |_, fetched| fetched.iter().any(|one| matches!(one, Fetched::Error(_))));
    let positions = consumer.positions();
    assert!(positions.is_empty(), "positions after a fetch error: {positions:?}");
    produce(&brokers, 1);
    wait_for_records(&mut consumer, &partition, 1);
    assert_eq!(consumer.positions(), [(partition, NextOffset(4))]);
    consumer.close();
}

/// librdkafka lets a static member rejoin with a new member id without reporting that it lost its partitions.
#[test]
fn member_id_change_is_reported_before_the_next_assignment() {
    let cluster = MockCluster::new(1).expect("create a mock cluster");
    cluster.create_topic("clicks", 1, 1).expect("create a topic");
    let brokers = cluster.bootstrap_servers();
    let properties = BTreeMap::from([("heartbeat.interval.ms".to_owned(), "100".to_owned())]);
    let settings = Settings { brokers, group: "g".into(), instance: Some("one".into()), properties };
    let partition = TopicPartition { topic: "clicks".into(), partition: 0 };
    let mut consumer = Consumer::subscribe(&settings, &["clicks"]).expect("subscribe");
    poll_until(&mut consumer, &partition, |event, _| matches!(event, ConsumerEvent::Assigned(_)));
    consumer.assign(&[(partition.clone(), Some(NextOffset(0)))]).expect("assign the partition");
    let group = consumer.group();
    poll_until(&mut consumer, &partition, |_, _| group.is_settled());
    cluster.request_errors(RDKafkaApiKey::JoinGroup, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID]);
    cluster.request_errors(RDKafkaApiKey::Heartbeat, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS]);
    let mut was_settled = true;
    poll_until(&mut consumer, &partition, |event, _| {
        assert!(
            !matches!(event, ConsumerEvent::Assigned(_) | ConsumerEvent::Revoked(_)),
            "{event:?} before the member id change"
        );
        was_settled = group.is_settled();
        matches!(event, ConsumerEvent::MemberIdChanged)
    });
    assert!(!was_settled, "offsets of partitions that another member may own could be committed");
    poll_until(&mut consumer, &partition, |event, _| matches!(event, ConsumerEvent::Assigned(_)));
    consumer.assign(&[]).expect("accept the assignment");
    poll_until(&mut consumer, &partition, |_, _| group.is_settled());
    drop(group);
    consumer.close();
}
