//! F1, F7, F19: kill -9 at random times, restarts of the broker, all over a stream with damaged records in it. In
//! transactions nothing is lost and nothing doubled; at least once, nothing is lost.

use std::time::{Duration, Instant};

use super::{Play, PlaySpec, Size};
use crate::broker::free_ports;
use crate::stage::{Delivery, StageSpec};
use crate::{only_from_ci_on, skip_without_own_kafka};

/// How long an instance is given to be at work before it is killed in the middle of it.
const AT_WORK_WITHIN: Duration = Duration::from_secs(15);

/// kill -9 of some instances. Every third time one is killed while it starts: in the store's recovery, in the fence, in the
/// replay; otherwise those that are at work, and sometimes others with them.
fn kill_some(play: &mut Play, longest_ms: u64) {
    let all = play.instances.len();
    let chosen = play.random.below(all as u64) as usize;
    if play.random.below(3) == 0 {
        play.pause(10, 600);
        play.kill(chosen);
    } else {
        let begun = Instant::now();
        while !play.instances[chosen].probe("/readyz") && begun.elapsed() < AT_WORK_WITHIN {
            play.pause(50, 60);
        }
        play.pause(100, longest_ms);
        for number in 0..all {
            if number == chosen || play.random.below(2) == 0 {
                let is_at_work = play.instances[number].probe("/readyz");
                *play.done.entry("kills at work").or_default() += u64::from(is_at_work);
                play.kill(number);
            }
        }
    }
    play.start_all();
}

#[test]
fn kills_and_broker_restarts_lose_nothing_and_double_nothing() {
    skip_without_own_kafka!();
    let size = Size::from_environment();
    let (records, per_second) = size.pick((20_000, 5_000), (600_000, 7_000), (10_000_000, 6_000));
    let (kills, restarts) = size.pick((3, 1), (26, 10), (310, 52));
    let mut play = Play::begin(&PlaySpec {
        instances: size.pick(1, 2, 3),
        per_second: Some(per_second),
        ..PlaySpec::new("kills", records)
    });
    let longest_ms = 1_500;
    play.start_all();
    let begun = Instant::now();
    let most = Duration::from_secs(300 + 3 * records / per_second);
    while play.count("kills") < kills || play.count("broker restarts") < restarts {
        assert!(begun.elapsed() < most, "too slow: {:?}", play.done);
        kill_some(&mut play, longest_ms);
        let done = play.count("broker restarts");
        if done * kills < play.count("kills") * restarts {
            // Once it is away for longer than sessions and requests last.
            let long_ms = size.pick(500, 10_000, 60_000);
            let away_ms = if done == 0 { long_ms } else { play.random.below(3_000) };
            play.restart_broker(Duration::from_millis(away_ms));
        }
    }
    play.end(Duration::from_secs(300 + records / per_second));
}

#[test]
fn a_broker_that_comes_back_on_another_port_is_found() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    let (moves, records) = Size::from_environment().pick((1, 60_000), (1, 200_000), (3, 600_000));
    let mut play = Play::begin(&PlaySpec::new("elsewhere", records));
    let ports = free_ports(moves);
    let all: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let brokers = format!("{},{}", play.stage.brokers(), all.join(","));
    play.start_with(0, &[("EBB_KAFKA__BROKERS", &brokers)]);
    for (at, port) in (1..).zip(ports) {
        play.wait_committed(at * records / (moves as u64 + 2), Duration::from_secs(120));
        let node = &mut play.stage.cluster.nodes()[0];
        node.kill();
        node.move_to(port);
        node.start();
        play.stage.cluster.settle();
        play.note("broker moves");
        assert!(play.committed() < records, "all was done before the broker moved");
        // The client does not find a coordinator that is the same broker elsewhere; a new process does.
        let ended = play.instances[0].wait_end(Duration::from_secs(90));
        assert!(ended.is_some_and(|status| !status.success()), "{}", play.instances[0].log_tail());
        play.start_with(0, &[("EBB_KAFKA__BROKERS", &brokers)]);
    }
    play.end(Duration::from_secs(180));
}

#[test]
fn kills_lose_nothing_where_outputs_may_repeat() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    let (kills, records) = Size::from_environment().pick((2, 15_000), (8, 60_000), (40, 500_000));
    let mut play = Play::begin(&PlaySpec {
        stage: StageSpec { delivery: Delivery::AtLeastOnce, ..StageSpec::new("at-least-once") },
        per_second: Some(5_000),
        ..PlaySpec::new("at-least-once", records)
    });
    play.start_all();
    while play.count("kills") < kills {
        let before = play.committed();
        kill_some(&mut play, 1_200);
        play.wait_committed(before + 1, Duration::from_secs(60));
    }
    play.end(Duration::from_secs(120 + records / 1_000));
}
