//! F10: the disk under an instance fills up, and is freed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::{Play, PlaySpec, Size};
use crate::{only_from_ci_on, skip_without_own_kafka};

/// A small disk of its own, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir_all(at).expect("a place for the disk");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=48m", "tmpfs"]).arg(at).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Self(at.to_owned()))
    }

    fn fill(&self) {
        let stat = rustix::fs::statvfs(&self.0).expect("the free space");
        fs::write(self.0.join("filler"), vec![1; (stat.f_bavail * stat.f_frsize) as usize]).expect("a filler");
    }

    fn free(&self) {
        fs::remove_file(self.0.join("filler")).expect("the filler goes");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn stored(play: &mut Play) -> u64 {
    play.audit.take(&play.stage, &play.plan, "ebb-0");
    play.audit.highest()
}

#[test]
fn a_full_disk_stops_checkpoints_and_nothing_else() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    let records = Size::from_environment().pick(20_000, 80_000, 500_000);
    let mut play = Play::begin(&PlaySpec { per_second: Some(2_000), ..PlaySpec::new("disk", records) });
    let place = play.instances[0].data.clone();
    let Some(disk) = SmallDisk::mount(&place) else {
        eprintln!("SKIPPED: a disk of its own cannot be mounted here");
        return;
    };
    play.start_all();
    play.wait_committed(4_000, Duration::from_secs(90));
    disk.fill();
    play.note("disks filled");
    let before = play.committed();
    play.wait_committed(before + 10_000, Duration::from_secs(60));
    assert!(play.instances[0].is_running(), "a full disk ended it");
    play.kill(0);
    let while_full = stored(&mut play);
    play.start_all();
    let before = play.committed();
    play.wait_committed(before + 4_000, Duration::from_secs(60));
    disk.free();
    let begun = Instant::now();
    loop {
        play.pause(900, 1_100);
        play.kill(0);
        let now = stored(&mut play);
        play.start_all();
        if now > while_full {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no checkpoint since the disk was freed");
        play.pause(2_000, 2_100);
    }
    play.end(Duration::from_secs(180));
    drop(disk);
}
