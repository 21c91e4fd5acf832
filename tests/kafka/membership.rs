//! Whose a partition is: for the group, for librdkafka's own thread, and for the thread that polls.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use ebb::kafka::{
    CommitOutcome, Consumer, Event, GroupInspector, Member, Position, Producer, Settings, Taken, TopicPartition,
};
use ebb_core::NextOffset;

use crate::broker::{Cluster, ClusterSpec};
use crate::site::{Setup, Site};
use crate::support::{Ebb, free_address};
use crate::{skip_without_kafka, skip_without_own_kafka};

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
fn take_on(consumer: &mut Consumer, wanted: &[TopicPartition]) {
    let event = asked(consumer);
    let Event::Assign(mut parts) = event else { panic!("{event:?}") };
    parts.sort();
    assert_eq!(parts, wanted);
    let starts: Vec<_> = parts.into_iter().map(|part| (part, Some(NextOffset(0)))).collect();
    consumer.assign(&starts).expect("assigned");
    let (group, begun) = (consumer.group(), Instant::now());
    while !group.is_settled() {
        let event = consumer.poll(TURN);
        assert!(matches!(event, Event::Quiet | Event::Down(_)), "{event:?}");
        assert!(begun.elapsed() < PATIENCE, "not settled after {PATIENCE:?}");
    }
}

fn settings(brokers: &str, group: &str) -> Settings {
    let properties = BTreeMap::from([("session.timeout.ms".to_owned(), SESSION.as_millis().to_string())]);
    Settings { brokers: brokers.into(), group: group.into(), instance: None, properties }
}

/// Takes so many records, and says where they stood.
fn offsets(consumer: &mut Consumer, part: &TopicPartition, count: usize) -> Vec<u64> {
    let (mut found, begun) = (Vec::new(), Instant::now());
    while found.len() < count {
        assert!(begun.elapsed() < PATIENCE, "{found:?} after {PATIENCE:?}");
        let event = consumer.poll(TURN);
        assert!(matches!(event, Event::Quiet), "{event:?}");
        for taken in consumer.take(part) {
            if let Taken::Records(records) = taken {
                found.extend(records.iter().map(|record| record.offset()));
            }
        }
    }
    found
}

#[test]
fn what_is_held_is_nobody_elses_and_read_from_where_it_is_sought() {
    skip_without_kafka!();
    let site = Site::new("held");
    site.admin().create_topic("held", 2, &[]);
    site.produced("held", 1_000);
    let settings = settings(&site.cluster.brokers(), "held");
    let parts = [0, 1].map(|partition| TopicPartition { topic: "held".into(), partition });
    let ends = parts.each_ref().map(|part| site.admin().watermarks("held", part.partition as i32).1 as usize);
    let mut first = Consumer::subscribe(&settings, &["held"]).expect("a consumer");
    let event = asked(&mut first);
    assert!(matches!(&event, Event::Assign(given) if given.len() == 2), "{event:?}");
    first.assign(&parts.clone().map(|part| (part, None))).expect("assigned");

    // Nothing of what was fetched before comes after it.
    for start in [0, 7, ends[1] - 3, 0] {
        let failed = first.seek(&[(parts[1].clone(), NextOffset(start as u64))]).expect("held");
        assert!(failed.is_empty(), "{failed:?}");
        let expected: Vec<u64> = (start as u64..ends[1] as u64).collect();
        let half = offsets(&mut first, &parts[1], expected.len() / 2);
        assert_eq!(half, expected[..half.len()]);
    }

    // Nor when librdkafka has stopped reading after an error.
    first.seek(&[(parts[1].clone(), NextOffset(1 << 40))]).expect("held");
    let begun = Instant::now();
    while !first.take(&parts[1]).iter().any(|taken| matches!(taken, Taken::OutOfRange)) {
        assert!(begun.elapsed() < PATIENCE, "no error");
        assert!(matches!(first.poll(TURN), Event::Quiet));
    }
    assert_eq!(first.seek(&[(parts[1].clone(), NextOffset(3))]).expect("held"), []);
    assert_eq!(offsets(&mut first, &parts[1], 5)[..5], [3, 4, 5, 6, 7]);

    // Whoever joins gets one, but not before it is given up: one was never read, and is ours all the same. The other was
    // released for a moment just now, so that it may be anybody's, as far as is known here.
    let mut second = Consumer::subscribe(&settings, &["held"]).expect("a consumer");
    let begun = Instant::now();
    let given_up = loop {
        let event = second.poll(TURN);
        assert!(!matches!(&event, Event::Assign(given) if !given.is_empty()), "{event:?} is another's");
        if matches!(event, Event::Assign(_)) {
            second.assign(&[]).expect("answered");
        }
        match first.poll(TURN) {
            Event::Lost(parts) => break parts,
            Event::Assign(given) if given.is_empty() => first.assign(&[]).expect("answered"),
            Event::Quiet => assert!(begun.elapsed() < PATIENCE, "nothing is given up"),
            event => panic!("{event:?}"),
        }
    };
    assert_eq!(given_up.len(), 1);
    first.release(&given_up).expect("released");
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "nobody has it");
        if let Event::Assign(given) = first.poll(TURN) {
            assert!(given.is_empty(), "{given:?}");
            first.assign(&[]).expect("answered");
        }
        if let Event::Assign(given) = second.poll(TURN) {
            second.assign(&given.iter().map(|part| (part.clone(), None)).collect::<Vec<_>>()).expect("assigned");
            if !given.is_empty() {
                assert_eq!(given, given_up);
                break;
            }
        }
    }
}

/// The members of the group, once it is at rest.
fn members(roll: &GroupInspector) -> Vec<Member> {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "the group is not at rest after {PATIENCE:?}");
        if let Ok(Some(members)) = roll.members() {
            return members;
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
    let settings = settings(&brokers, GROUP);
    let parts = [0, 1].map(|partition| TopicPartition { topic: "clicks".into(), partition });
    let position = || [Position { part: parts[1].clone(), next: NextOffset(7), note: String::new() }];

    let mut consumer = Consumer::subscribe(&settings, &["clicks"]).expect("a consumer");
    take_on(&mut consumer, &parts);
    let group = consumer.group();
    let roll = GroupInspector::new(&settings).expect("a client");
    let before = members(&roll);

    // Nobody polls while the session ends: librdkafka asks to have both given up, and nobody has heard it yet.
    cluster.nodes()[0].kill();
    thread::sleep(SESSION + Duration::from_secs(3));
    // One is read again, as after a commit that failed. librdkafka takes this for the answer, and joins.
    consumer.release(&parts[..1]).expect("released");
    cluster.nodes()[0].start();
    cluster.settle();
    let begun = Instant::now();
    while members(&roll) == before {
        assert!(begun.elapsed() < PATIENCE, "still the member that it was");
        thread::sleep(TURN);
    }

    // The brokers would take what is committed now: it comes from a member.
    assert!(!group.is_settled(), "a membership is trusted that was never heard of");
    let mut producer = Producer::transactional(&settings, "members", 1 << 20).expect("a producer");
    producer.begin_transaction().expect("a transaction");
    let refused = producer.send_offsets(&group, &position()).expect_err("offsets of what may be another's");
    assert!(refused.to_string().contains("the group has changed"), "{refused}");
    group.commit(&position()).expect_err("offsets of what may be another's");

    let event = asked(&mut consumer);
    assert!(matches!(&event, Event::Lost(lost) if lost.len() == 2), "{event:?}");
    assert!(!group.is_settled(), "what was lost is not given up yet");
    consumer.release(&parts[1..]).expect("released");
    take_on(&mut consumer, &parts);
    producer.send_offsets(&group, &position()).expect("offsets of what is ours");
    assert_eq!(producer.commit_transaction().expect("committed"), CommitOutcome::Clean);
    assert_eq!(cluster.admin().committed(GROUP, "clicks"), [None, Some(7)]);
    drop(group);
    consumer.close();
}

/// Polls a member that takes everything on, and gives up what it is asked for.
fn follow(consumer: &mut Consumer, held: &mut Vec<TopicPartition>) {
    match consumer.poll(TURN) {
        Event::Assign(given) => {
            consumer.assign(&given.iter().map(|part| (part.clone(), None)).collect::<Vec<_>>()).expect("assigned");
            held.extend(given);
        }
        Event::Revoke(taken) => {
            consumer.release(&taken).expect("released");
            held.retain(|part| !taken.contains(part));
        }
        Event::Quiet => {}
        event => panic!("{event:?}"),
    }
}

#[test]
fn a_partition_that_nobody_has_is_found_and_dealt_out() {
    skip_without_kafka!();
    let site = Site::new("orphans");
    site.produced("orphans", 2_000);
    let named = |name: &str| {
        // Longer than it takes to be back.
        let properties = BTreeMap::from([("session.timeout.ms".to_owned(), "60000".to_owned())]);
        let settings = settings(&site.cluster.brokers(), "orphans");
        Settings { instance: Some(name.into()), properties, ..settings }
    };
    let join = |name: &str| Consumer::subscribe(&named(name), &["orphans"]).expect("a consumer");
    let begun = Instant::now();
    let (mut one, mut ones) = (join("one"), Vec::new());
    while ones.len() < 2 {
        assert!(begun.elapsed() < PATIENCE, "{ones:?}");
        follow(&mut one, &mut ones);
    }
    let (mut two, mut twos) = (join("two"), Vec::new());
    loop {
        assert!(begun.elapsed() < PATIENCE, "nothing is given up");
        follow(&mut two, &mut twos);
        match one.poll(TURN) {
            Event::Revoke(_) => break,
            Event::Assign(_) => one.assign(&[]).expect("answered"),
            _ => {}
        }
    }
    // It dies in the middle of it, and comes back as the service: the group takes itself for complete.
    drop(one);
    let service = Ebb::start(&site.config(&Setup::new("orphans")), free_address(), &[]);
    let roll = GroupInspector::new(&named("one")).expect("a client");
    while site.committed("orphans") == 0 {
        assert!(begun.elapsed() < PATIENCE, "the service is not at work");
        follow(&mut two, &mut twos);
    }
    let members = members(&roll);
    assert_eq!(members.iter().map(|member| member.assignment.len()).sum::<usize>(), 1, "nothing is amiss: {members:?}");
    let seen = Instant::now();
    while twos.len() != 1 {
        assert!(seen.elapsed() < PATIENCE, "nobody has it");
        follow(&mut two, &mut twos);
    }
    println!("dealt out {:.1} s after it was missed", seen.elapsed().as_secs_f64());
    service.kill();
}
