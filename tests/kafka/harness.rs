//! The harness must be able to fail: an honest copier passes whatever is done to its connections, a careless one is
//! caught, and anomalies planted in real topics are found.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ebb_core::Plan;
use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::check::check;
use crate::copier::{Care, Copier};
use crate::feed::{Feed, FeedSpec};
use crate::proxy::{Act, Api, Rule};
use crate::skip_without_own_kafka;
use crate::stage::{INPUT, Stage, StageSpec, output};

const RECORDS: u64 = 8_000;
const PATIENCE: Duration = Duration::from_secs(60);

fn ends(stage: &Stage) -> Vec<i64> {
    let admin = stage.cluster.admin();
    (0..stage.partitions as i32).map(|partition| admin.watermarks(INPUT, partition).1).collect()
}

/// Lives one after the other until everything is committed.
fn copy_to_the_end(stage: &Stage, plan: &Arc<Plan>, care: Care) {
    let (begun, ends) = (Instant::now(), ends(stage));
    let committed = || stage.cluster.admin().committed(crate::stage::GROUP, INPUT);
    while committed() != ends.iter().map(|end| Some(*end)).collect::<Vec<_>>() {
        assert!(begun.elapsed() < PATIENCE, "not at the end: {:?} of {ends:?}", committed());
        let Ok(mut copier) = Copier::start(stage, plan, care) else { continue };
        while copier.work(Duration::from_millis(200)).is_ok() && !copier.has_read(&ends) && !copier.is_in_doubt() {}
    }
}

/// The commit of the first transaction is held; the client repeats it; the held one arrives in the second transaction,
/// and the client dies in it.
fn play_late_end(stage: &Stage, plan: &Arc<Plan>, care: Care) {
    let proxy = stage.proxy.as_ref().expect("a proxy");
    proxy.add_rule(Rule { client: "copier".into(), ..Rule::next(Api::END_TXN, Act::Hold) });
    let mut copier = Copier::start(stage, plan, care).expect("a copier");
    copier.work(Duration::from_millis(300)).expect("a commit that is repeated until it is answered");
    assert_eq!((proxy.held(), copier.slow_commits), (1, 1), "the commit was not held");
    if copier.is_in_doubt() {
        copier = Copier::start(stage, plan, care).expect("a successor");
    }
    copier.emit_for(Duration::from_millis(500)).expect("a second transaction");
    let replies = proxy.release();
    assert_eq!(replies.len(), 1, "the late request got no answer");
    // What the second transaction wrote must go with it.
    drop(copier);
    copy_to_the_end(stage, plan, care);
}

fn stage(name: &'static str) -> (Stage, Arc<Plan>) {
    let stage = Stage::new(&StageSpec { partitions: 2, with_proxy: true, ..StageSpec::new(name) });
    let plan = stage.plan();
    Feed::start(&stage, FeedSpec::new(RECORDS)).finish();
    (stage, plan)
}

#[test]
fn an_honest_copier_survives_a_late_commit_and_lost_replies() {
    skip_without_own_kafka!();
    let (stage, plan) = stage("honest");
    let proxy = stage.proxy.as_ref().expect("a proxy");
    play_late_end(&stage, &plan, Care::Honest);
    for act in [Act::LoseReply, Act::Lose, Act::Cut] {
        proxy.add_rule(Rule { client: "copier".into(), ..Rule::next(Api::END_TXN, act) });
        Feed::start(&stage, FeedSpec { seed: 7, ..FeedSpec::new(500) }).finish();
        copy_to_the_end(&stage, &plan, Care::Honest);
    }
    assert_eq!(proxy.counts().acts, 4, "not every fault happened");
    check(&stage).assert_clean(RECORDS + 1_500);
    plant_anomalies(&stage);
}

/// Each planted on top of the one before.
fn plant_anomalies(stage: &Stage) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", stage.cluster.brokers()).create().expect("a producer");
    let write = |topic: &str, source: &str| {
        let headers = OwnedHeaders::new().insert(Header { key: "ebb-source", value: Some(source) });
        let record = BaseRecord::<(), str>::to(topic).partition(0).payload("{}").headers(headers);
        producer.send(record).expect("room in the queue");
        producer.flush(PATIENCE).expect("written");
    };
    write(&output("late"), "clicks/0/3");
    let found = check(stage);
    let wrong = found.count("wrong");
    assert!(found.count("doubled") == 1 && wrong > 0, "{}", found.line());
    write(&output("late"), "clicks/0/50000");
    assert_eq!(check(stage).count("wrong"), wrong + 1);
    Feed::start(stage, FeedSpec { seed: 8, ..FeedSpec::new(10) }).finish();
    let found = check(stage);
    assert_eq!(found.count("lost"), 10, "{}", found.line());
    assert!(found.count("unfinished") > 0, "{}", found.line());
    let open: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", stage.cluster.brokers())
        .set("transactional.id", "forgotten")
        .create()
        .expect("a producer");
    open.init_transactions(PATIENCE).and_then(|()| open.begin_transaction()).expect("a transaction");
    let topic = output("unique");
    open.send(BaseRecord::<(), str>::to(&topic).partition(0).payload("{}")).expect("room in the queue");
    while open.in_flight_count() > 0 {
        open.poll(Duration::from_millis(1));
    }
    let found = check(stage);
    assert_eq!(found.count("open"), 1, "{}", found.line());
}

#[test]
fn a_copier_that_keeps_a_doubtful_producer_is_caught() {
    skip_without_own_kafka!();
    let (stage, plan) = stage("careless");
    play_late_end(&stage, &plan, Care::KeepsDoubtfulProducer);
    let found = check(&stage);
    println!("checker: {}", found.line());
    assert!(!found.is_ok(), "a late commit did no harm: {}", found.line());
}
