//! Faults F1 to F10 and F17 to F19 on the real binary, each followed by the same questions: is everything there exactly once,
//! in order, rightly judged, to the byte; is nothing left open; is every stored state that of an uninterrupted fold.
//!
//! Three sizes by `EBB_CHAOS`: small (unset; for plain `cargo test`), `ci`, and `full` (`make chaos`).

mod cuts;
mod disk;
mod freezes;
mod hanging;
mod kills;
mod logs;
mod mutants;
mod outages;
mod play;
mod points;
mod snapshots;
mod storm;
mod tally;

pub use play::{DYNAMIC, Play, PlaySpec};
pub use tally::Tally;

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    Small,
    Ci,
    Full,
}

impl Size {
    pub fn from_environment() -> Self {
        match std::env::var("EBB_CHAOS").as_deref() {
            Err(_) | Ok("") | Ok("small") => Size::Small,
            Ok("ci") => Size::Ci,
            Ok("full") => Size::Full,
            Ok(other) => panic!("EBB_CHAOS={other}: write small, ci or full"),
        }
    }

    pub fn pick<T>(self, small: T, ci: T, full: T) -> T {
        match self {
            Size::Small => small,
            Size::Ci => ci,
            Size::Full => full,
        }
    }
}

/// Leaves a test that is too long for this size.
#[macro_export]
macro_rules! only_from_ci_on {
    () => {
        if $crate::chaos::Size::from_environment() == $crate::chaos::Size::Small {
            eprintln!("SKIPPED: runs with EBB_CHAOS=ci or full");
            return;
        }
    };
}
