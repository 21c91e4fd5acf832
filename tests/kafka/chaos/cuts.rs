//! F5, F6, F8: commits that arrive late or whose replies are lost, and a network that is cut, half-open, slow or flapping.

use std::thread;
use std::time::Duration;

use super::{Play, PlaySpec, Size};
use crate::proxy::{Act, Api, Proxy, Rule, Way, Weather};
use crate::stage::StageSpec;
use crate::{only_from_ci_on, skip_without_own_kafka};

/// A request that gets no answer is given up, and repeated, after a second.
const IMPATIENT: &str = "  instance: {instance}\n  properties: {session.timeout.ms: 6000, heartbeat.interval.ms: 500, socket.timeout.ms: 1000, \
                         reconnect.backoff.max.ms: 500}";

fn begin(name: &'static str, records: u64, per_second: u64) -> Play {
    Play::begin(&PlaySpec {
        stage: StageSpec { with_proxy: true, ..StageSpec::new(name) },
        per_second: Some(per_second),
        kafka: IMPATIENT,
        ..PlaySpec::new(name, records)
    })
}

fn proxy(play: &Play) -> &Proxy {
    play.stage.proxy.as_ref().expect("a proxy")
}

#[test]
fn late_and_unanswered_commits_tear_nothing() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    let size = Size::from_environment();
    let (rounds, records) = size.pick((1, 15_000), (3, 80_000), (10, 200_000));
    let mut play = begin("late-ends", records, 3_000);
    play.start_all();
    play.wait_committed(2_000, Duration::from_secs(90));
    for round in 0..rounds {
        for (act, name) in [
            (Act::Hold, "late commits"),
            (Act::LoseReply, "lost replies"),
            (Act::Cut, "cut commits"),
            (Act::Lose, "lost commits"),
        ] {
            let acts = proxy(&play).counts().acts;
            proxy(&play).add_rule(Rule::next(Api::END_TXN, act));
            proxy(&play).wait_for("commit to be hit", Duration::from_secs(30), |counts| counts.acts > acts);
            play.note(name);
            let before = play.committed();
            play.wait_committed(before + 1, Duration::from_secs(60));
            if act == Act::Hold {
                // The late commit arrives in some later transaction, and every second time the client dies in it.
                play.pause(1, 120);
                let delivered = proxy(&play).release().len();
                assert_eq!(delivered, 1, "the late commit was not delivered");
                if round % 2 == 0 {
                    play.kill(0);
                    play.start_all();
                }
            }
        }
        for api in [Api::PRODUCE, Api::ADD_PARTITIONS_TO_TXN, Api::ADD_OFFSETS_TO_TXN, Api::TXN_OFFSET_COMMIT] {
            proxy(&play).add_rule(Rule::next(api, if round % 2 == 0 { Act::LoseReply } else { Act::Lose }));
            play.pause(200, 600);
            play.note("other requests hit");
        }
    }
    proxy(&play).clear_rules();
    play.end(Duration::from_secs(180 + records / 1_000));
}

/// Flips bits of what the service reads: no record may be passed over for it.
fn damage_replies(play: &mut Play, times: u64) {
    for _ in 0..times {
        let before = proxy(play).counts().damaged;
        proxy(play).add_rule(Rule::next(Api::FETCH, Act::Damage));
        proxy(play).wait_for("reply to be damaged", Duration::from_secs(30), |counts| counts.damaged > before);
        play.note("damaged replies");
        play.pause(100, 700);
    }
}

#[test]
fn a_bad_network_costs_time_and_nothing_else() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    let size = Size::from_environment();
    let (rounds, records) = size.pick((1, 15_000), (1, 60_000), (3, 150_000));
    let mut play = begin("network", records, 2_000);
    play.start_all();
    play.wait_committed(2_000, Duration::from_secs(90));
    let calm = Weather::default();
    for _ in 0..rounds {
        for weather in [
            Weather { stalled: Some(Way::ToBroker), ..calm },
            Weather { stalled: Some(Way::ToClient), ..calm },
            Weather { delay: Duration::from_millis(150), jitter: Duration::from_millis(100), ..calm },
            Weather { bytes_per_second: Some(1 << 20), ..calm },
        ] {
            proxy(&play).set_weather(weather);
            if weather.stalled.is_some() {
                play.wait_until("not ready", Duration::from_secs(20), |play| !play.instances[0].probe("/readyz"));
            } else {
                thread::sleep(Duration::from_secs(3));
            }
            assert!(play.instances[0].is_running(), "bad weather ended it");
            assert!(play.instances[0].probe("/livez"), "alive, but says it is not");
            proxy(&play).set_weather(calm);
            play.note("bad weathers");
            let before = play.committed();
            play.wait_committed(before + 1, Duration::from_secs(60));
            play.wait_until("ready again", Duration::from_secs(20), |play| play.instances[0].probe("/readyz"));
        }
        damage_replies(&mut play, 4);
        for second in 0..8 {
            proxy(&play).set_weather(Weather { refuses: second % 2 == 0, ..calm });
            let ended = if second % 4 == 0 { proxy(&play).cut("") } else { proxy(&play).reset("") };
            *play.done.entry("connections ended").or_default() += ended as u64;
            thread::sleep(Duration::from_millis(500));
        }
        proxy(&play).set_weather(calm);
        play.start_all();
    }
    play.end(Duration::from_secs(180 + records / 1_000));
}
