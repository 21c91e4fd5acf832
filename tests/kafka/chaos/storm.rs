//! F9: instances come and go, in every way, under both protocols of the group.

use std::time::Duration;

use super::{DYNAMIC, Play, PlaySpec, Size};
use crate::{only_from_ci_on, skip_without_own_kafka};

fn storm(name: &'static str, kafka: &'static str) {
    let size = Size::from_environment();
    let (changes, records) = size.pick((4, 20_000), (14, 80_000), (50, 300_000));
    let spec = PlaySpec { instances: 4, per_second: Some(3_000), kafka, ..PlaySpec::new(name, records) };
    let mut play = Play::begin(&spec);
    play.start(0);
    for _ in 0..changes {
        play.pause(700, 3_000);
        let number = play.random.below(4) as usize;
        match (play.instances[number].is_running(), play.random.below(2)) {
            (false, _) => {
                play.start(number);
                play.note("joins");
            }
            (true, 0) => play.kill(number),
            (true, _) => {
                assert!(play.instances[number].terminate(Duration::from_secs(60)), "an orderly end failed");
                play.note("leaves");
            }
        }
    }
    play.end(Duration::from_secs(240 + records / 1_000));
}

#[test]
fn a_rebalance_storm_under_the_cooperative_protocol() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    storm("storm-cooperative", DYNAMIC);
}

#[test]
fn a_rebalance_storm_under_the_consumer_protocol() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    storm("storm-consumer", "  properties: {group.protocol: consumer, reconnect.backoff.max.ms: 500}");
}
