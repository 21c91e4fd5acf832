//! K8, O3: a transaction that the brokers completed in some partitions only.
//!
//! When Apache Kafka 4.3.1 writes transaction markers, it treats a partition without a leader as deleted. Outputs or
//! offsets then belong to a hanging transaction that no coordinator knows, and the next commit of the same producer in
//! that partition would include them. These scenarios create such transactions on purpose.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

use super::mutants::variables;
use super::{ChaosSize, Scenario, ScenarioSpec};
use crate::log_lines::PENDING_TRANSACTION_IGNORED;
use crate::proxy::{Api, FaultRule, Proxy, RequestFault};
use crate::testbed::{GROUP, INPUT, TestBedSpec, VERDICTS, output_topic};
use crate::{skip_at_small_size, skip_without_feature, skip_without_own_kafka};

const WORKERS: i32 = 2;
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
const SIGKILL: i32 = 9;
const INTRUDER: &str = "intruder";

fn proxy(scenario: &Scenario) -> &Proxy {
    scenario.testbed.proxy.as_ref().expect("a proxy")
}

/// Hides a client's requests of one kind from the coordinator while `action` runs; the client gets success responses.
fn hide_requests<T>(scenario: &mut Scenario, client: &str, api: Api, action: impl FnOnce(&mut Scenario) -> T) -> T {
    let rule = FaultRule::next(api, RequestFault::FakeSuccess);
    proxy(scenario).add_rule(FaultRule { client: client.into(), times: u64::MAX, ..rule });
    let result = action(scenario);
    proxy(scenario).clear_rules();
    result
}

/// The transactional id of a worker of the instance.
fn worker_id(worker: i32) -> String {
    format!("{GROUP}-ebb-0-{worker}")
}

/// Another producer with this transactional id and an open transaction.
fn intruder(scenario: &Scenario, id: &str) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", proxy(scenario).brokers()).set("client.id", INTRUDER).set("log_level", "0");
    let intruder: BaseProducer = config.set("transactional.id", id).create().expect("create a producer");
    intruder.init_transactions(CALL_TIMEOUT).and_then(|()| intruder.begin_transaction()).expect("begin a transaction");
    intruder
}

/// Leaves hanging transactions with the ids of the stopped instance's producers in every output partition.
fn leave_hanging_outputs(scenario: &mut Scenario) {
    hide_requests(scenario, INTRUDER, Api::ADD_PARTITIONS_TO_TXN, |scenario| {
        for worker in 0..WORKERS {
            let intruder = intruder(scenario, &worker_id(worker));
            for topic in VERDICTS.map(output_topic) {
                for partition in (worker..scenario.testbed.partitions as i32).step_by(WORKERS as usize) {
                    let source = format!("clicks/{partition}/0");
                    let headers = OwnedHeaders::new().insert(Header { key: "ebb-source", value: Some(&source) });
                    let record = BaseRecord::<(), str>::to(&topic).partition(partition).payload("{}").headers(headers);
                    intruder.send(record).expect("queue a record");
                }
            }
            intruder.flush(CALL_TIMEOUT).expect("write all records");
        }
    });
}

/// Sends offsets of every partition in a transaction with this id.
fn send_offsets(scenario: &Scenario, id: &str) -> BaseProducer {
    let intruder = intruder(scenario, id);
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", scenario.testbed.cluster.brokers()).set("group.id", GROUP);
    let consumer: BaseConsumer = config.create().expect("create a consumer");
    let mut offsets = TopicPartitionList::new();
    for partition in 0..scenario.testbed.partitions as i32 {
        offsets.add_partition_offset(INPUT, partition, Offset::Offset(1)).expect("add a partition");
    }
    let metadata = consumer.group_metadata().expect("group metadata");
    intruder.send_offsets_to_transaction(&offsets, &metadata, CALL_TIMEOUT).expect("send offsets");
    intruder
}

/// Leaves a hanging transaction with this id in the group's offsets.
fn leave_hanging_offsets(scenario: &mut Scenario, id: &str) {
    hide_requests(scenario, INTRUDER, Api::ADD_OFFSETS_TO_TXN, |scenario| drop(send_offsets(scenario, id)));
}

/// Kills an instance after its first commit, of which either the outputs or the offsets hang.
fn tear_commit(scenario: &mut Scenario, hidden: Api) {
    hide_requests(scenario, "ebb-0", hidden, |scenario| {
        scenario.start_instance_with(0, &[("EBB_CRASH_AT", "after_commit:1")]);
        let status = scenario.instances[0].wait_for_exit(Duration::from_secs(60));
        let signal = status.and_then(|status| status.signal());
        assert_eq!(signal, Some(SIGKILL), "{}", scenario.instances[0].log_tail());
    });
    scenario.count_event("torn commits");
}

fn start_without_verification(name: &'static str, records: u64, mutant: Option<&str>) -> Scenario {
    // By default brokers verify with the coordinator that a partition belongs to the transaction.
    let properties = vec![("transaction.partition.verification.enable", "false".to_owned())];
    Scenario::start(&ScenarioSpec {
        testbed: TestBedSpec { with_proxy: true, properties, ..TestBedSpec::new(name) },
        per_second: Some(3_000),
        variables: variables(mutant),
        ..ScenarioSpec::new(name, records)
    })
}

/// Processes some records and is killed.
fn process_and_kill(scenario: &mut Scenario) {
    scenario.start_instance(0);
    scenario.wait_for_progress(3_000, Duration::from_secs(90));
    scenario.kill_instance(0);
}

/// The service waits for a hanging transaction of an unknown producer, then ignores it.
fn unknown_producer_is_ignored(scenario: &mut Scenario) {
    const UNKNOWN_ID: &str = "somebody-else";
    leave_hanging_offsets(scenario, UNKNOWN_ID);
    scenario.start_instance(0);
    scenario.wait_until("ready", Duration::from_secs(90), |scenario| scenario.instances[0].is_ready());
    let instance = &scenario.instances[0];
    assert!(instance.log_count(PENDING_TRANSACTION_IGNORED) > 0, "{}", instance.log_tail());
    scenario.kill_instance(0);
    // Otherwise the test itself could not read committed offsets.
    send_offsets(scenario, UNKNOWN_ID).abort_transaction(CALL_TIMEOUT).expect("abort the transaction");
    scenario.count_event("hanging transactions");
}

#[test]
fn hanging_transactions_in_outputs_and_offsets_are_aborted() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    let (rounds, records) = ChaosSize::from_environment().pick((1, 10_000), (3, 40_000), (10, 100_000));
    let mut scenario = start_without_verification("hanging", records, None);
    for round in 0..rounds {
        process_and_kill(&mut scenario);
        leave_hanging_outputs(&mut scenario);
        (0..WORKERS).for_each(|worker| leave_hanging_offsets(&mut scenario, &worker_id(worker)));
        scenario.count_event("hanging transactions");
        if round == 0 {
            unknown_producer_is_ignored(&mut scenario);
        }
    }
    scenario.finish(Duration::from_secs(240));
}

/// Commits of which only outputs or only offsets took effect: missing outputs are emitted again, existing ones are not.
pub fn run_torn_commits(mutant: Option<&str>) {
    let (rounds, records) = ChaosSize::from_environment().pick((1, 10_000), (2, 40_000), (10, 100_000));
    let mut scenario = start_without_verification("torn-commits", records, mutant);
    for _ in 0..rounds {
        for hidden in [Api::ADD_PARTITIONS_TO_TXN, Api::ADD_OFFSETS_TO_TXN] {
            process_and_kill(&mut scenario);
            tear_commit(&mut scenario, hidden);
        }
    }
    scenario.finish(Duration::from_secs(180));
}

#[test]
fn torn_commit_is_completed_after_restart() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    skip_without_feature!("fault-points");
    run_torn_commits(None);
}
