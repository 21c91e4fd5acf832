//! K8, O3: a transaction that the brokers carried out in some logs only.
//!
//! Apache Kafka 4.3.1 takes a log without a leader for deleted when it marks the end of a transaction: outputs or offsets
//! then hang in their logs, in a transaction that no coordinator knows of any more, committed or given up. The next
//! commit of the same producer there would count them in. Here they are made to hang on purpose.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

use super::{Play, PlaySpec, Size};
use crate::proxy::{Act, Api, Rule};
use crate::stage::{GROUP, INPUT, StageSpec, VERDICTS, output};
use crate::{only_from_ci_on, skip_without_own_kafka};

const WORKERS: i32 = 2;
const MOST: Duration = Duration::from_secs(30);
const KILLED: i32 = 9;

/// A producer of some name with an open transaction.
fn intruder(play: &Play, name: &str) -> BaseProducer {
    let proxy = play.stage.proxy.as_ref().expect("a proxy");
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", proxy.brokers()).set("client.id", "intruder").set("log_level", "0");
    let intruder: BaseProducer = config.set("transactional.id", name).create().expect("a producer");
    intruder.init_transactions(MOST).and_then(|()| intruder.begin_transaction()).expect("a transaction");
    intruder
}

/// From now on the coordinator sees none of somebody's requests of this kind, and is said to agree to all.
fn hide(play: &Play, client: &str, unseen: Api) {
    let rule = Rule { client: client.into(), times: u64::MAX, ..Rule::next(unseen, Act::Pretend) };
    play.stage.proxy.as_ref().expect("a proxy").add_rule(rule);
}

fn hide_nothing(play: &Play) {
    play.stage.proxy.as_ref().expect("a proxy").clear_rules();
}

/// Under the names of the dead instance's producers, writes to every output without the coordinator's knowledge, and goes.
fn leave_outputs_hanging(play: &Play) {
    hide(play, "intruder", Api::ADD_PARTITIONS_TO_TXN);
    for worker in 0..WORKERS {
        let intruder = intruder(play, &format!("{GROUP}-ebb-0-{worker}"));
        for topic in VERDICTS.map(output) {
            for partition in (worker..play.stage.partitions as i32).step_by(WORKERS as usize) {
                let source = format!("clicks/{partition}/0");
                let headers = OwnedHeaders::new().insert(Header { key: "ebb-source", value: Some(&source) });
                let record = BaseRecord::<(), str>::to(&topic).partition(partition).payload("{}").headers(headers);
                intruder.send(record).expect("room in the queue");
            }
        }
        intruder.flush(MOST).expect("written");
    }
    hide_nothing(play);
}

/// Sends offsets of every partition in a transaction of this name.
fn send_offsets(play: &Play, name: &str) -> BaseProducer {
    let intruder = intruder(play, name);
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", play.stage.cluster.brokers()).set("group.id", GROUP);
    let consumer: BaseConsumer = config.create().expect("a consumer");
    let mut offsets = TopicPartitionList::new();
    for partition in 0..play.stage.partitions as i32 {
        offsets.add_partition_offset(INPUT, partition, Offset::Offset(1)).expect("an offset");
    }
    let metadata = consumer.group_metadata().expect("a group");
    intruder.send_offsets_to_transaction(&offsets, &metadata, MOST).expect("offsets in a transaction");
    intruder
}

/// As above, without the knowledge of the coordinator of transactions, and goes.
fn leave_offsets_hanging(play: &Play, name: &str) {
    hide(play, "intruder", Api::ADD_OFFSETS_TO_TXN);
    send_offsets(play, name);
    hide_nothing(play);
}

/// A life that ends with its first commit, of which either the outputs or the offsets hang.
fn tear_a_commit(play: &mut Play, unseen: Api) {
    hide(play, "ebb-0", unseen);
    play.start_with(0, &[("EBB_CRASH_AT", "after_commit:1")]);
    let ended = play.instances[0].wait_end(Duration::from_secs(60));
    assert_eq!(ended.and_then(|status| status.signal()), Some(KILLED), "{}", play.instances[0].log_tail());
    hide_nothing(play);
    play.note("commits torn");
}

fn begin(name: &'static str, records: u64, mutant: Option<&str>) -> Play {
    // Brokers ask the coordinator before they take a record of a transaction, unless they are told not to.
    let properties = vec![("transaction.partition.verification.enable", "false".to_owned())];
    Play::begin(&PlaySpec {
        stage: StageSpec { with_proxy: true, properties, ..StageSpec::new(name) },
        per_second: Some(3_000),
        variables: mutant.map(|mutant| ("EBB_MUTANT", mutant.to_owned())).into_iter().collect(),
        ..PlaySpec::new(name, records)
    })
}

/// A life that processes some, and is killed.
fn live(play: &mut Play) {
    play.start(0);
    let before = play.committed();
    play.wait_committed(before + 3_000, Duration::from_secs(90));
    play.kill(0);
}

/// A transaction of somebody who does not come back is waited for in vain, and then passed.
fn pass_a_strangers_transaction(play: &mut Play) {
    const STRANGER: &str = "somebody-else";
    leave_offsets_hanging(play, STRANGER);
    play.start(0);
    play.wait_until("restored", Duration::from_secs(90), |play| play.instances[0].probe("/readyz"));
    assert!(play.instances[0].log_text().contains("not waiting any longer"), "{}", play.instances[0].log_tail());
    play.kill(0);
    // So that the harness itself can ask for offsets again.
    send_offsets(play, STRANGER).abort_transaction(MOST).expect("given up");
    play.note("transactions left hanging");
}

#[test]
fn what_hangs_in_outputs_and_offsets_is_given_up() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    let (rounds, records) = Size::from_environment().pick((1, 10_000), (3, 40_000), (10, 100_000));
    let mut play = begin("hanging", records, None);
    for round in 0..rounds {
        live(&mut play);
        leave_outputs_hanging(&play);
        (0..WORKERS).for_each(|worker| leave_offsets_hanging(&play, &format!("{GROUP}-ebb-0-{worker}")));
        play.note("transactions left hanging");
        if round == 0 {
            pass_a_strangers_transaction(&mut play);
        }
    }
    play.end(Duration::from_secs(240));
}

/// Commits of which only a part was carried out: what is missing is emitted again, what stands is not.
pub fn play_torn_commits(mutant: Option<&str>) {
    let (rounds, records) = Size::from_environment().pick((1, 10_000), (2, 40_000), (10, 100_000));
    let mut play = begin("torn", records, mutant);
    for _ in 0..rounds {
        for unseen in [Api::ADD_PARTITIONS_TO_TXN, Api::ADD_OFFSETS_TO_TXN] {
            live(&mut play);
            tear_a_commit(&mut play, unseen);
        }
    }
    play.end(Duration::from_secs(180));
}

#[test]
fn a_commit_that_was_carried_out_in_part_is_made_whole() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    if !cfg!(feature = "fault-points") {
        eprintln!("SKIPPED: needs --features fault-points");
        return;
    }
    play_torn_commits(None);
}
