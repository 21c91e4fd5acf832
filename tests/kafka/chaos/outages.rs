//! F7: the broker is away for longer than sessions last. Whoever lives through it is a member no more, and may not know it
//! yet when the broker is back; those that were started meanwhile have its partitions by then.

use std::thread;
use std::time::Duration;

use super::{Play, PlaySpec, Size};
use crate::{only_from_ci_on, skip_without_own_kafka};

#[test]
fn after_a_long_outage_every_partition_has_one_owner() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    let (outages, records) = Size::from_environment().pick((1, 20_000), (3, 200_000), (20, 1_000_000));
    let mut play =
        Play::begin(&PlaySpec { instances: 3, per_second: Some(7_000), ..PlaySpec::new("outages", records) });
    play.start_all();
    for survivor in (0..3).cycle().take(outages) {
        play.wait_until("somebody is at work", Duration::from_secs(60), |play| {
            play.instances[survivor].probe("/readyz") && play.committed() > 0
        });
        play.pause(1_000, 2_000);
        play.stage.cluster.nodes()[0].kill();
        for number in (0..3).filter(|number| *number != survivor) {
            play.kill(number);
        }
        play.start_all();
        // Sessions last 6 s.
        thread::sleep(Duration::from_millis(7_000 + play.random.below(4_000)));
        play.stage.cluster.nodes()[0].start();
        play.stage.cluster.settle();
        play.note("long outages");
        play.pause(3_000, 5_000);
    }
    play.end(Duration::from_secs(180));
}
