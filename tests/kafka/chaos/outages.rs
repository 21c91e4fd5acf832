//! F7: the broker is down for longer than the session timeout. An instance that survives the outage has lost its
//! membership and may not know that when the broker returns; instances started meanwhile own its partitions by then.

use std::thread;
use std::time::Duration;

use super::{ChaosSize, Scenario, ScenarioSpec};
use crate::{skip_at_small_size, skip_without_own_kafka};

#[test]
fn every_partition_has_one_owner_after_a_long_outage() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    let (outages, records) = ChaosSize::from_environment().pick((1, 20_000), (3, 200_000), (20, 1_000_000));
    let spec = ScenarioSpec { instances: 3, per_second: Some(7_000), ..ScenarioSpec::new("outages", records) };
    let mut scenario = Scenario::start(&spec);
    scenario.start_all();
    for survivor in (0..3).cycle().take(outages) {
        scenario.wait_until("the survivor is ready", Duration::from_secs(60), |scenario| {
            scenario.instances[survivor].is_ready() && scenario.committed() > 0
        });
        scenario.pause(1_000, 2_000);
        scenario.testbed.cluster.nodes()[0].kill();
        for number in (0..3).filter(|number| *number != survivor) {
            scenario.kill_instance(number);
        }
        scenario.start_all();
        // The session timeout is 6 s.
        thread::sleep(Duration::from_millis(7_000 + scenario.random.below(4_000)));
        scenario.testbed.cluster.nodes()[0].start();
        scenario.testbed.cluster.wait_until_ready();
        scenario.count_event("long outages");
        scenario.pause(3_000, 5_000);
    }
    scenario.finish(Duration::from_secs(180));
}
