//! Partition ownership as seen by the group, by librdkafka's own thread and by the polling thread.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use ebb::kafka::{
    CommitOutcome, Consumer, ConsumerEvent, Fetched, GroupInspector, Member, OffsetCommit, Producer, Settings,
    TopicPartition,
};
use ebb_core::NextOffset;

use crate::broker::{Cluster, ClusterSpec};
use crate::service_fixture::{ServiceConfig, ServiceFixture};
use crate::support::{Ebb, free_address};
use crate::wait::wait_until;
use crate::{skip_without_kafka, skip_without_own_kafka};

const TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
const GROUP: &str = "members";

fn settings(brokers: &str, group: &str) -> Settings {
    let properties = BTreeMap::from([("session.timeout.ms".to_owned(), SESSION_TIMEOUT.as_millis().to_string())]);
    Settings { brokers: brokers.into(), group: group.into(), instance: None, properties }
}

fn subscribe(settings: &Settings, topic: &str) -> Consumer {
    Consumer::subscribe(settings, &[topic]).expect("subscribe")
}

fn both_partitions(topic: &str) -> [TopicPartition; 2] {
    [0, 1].map(|partition| TopicPartition { topic: topic.into(), partition })
}

/// The next change of the assignment.
fn next_change(consumer: &mut Consumer) -> ConsumerEvent {
    let begun = Instant::now();
    loop {
        match consumer.poll(POLL_INTERVAL) {
            event @ (ConsumerEvent::Assigned(_) | ConsumerEvent::Revoked(_) | ConsumerEvent::Lost(_)) => return event,
            ConsumerEvent::Failed(fault) => panic!("{fault}"),
            ConsumerEvent::Idle
            | ConsumerEvent::MemberIdChanged
            | ConsumerEvent::StrayRecord(_)
            | ConsumerEvent::BrokersDown(_) => {
                assert!(begun.elapsed() < TIMEOUT, "no change of the assignment within {TIMEOUT:?}");
            }
        }
    }
}

/// Accepts the expected assignment and polls until its offsets may be committed.
fn accept_assignment(consumer: &mut Consumer, expected: &[TopicPartition]) {
    let event = next_change(consumer);
    let ConsumerEvent::Assigned(mut partitions) = event else { panic!("{event:?}") };
    partitions.sort();
    assert_eq!(partitions, expected);
    let starts: Vec<_> = partitions.into_iter().map(|partition| (partition, Some(NextOffset(0)))).collect();
    consumer.assign(&starts).expect("assign partitions");
    let (group, begun) = (consumer.group(), Instant::now());
    while !group.is_settled() {
        let event = consumer.poll(POLL_INTERVAL);
        assert!(matches!(event, ConsumerEvent::Idle | ConsumerEvent::BrokersDown(_)), "{event:?}");
        assert!(begun.elapsed() < TIMEOUT, "the membership did not settle within {TIMEOUT:?}");
    }
}

/// Reads at least `count` records and returns their offsets.
fn read_offsets(consumer: &mut Consumer, partition: &TopicPartition, count: usize) -> Vec<u64> {
    let (mut offsets, begun) = (Vec::new(), Instant::now());
    while offsets.len() < count {
        assert!(begun.elapsed() < TIMEOUT, "only {offsets:?} within {TIMEOUT:?}");
        let event = consumer.poll(POLL_INTERVAL);
        assert!(matches!(event, ConsumerEvent::Idle), "{event:?}");
        for taken in consumer.fetch(partition) {
            if let Fetched::Records(records) = taken {
                offsets.extend(records.iter().map(|record| record.offset()));
            }
        }
    }
    offsets
}

fn seek(consumer: &mut Consumer, partition: &TopicPartition, offset: u64) {
    let failed = consumer.seek(&[(partition.clone(), NextOffset(offset))]).expect("seek");
    assert!(failed.is_empty(), "seek failed for {failed:?}");
}

#[test]
fn held_partition_stays_ours_and_seek_discards_prefetched_records() {
    skip_without_kafka!();
    let fixture = ServiceFixture::new("held");
    fixture.admin().create_topic("held", 2, &[]);
    fixture.produce("held", 1_000);
    let settings = settings(&fixture.cluster.brokers(), "held");
    let partitions = both_partitions("held");
    let end = fixture.admin().watermarks("held", 1).1 as u64;
    let mut first = subscribe(&settings, "held");
    let event = next_change(&mut first);
    assert!(matches!(&event, ConsumerEvent::Assigned(assigned) if assigned.len() == 2), "{event:?}");
    first.assign(&partitions.clone().map(|partition| (partition, None))).expect("hold both partitions");

    for start in [0, 7, end - 3, 0] {
        seek(&mut first, &partitions[1], start);
        let expected: Vec<u64> = (start..end).collect();
        let offsets = read_offsets(&mut first, &partitions[1], expected.len() / 2);
        assert_eq!(offsets, expected[..offsets.len()]);
    }
    seek_after_out_of_range_error(&mut first, &partitions[1]);
    let mut second = subscribe(&settings, "held");
    second_member_gets_one_partition(&mut first, &mut second);
}

/// librdkafka stops reading a partition after this error, so that a seek has to reassign it.
fn seek_after_out_of_range_error(consumer: &mut Consumer, partition: &TopicPartition) {
    consumer.seek(&[(partition.clone(), NextOffset(1 << 40))]).expect("seek beyond the end");
    let begun = Instant::now();
    while !consumer.fetch(partition).iter().any(|taken| matches!(taken, Fetched::OutOfRange)) {
        assert!(begun.elapsed() < TIMEOUT, "no out-of-range error");
        assert!(matches!(consumer.poll(POLL_INTERVAL), ConsumerEvent::Idle));
    }
    seek(consumer, partition, 3);
    assert_eq!(read_offsets(consumer, partition, 5)[..5], [3, 4, 5, 6, 7]);
}

/// The second member is assigned a partition only after the first has released it. The first member reassigned a
/// partition before, so that it cannot know whether it still owned it: the revocation is reported as a loss.
fn second_member_gets_one_partition(first: &mut Consumer, second: &mut Consumer) {
    let begun = Instant::now();
    let lost = loop {
        let event = second.poll(POLL_INTERVAL);
        assert!(
            !matches!(&event, ConsumerEvent::Assigned(new) if !new.is_empty()),
            "{event:?}: the first member owns it"
        );
        if matches!(event, ConsumerEvent::Assigned(_)) {
            second.assign(&[]).expect("accept an empty assignment");
        }
        match first.poll(POLL_INTERVAL) {
            ConsumerEvent::Lost(partitions) => break partitions,
            ConsumerEvent::Assigned(new) if new.is_empty() => first.assign(&[]).expect("accept an empty assignment"),
            ConsumerEvent::Idle => assert!(begun.elapsed() < TIMEOUT, "no partition was revoked"),
            event => panic!("{event:?}"),
        }
    };
    assert_eq!(lost.len(), 1);
    first.unassign(&lost).expect("release the partition");
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < TIMEOUT, "the partition was not assigned to the second member");
        if let ConsumerEvent::Assigned(new) = first.poll(POLL_INTERVAL) {
            assert!(new.is_empty(), "{new:?}");
            first.assign(&[]).expect("accept an empty assignment");
        }
        if let ConsumerEvent::Assigned(new) = second.poll(POLL_INTERVAL) {
            second.assign(&new.iter().map(|one| (one.clone(), None)).collect::<Vec<_>>()).expect("assign partitions");
            if !new.is_empty() {
                assert_eq!(new, lost);
                return;
            }
        }
    }
}

/// The members of the group once it is stable.
fn stable_members(inspector: &GroupInspector) -> Vec<Member> {
    let mut members = None;
    wait_until("the group is stable", TIMEOUT, || {
        members = inspector.members().ok().flatten();
        members.is_some()
    });
    members.expect("a stable group")
}

#[test]
fn rejoined_member_commits_nothing_before_it_has_processed_its_loss() {
    skip_without_own_kafka!();
    let mut cluster = Cluster::start_own(&ClusterSpec::new("membership"));
    cluster.admin().create_topic("clicks", 2, &[]);
    let settings = settings(&cluster.brokers(), GROUP);
    let partitions = both_partitions("clicks");
    let position = || [OffsetCommit { partition: partitions[1].clone(), next: NextOffset(7), note: String::new() }];

    let mut consumer = subscribe(&settings, "clicks");
    accept_assignment(&mut consumer, &partitions);
    let group = consumer.group();
    let inspector = GroupInspector::new(&settings).expect("create an inspector");
    let before = stable_members(&inspector);

    // The session expires while nobody polls: librdkafka queues the loss of both partitions.
    cluster.nodes()[0].kill();
    thread::sleep(SESSION_TIMEOUT + Duration::from_secs(3));
    // A worker reads one partition again, as after a failed commit. librdkafka takes this for the answer to the loss and
    // rejoins.
    consumer.unassign(&partitions[..1]).expect("release a partition");
    cluster.nodes()[0].start();
    cluster.wait_until_ready();
    wait_until("the member has rejoined", TIMEOUT, || stable_members(&inspector) != before);

    // The brokers would accept these commits, because they come from a member.
    assert!(!group.is_settled(), "settled although the loss was not processed");
    let mut producer = Producer::transactional(&settings, "members", 1 << 20).expect("create a producer");
    producer.begin_transaction().expect("begin a transaction");
    let refused = producer.send_offsets(&group, &position()).expect_err("offsets of a lost partition");
    assert!(refused.to_string().contains("the group has rebalanced"), "{refused}");
    group.commit(&position()).expect_err("offsets of a lost partition");

    let event = next_change(&mut consumer);
    assert!(matches!(&event, ConsumerEvent::Lost(lost) if lost.len() == 2), "{event:?}");
    assert!(!group.is_settled(), "settled although the lost partitions are not released");
    consumer.unassign(&partitions[1..]).expect("release a partition");
    accept_assignment(&mut consumer, &partitions);
    producer.send_offsets(&group, &position()).expect("send offsets of an owned partition");
    assert_eq!(producer.commit_transaction().expect("commit"), CommitOutcome::Clean);
    assert_eq!(cluster.admin().committed(GROUP, "clicks"), [None, Some(7)]);
    drop(group);
    consumer.close();
}

/// A member that accepts all assignments and revocations.
struct CompliantMember {
    consumer: Consumer,
    owned: Vec<TopicPartition>,
}

impl CompliantMember {
    fn poll(&mut self) {
        match self.consumer.poll(POLL_INTERVAL) {
            ConsumerEvent::Assigned(new) => {
                let starts: Vec<_> = new.iter().map(|partition| (partition.clone(), None)).collect();
                self.consumer.assign(&starts).expect("assign partitions");
                self.owned.extend(new);
            }
            ConsumerEvent::Revoked(revoked) => {
                self.consumer.unassign(&revoked).expect("release partitions");
                self.owned.retain(|partition| !revoked.contains(partition));
            }
            ConsumerEvent::Idle => {}
            event => panic!("{event:?}"),
        }
    }
}

#[test]
fn orphaned_partition_is_found_and_reassigned() {
    skip_without_kafka!();
    let fixture = ServiceFixture::new("orphans");
    fixture.produce("orphans", 2_000);
    let static_member = |name: &str| {
        // Longer than the restart takes.
        let properties = BTreeMap::from([("session.timeout.ms".to_owned(), "60000".to_owned())]);
        let settings = settings(&fixture.cluster.brokers(), "orphans");
        Settings { instance: Some(name.into()), properties, ..settings }
    };
    let join = |name: &str| CompliantMember { consumer: subscribe(&static_member(name), "orphans"), owned: Vec::new() };
    let mut one = join("one");
    wait_until("the first member owns both partitions", TIMEOUT, || {
        one.poll();
        one.owned.len() == 2
    });
    let (mut two, begun) = (join("two"), Instant::now());
    loop {
        assert!(begun.elapsed() < TIMEOUT, "no partition was revoked");
        two.poll();
        match one.consumer.poll(POLL_INTERVAL) {
            ConsumerEvent::Revoked(_) => break,
            ConsumerEvent::Assigned(_) => one.consumer.assign(&[]).expect("accept an empty assignment"),
            _ => {}
        }
    }
    // The first member dies during the revocation and comes back as the service: the group sees nothing to rebalance.
    drop(one);
    let service = Ebb::start(&fixture.write_config(&ServiceConfig::new("orphans")), free_address(), &[]);
    let inspector = GroupInspector::new(&static_member("one")).expect("create an inspector");
    wait_until("the service processes its partition", TIMEOUT, || {
        two.poll();
        fixture.committed("orphans") > 0
    });
    let members = stable_members(&inspector);
    let assigned: usize = members.iter().map(|member| member.assignment.len()).sum();
    assert_eq!(assigned, 1, "no partition is orphaned: {members:?}");
    let orphaned = Instant::now();
    wait_until("the orphaned partition is reassigned", TIMEOUT, || {
        two.poll();
        two.owned.len() == 1
    });
    println!("orphaned partition reassigned after {:.1} s", orphaned.elapsed().as_secs_f64());
    service.kill();
}
