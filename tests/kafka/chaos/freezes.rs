//! F3, F4: an instance that stands still while the world goes on, and wakes up in the middle of its transaction.

use std::thread;
use std::time::Duration;

use super::{DYNAMIC, Play, PlaySpec, Size};
use crate::{only_from_ci_on, skip_without_own_kafka};

/// Longer than the session, so that the others take over.
const PAST_SESSION: Duration = Duration::from_secs(5);
/// Longer than the broker waits for a transaction.
const PAST_TRANSACTION: Duration = Duration::from_secs(22);

#[test]
fn a_zombie_that_wakes_up_emits_nothing() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    let size = Size::from_environment();
    let (freezes, records) = size.pick((1, 30_000), (3, 100_000), (12, 300_000));
    let spec = PlaySpec { instances: 2, per_second: Some(4_000), kafka: DYNAMIC, ..PlaySpec::new("zombies", records) };
    let mut play = Play::begin(&spec);
    play.start_all();
    play.wait_committed(5_000, Duration::from_secs(90));
    for _ in 0..freezes {
        let number = play.random.below(2) as usize;
        play.instances[number].freeze();
        thread::sleep(PAST_SESSION);
        let before = play.committed();
        play.start_all();
        play.wait_committed(before + 1, Duration::from_secs(60));
        play.instances[number].thaw();
        play.note("freezes past the session");
        play.pause(500, 2_000);
        // A zombie may give up its life; whoever runs it starts it again.
        play.start_all();
    }
    assert!(play.times_gone_back() > 0, "no zombie was in the middle of anything");
    play.end(Duration::from_secs(120 + records / 1_000));
}

#[test]
fn a_pause_beyond_the_transactions_timeout_goes_back_to_what_is_committed() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    let size = Size::from_environment();
    let (freezes, records) = size.pick((1, 30_000), (1, 60_000), (2, 150_000));
    let kafka = "  properties: {session.timeout.ms: 45000, heartbeat.interval.ms: 500, reconnect.backoff.max.ms: 500}";
    let spec = PlaySpec { per_second: Some(2_500), kafka, ..PlaySpec::new("pauses", records) };
    let mut play = Play::begin(&spec);
    play.start_all();
    play.wait_committed(5_000, Duration::from_secs(90));
    for _ in 0..freezes {
        play.instances[0].freeze();
        thread::sleep(PAST_TRANSACTION);
        play.instances[0].thaw();
        play.note("freezes past the transaction");
        let before = play.committed();
        play.wait_committed(before + 1, Duration::from_secs(60));
        play.start_all();
    }
    assert!(play.times_gone_back() > 0, "no transaction was open when it was frozen");
    play.end(Duration::from_secs(120 + records / 1_000));
}
