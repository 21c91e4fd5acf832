//! F1, F7, F19: kill -9 at random times, restarts of the broker, all over a stream with damaged records in it.

use std::time::{Duration, Instant};

use super::{Play, PlaySpec, Size};
use crate::skip_without_own_kafka;

#[test]
fn kills_and_broker_restarts_lose_nothing_and_double_nothing() {
    skip_without_own_kafka!();
    let size = Size::from_environment();
    let (records, per_second) = size.pick((20_000, 5_000), (1_000_000, 7_000), (10_000_000, 8_000));
    let (kills, restarts) = size.pick((3, 1), (32, 11), (310, 52));
    let mut play = Play::begin(&PlaySpec {
        instances: size.pick(1, 2, 3),
        per_second: Some(per_second),
        ..PlaySpec::new("kills", records)
    });
    let longest_ms = size.pick(1_500, 3_000, 5_000);
    play.start_all();
    let begun = Instant::now();
    let most = Duration::from_secs(60 + 3 * records / per_second);
    while play.count("kills") < kills || play.count("broker restarts") < restarts {
        assert!(begun.elapsed() < most, "too slow: {:?}", play.done);
        // Every third is killed while it starts: in the store's recovery, in the fence, in the replay.
        let early = play.random.below(3) == 0;
        if early {
            play.pause(10, 600)
        } else {
            play.pause(600, longest_ms)
        }
        let number = play.random.below(play.instances.len() as u64) as usize;
        play.kill(number);
        play.start_all();
        if play.count("broker restarts") * kills < play.count("kills") * restarts {
            let away = Duration::from_millis(play.random.below(3_000));
            play.restart_broker(away);
        }
    }
    play.end(Duration::from_secs(120 + records / per_second));
}
