//! O3: outputs that hang in their logs, in a transaction that no coordinator knows of any more, are never committed.
//!
//! A broker that came up slowly was seen to give a transaction up without marking it in the logs of the outputs. The next
//! commit of the same producer there would count in what hangs. Here it is made to hang on purpose.

use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::{Play, PlaySpec, Size};
use crate::proxy::{Act, Api, Rule};
use crate::stage::{GROUP, StageSpec, VERDICTS, output};
use crate::{only_from_ci_on, skip_without_own_kafka};

const WORKERS: i32 = 2;
const MOST: Duration = Duration::from_secs(30);

/// Under the names of the dead instance's producers, writes to every output without the coordinator's knowledge, and goes.
fn leave_hanging(play: &mut Play) {
    let proxy = play.stage.proxy.as_ref().expect("a proxy");
    let rule = Rule::next(Api::ADD_PARTITIONS_TO_TXN, Act::Pretend);
    proxy.add_rule(Rule { client: "intruder".into(), times: u64::MAX, ..rule });
    for worker in 0..WORKERS {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", proxy.brokers()).set("client.id", "intruder").set("log_level", "0");
        let intruder: BaseProducer =
            config.set("transactional.id", format!("{GROUP}-ebb-0-{worker}")).create().expect("a producer");
        intruder.init_transactions(MOST).and_then(|()| intruder.begin_transaction()).expect("a transaction");
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
    proxy.clear_rules();
}

#[test]
fn what_hangs_in_an_output_is_never_committed() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    let (rounds, records) = Size::from_environment().pick((1, 10_000), (3, 40_000), (10, 100_000));
    // Brokers ask the coordinator before they take a record of a transaction, unless they are told not to.
    let properties = vec![("transaction.partition.verification.enable", "false".to_owned())];
    let mut play = Play::begin(&PlaySpec {
        stage: StageSpec { with_proxy: true, properties, ..StageSpec::new("hanging") },
        per_second: Some(3_000),
        ..PlaySpec::new("hanging", records)
    });
    for _ in 0..rounds {
        play.start(0);
        let before = play.committed();
        play.wait_committed(before + 3_000, Duration::from_secs(90));
        play.kill(0);
        leave_hanging(&mut play);
        play.note("transactions left hanging");
    }
    play.end(Duration::from_secs(180));
}
