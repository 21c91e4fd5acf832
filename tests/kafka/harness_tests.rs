//! Tests of the test harness: a correct copier passes under all network faults, a flawed one is found, and anomalies
//! planted in real topics are found.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ebb_core::Plan;
use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::copier::{CLIENT_ID, Copier, CopierKind};
use crate::feed::{Feed, FeedSpec};
use crate::proxy::{Api, FaultRule, Proxy, RequestFault};
use crate::skip_without_own_kafka;
use crate::testbed::{GROUP, INPUT, TestBed, TestBedSpec, output_topic};

const RECORDS: u64 = 8_000;
const TIMEOUT: Duration = Duration::from_secs(60);

fn create_testbed(name: &'static str) -> (TestBed, Arc<Plan>) {
    let testbed = TestBed::new(&TestBedSpec { partitions: 2, with_proxy: true, ..TestBedSpec::new(name) });
    let plan = testbed.plan();
    Feed::start(&testbed, FeedSpec::new(RECORDS)).finish();
    (testbed, plan)
}

fn proxy(testbed: &TestBed) -> &Proxy {
    testbed.proxy.as_ref().expect("a proxy")
}

fn add_commit_fault(testbed: &TestBed, fault: RequestFault) {
    proxy(testbed).add_rule(FaultRule { client: CLIENT_ID.into(), ..FaultRule::next(Api::END_TXN, fault) });
}

/// Runs copiers, one after the other, until the whole input is committed.
fn copy_to_the_end(testbed: &TestBed, plan: &Arc<Plan>, kind: CopierKind) {
    let (begun, admin) = (Instant::now(), testbed.cluster.admin());
    let ends: Vec<i64> = (0..testbed.partitions as i32).map(|partition| admin.watermarks(INPUT, partition).1).collect();
    let committed = || admin.committed(GROUP, INPUT);
    while committed() != ends.iter().map(|end| Some(*end)).collect::<Vec<_>>() {
        assert!(begun.elapsed() < TIMEOUT, "committed {:?} of {ends:?}", committed());
        let Ok(mut copier) = Copier::start(testbed, plan, kind) else { continue };
        while copier.run(Duration::from_millis(200)).is_ok() && !copier.has_read(&ends) && !copier.is_uncertain() {}
    }
}

/// Holds the commit of the first transaction, so that the client repeats it, delivers the held request during the second
/// transaction and drops the copier before that is committed.
fn deliver_late_commit(testbed: &TestBed, plan: &Arc<Plan>, kind: CopierKind) {
    add_commit_fault(testbed, RequestFault::Hold);
    let mut copier = Copier::start(testbed, plan, kind).expect("start a copier");
    copier.run(Duration::from_millis(300)).expect("commit by a repeated request");
    assert_eq!((proxy(testbed).held(), copier.slow_commits), (1, 1), "the commit was not held");
    if copier.is_uncertain() {
        copier = Copier::start(testbed, plan, kind).expect("start a successor");
    }
    copier.emit_for(Duration::from_millis(500)).expect("open a second transaction");
    assert_eq!(proxy(testbed).release().len(), 1, "the late request got no response");
    // The outputs of the second transaction must be aborted.
    drop(copier);
    copy_to_the_end(testbed, plan, kind);
}

#[test]
fn correct_copier_survives_late_commits_and_dropped_responses() {
    skip_without_own_kafka!();
    let (testbed, plan) = create_testbed("honest");
    deliver_late_commit(&testbed, &plan, CopierKind::Correct);
    for fault in [RequestFault::DropResponse, RequestFault::Drop, RequestFault::Cut] {
        add_commit_fault(&testbed, fault);
        Feed::start(&testbed, FeedSpec { seed: 7, ..FeedSpec::new(500) }).finish();
        copy_to_the_end(&testbed, &plan, CopierKind::Correct);
    }
    assert_eq!(proxy(&testbed).counts().faults, 4, "not every fault happened");
    testbed.check().assert_clean(RECORDS + 1_500);
    checker_finds_planted_anomalies(&testbed);
}

/// Plants one anomaly after the other; each is found beside the previous ones.
fn checker_finds_planted_anomalies(testbed: &TestBed) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", testbed.cluster.brokers()).create().expect("create a producer");
    let write = |source: &str| {
        let topic = output_topic("late");
        let headers = OwnedHeaders::new().insert(Header { key: "ebb-source", value: Some(source) });
        let record = BaseRecord::<(), str>::to(&topic).partition(0).payload("{}").headers(headers);
        producer.send(record).expect("queue a record");
        producer.flush(TIMEOUT).expect("write a record");
    };
    write("clicks/0/3");
    let findings = testbed.check();
    let wrong = findings.count("wrong");
    assert!(findings.count("doubled") == 1 && wrong > 0, "{}", findings.summary());
    write("clicks/0/50000");
    assert_eq!(testbed.check().count("wrong"), wrong + 1);
    Feed::start(testbed, FeedSpec { seed: 8, ..FeedSpec::new(10) }).finish();
    let findings = testbed.check();
    assert_eq!(findings.count("lost"), 10, "{}", findings.summary());
    assert!(findings.count("unfinished") > 0, "{}", findings.summary());
    let _open = open_transaction(testbed);
    let findings = testbed.check();
    assert_eq!(findings.count("open"), 1, "{}", findings.summary());
}

fn open_transaction(testbed: &TestBed) -> BaseProducer {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", testbed.cluster.brokers())
        .set("transactional.id", "forgotten")
        .create()
        .expect("create a producer");
    producer.init_transactions(TIMEOUT).and_then(|()| producer.begin_transaction()).expect("begin a transaction");
    let topic = output_topic("unique");
    producer.send(BaseRecord::<(), str>::to(&topic).partition(0).payload("{}")).expect("queue a record");
    while producer.in_flight_count() > 0 {
        producer.poll(Duration::from_millis(1));
    }
    producer
}

#[test]
fn checker_catches_a_copier_that_reuses_an_uncertain_producer() {
    skip_without_own_kafka!();
    let (testbed, plan) = create_testbed("careless");
    deliver_late_commit(&testbed, &plan, CopierKind::ReusesUncertainProducer);
    let findings = testbed.check();
    println!("checker: {}", findings.summary());
    assert!(!findings.is_ok(), "the late commit did no harm: {}", findings.summary());
}
