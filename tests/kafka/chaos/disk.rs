//! F10: the disk under an instance fills up, and is freed.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::{Play, PlaySpec, Size};
use crate::{only_from_ci_on, skip_without_own_kafka};

const PIECE_BYTES: usize = 4096;

/// A small disk of its own, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir_all(at).expect("a place for the disk");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=48m", "tmpfs"]).arg(at).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Self(at.to_owned()))
    }

    /// Takes all that is left, while the instance writes too.
    fn fill(&self) {
        let mut filler = File::create(self.0.join("filler")).expect("a filler");
        let full = iter::repeat_with(|| filler.write_all(&[1; PIECE_BYTES])).find_map(Result::err);
        assert_eq!(full.map(|error| error.kind()), Some(ErrorKind::StorageFull));
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
    let records = Size::from_environment().pick(20_000, 60_000, 200_000);
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
    let failures = play.instances[0].metric("ebb_checkpoint_failures_total");
    assert!(failures > Some(0.0), "a full disk is not told: {failures:?}");
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
