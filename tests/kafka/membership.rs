//! What an owner of partitions may commit while librdkafka's own thread is ahead of the thread that polls.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use ebb::kafka::{Committed, Consumer, Event, Part, Position, Producer, Settings};
use ebb::shard::NextOffset;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};

use crate::broker::{Cluster, ClusterSpec};
use crate::skip_without_own_kafka;

const PATIENCE: Duration = Duration::from_secs(60);
const TURN: Duration = Duration::from_millis(10);
const SESSION: Duration = Duration::from_secs(6);
const GROUP: &str = "members";

/// The next of what the group asks for.
fn asked(consumer: &mut Consumer) -> Event {
    let begun = Instant::now();
    loop {
        match consumer.poll(TURN) {
            event @ (Event::Assign(_) | Event::Revoke(_) | Event::Lost(_)) => return event,
            Event::Failed(fault) => panic!("{fault}"),
            _ => assert!(begun.elapsed() < PATIENCE, "nothing after {PATIENCE:?}"),
        }
    }
}

/// Takes on what the group gives, and polls until that may be committed.
fn take_on(consumer: &mut Consumer, wanted: &[Part]) {
    let event = asked(consumer);
    let Event::Assign(mut parts) = event else { panic!("{event:?}") };
    parts.sort();
    assert_eq!(parts, wanted);
    let starts: Vec<_> = parts.into_iter().map(|part| (part, NextOffset(0))).collect();
    consumer.assign(&starts).expect("assigned");
    let (group, begun) = (consumer.group(), Instant::now());
    while !group.is_settled() {
        let event = consumer.poll(TURN);
        assert!(matches!(event, Event::Quiet | Event::Down(_)), "{event:?}");
        assert!(begun.elapsed() < PATIENCE, "not settled after {PATIENCE:?}");
    }
}

/// The members of the group, once it is at rest.
fn members(brokers: &str) -> Vec<String> {
    let asker: BaseConsumer = ClientConfig::new().set("bootstrap.servers", brokers).create().expect("a client");
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "the group is not at rest after {PATIENCE:?}");
        if let Ok(list) = asker.fetch_group_list(Some(GROUP), Duration::from_secs(5))
            && let Some(group) = list.groups().iter().find(|group| group.state() == "Stable")
        {
            return group.members().iter().map(|member| member.id().to_owned()).collect();
        }
        thread::sleep(TURN);
    }
}

#[test]
fn nothing_is_committed_as_a_member_anew_before_what_was_lost_is_known() {
    skip_without_own_kafka!();
    let mut cluster = Cluster::own(&ClusterSpec::new("membership"));
    let brokers = cluster.brokers();
    cluster.admin().create_topic("clicks", 2, &[]);
    let properties = BTreeMap::from([("session.timeout.ms".to_owned(), SESSION.as_millis().to_string())]);
    let settings = Settings { brokers: brokers.clone(), group: GROUP.into(), instance: None, properties };
    let parts = [0, 1].map(|partition| Part { topic: "clicks".into(), partition });
    let position = || [Position { part: parts[1].clone(), next: NextOffset(7), note: String::new() }];

    let mut consumer = Consumer::subscribe(&settings, &["clicks"]).expect("a consumer");
    take_on(&mut consumer, &parts);
    let group = consumer.group();
    let before = members(&brokers);

    // Nobody polls while the session ends: librdkafka asks to have both given up, and nobody has heard it yet.
    cluster.nodes()[0].kill();
    thread::sleep(SESSION + Duration::from_secs(3));
    // One is read again, as after a commit that failed. librdkafka takes this for the answer, and joins.
    consumer.release(&parts[..1]).expect("released");
    cluster.nodes()[0].start();
    cluster.settle();
    let begun = Instant::now();
    while members(&brokers) == before {
        assert!(begun.elapsed() < PATIENCE, "still the member that it was");
        thread::sleep(TURN);
    }

    // The brokers would take what is committed now: it comes from a member.
    assert!(!group.is_settled(), "a membership is trusted that was never heard of");
    let mut producer = Producer::fence(&settings, "members", 1 << 20).expect("a producer");
    producer.begin().expect("a transaction");
    let refused = producer.add_offsets(&group, &position()).expect_err("offsets of what may be another's");
    assert!(refused.to_string().contains("the group has changed"), "{refused}");
    group.commit(&position()).expect_err("offsets of what may be another's");

    let event = asked(&mut consumer);
    assert!(matches!(&event, Event::Lost(lost) if lost.len() == 2), "{event:?}");
    assert!(!group.is_settled(), "what was lost is not given up yet");
    consumer.release(&parts[1..]).expect("released");
    take_on(&mut consumer, &parts);
    producer.add_offsets(&group, &position()).expect("offsets of what is ours");
    assert_eq!(producer.commit().expect("committed"), Committed::Surely);
    assert_eq!(cluster.admin().committed(GROUP, "clicks"), [None, Some(7)]);
    drop(group);
    consumer.close();
}
