//! What fetching tells, on brokers that only pretend: these can be told to fail.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ebb::kafka::{Consumer, Event, Settings, Taken, TopicPartition};
use ebb_core::NextOffset;
use rdkafka::config::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

const PATIENCE: Duration = Duration::from_secs(60);
const TURN: Duration = Duration::from_millis(10);

fn produce(brokers: &str, count: u64) {
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", brokers).create().expect("a producer");
    for _ in 0..count {
        producer.send(BaseRecord::<(), str>::to("clicks").partition(0).payload("{}")).expect("room in the queue");
    }
    producer.flush(PATIENCE).expect("written");
}

/// Polls until something was made of an event or of what was fetched.
fn until<T>(consumer: &mut Consumer, part: &TopicPartition, mut see: impl FnMut(&Event, &[Taken]) -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        let event = consumer.poll(TURN);
        if let Some(seen) = see(&event, &consumer.take(part)) {
            return seen;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing after {PATIENCE:?}");
    }
}

/// Takes so many records.
fn take(consumer: &mut Consumer, part: &TopicPartition, count: usize) {
    let mut taken = 0;
    until(consumer, part, |_, all| {
        taken += all.iter().map(|one| if let Taken::Records(records) = one { records.len() } else { 0 }).sum::<usize>();
        (taken >= count).then_some(())
    });
}

#[test]
fn an_error_of_fetching_is_no_record_that_was_read() {
    let cluster = MockCluster::new(1).expect("a pretended cluster");
    cluster.create_topic("clicks", 1, 1).expect("a topic");
    let brokers = cluster.bootstrap_servers();
    produce(&brokers, 3);
    let settings =
        Settings { brokers: brokers.clone(), group: "g".into(), instance: None, properties: BTreeMap::new() };
    let part = TopicPartition { topic: "clicks".into(), partition: 0 };
    let mut consumer = Consumer::subscribe(&settings, &["clicks"]).expect("a consumer");
    until(&mut consumer, &part, |event, _| matches!(event, Event::Assign(_)).then_some(()));
    consumer.assign(&[(part.clone(), Some(NextOffset(0)))]).expect("assigned");
    take(&mut consumer, &part, 3);
    assert_eq!(consumer.positions(), [(part.clone(), NextOffset(3))]);
    cluster.request_errors(RDKafkaApiKey::Fetch, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN]);
    until(&mut consumer, &part, |_, all| all.iter().any(|one| matches!(one, Taken::Trouble(_))).then_some(()));
    let told = consumer.positions();
    assert!(told.is_empty(), "the log ends at 3, and {told:?} are positions in it");
    produce(&brokers, 1);
    take(&mut consumer, &part, 1);
    assert_eq!(consumer.positions(), [(part, NextOffset(4))]);
    consumer.close();
}

/// A member that has a name of its own may join anew without a word of librdkafka's that it lost anything.
#[test]
fn a_member_anew_is_told_so_before_it_is_asked_anything() {
    let cluster = MockCluster::new(1).expect("a pretended cluster");
    cluster.create_topic("clicks", 1, 1).expect("a topic");
    let brokers = cluster.bootstrap_servers();
    let properties = BTreeMap::from([("heartbeat.interval.ms".to_owned(), "100".to_owned())]);
    let settings = Settings { brokers, group: "g".into(), instance: Some("one".into()), properties };
    let part = TopicPartition { topic: "clicks".into(), partition: 0 };
    let mut consumer = Consumer::subscribe(&settings, &["clicks"]).expect("a consumer");
    until(&mut consumer, &part, |event, _| matches!(event, Event::Assign(_)).then_some(()));
    consumer.assign(&[(part.clone(), Some(NextOffset(0)))]).expect("assigned");
    let group = consumer.group();
    until(&mut consumer, &part, |_, _| group.is_settled().then_some(()));
    cluster.request_errors(RDKafkaApiKey::JoinGroup, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID]);
    cluster.request_errors(RDKafkaApiKey::Heartbeat, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS]);
    let mut was_settled = true;
    until(&mut consumer, &part, |event, _| {
        assert!(!matches!(event, Event::Assign(_) | Event::Revoke(_)), "{event:?} before it is told");
        was_settled = group.is_settled();
        matches!(event, Event::MemberIdChanged).then_some(())
    });
    assert!(!was_settled, "what another may have had could be committed");
    until(&mut consumer, &part, |event, _| matches!(event, Event::Assign(_)).then_some(()));
    consumer.assign(&[]).expect("answered");
    until(&mut consumer, &part, |_, _| group.is_settled().then_some(()));
    drop(group);
    consumer.close();
}
