//! F10: the disk of an instance fills up and is freed again.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::{ChaosSize, Scenario, ScenarioSpec};
use crate::{skip_at_small_size, skip_without_own_kafka};

const WRITE_BYTES: usize = 4096;

/// A 48 MiB file system, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Returns `None` where mounting is not permitted.
    fn mount(path: &Path) -> Option<Self> {
        fs::create_dir_all(path).expect("create the mount point");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=48m", "tmpfs"]).arg(path).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Self(path.to_owned()))
    }

    /// Fills the remaining space, while the instance writes too.
    fn fill(&self) {
        let mut filler = File::create(self.0.join("filler")).expect("create the filler file");
        let error = iter::repeat_with(|| filler.write_all(&[1; WRITE_BYTES])).find_map(Result::err);
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::StorageFull));
    }

    fn free(&self) {
        fs::remove_file(self.0.join("filler")).expect("remove the filler file");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The largest offset of the checkpoints collected so far, including those in the store now.
fn max_checkpoint_offset(scenario: &mut Scenario) -> u64 {
    scenario.collect_checkpoints(0);
    scenario.audit.max_offset()
}

/// Restarts the instance until its store contains a checkpoint beyond `offset`.
fn wait_for_checkpoint_after(scenario: &mut Scenario, offset: u64) {
    let begun = Instant::now();
    loop {
        scenario.pause(900, 1_100);
        scenario.kill_instance(0);
        let newest = max_checkpoint_offset(scenario);
        scenario.start_all();
        if newest > offset {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no checkpoint since the disk was freed");
        scenario.pause(2_000, 2_100);
    }
}

#[test]
fn full_disk_stops_checkpoints_but_not_processing() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    let records = ChaosSize::from_environment().pick(20_000, 60_000, 200_000);
    let mut scenario = Scenario::start(&ScenarioSpec { per_second: Some(2_000), ..ScenarioSpec::new("disk", records) });
    let Some(disk) = SmallDisk::mount(&scenario.instances[0].data) else {
        eprintln!("SKIPPED: mounting a file system is not permitted here");
        return;
    };
    scenario.start_all();
    scenario.wait_until_committed(4_000, Duration::from_secs(90));
    disk.fill();
    scenario.count_event("disks filled");
    scenario.wait_for_progress(10_000, Duration::from_secs(60));
    assert!(scenario.instances[0].is_running(), "the instance exited because of the full disk");
    let failures = scenario.instances[0].metric("ebb_checkpoint_failures_total");
    assert!(failures > Some(0.0), "checkpoint failures are not counted: {failures:?}");
    scenario.kill_instance(0);
    let while_full = max_checkpoint_offset(&mut scenario);
    scenario.start_all();
    scenario.wait_for_progress(4_000, Duration::from_secs(60));
    disk.free();
    wait_for_checkpoint_after(&mut scenario, while_full);
    scenario.finish(Duration::from_secs(180));
    drop(disk);
}
