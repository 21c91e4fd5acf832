//! Faults F1 to F10 and F17 to F19 on the real binary. After each scenario the checker verifies that every output exists
//! exactly once, in order, with the right verdict and unchanged bytes, and that no transaction is open; every stored
//! checkpoint must equal an uninterrupted fold.
//!
//! `EBB_CHAOS` selects the size: `small` (default, for plain `cargo test`), `ci`, or `full` (`make chaos`).

mod crash_points;
mod freezes;
mod full_disk;
mod hanging_transactions;
mod injections;
mod kills;
mod log_changes;
mod mutants;
mod network;
mod outages;
mod rebalance_storm;
mod scenario;
mod snapshots;
mod summary;

pub use scenario::{DYNAMIC_MEMBERS, Scenario, ScenarioSpec};
pub use summary::ScenarioSummary;

/// How many records and faults a scenario has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChaosSize {
    Small,
    Ci,
    Full,
}

impl ChaosSize {
    pub fn from_environment() -> Self {
        match std::env::var("EBB_CHAOS").as_deref() {
            Err(_) | Ok("") | Ok("small") => ChaosSize::Small,
            Ok("ci") => ChaosSize::Ci,
            Ok("full") => ChaosSize::Full,
            Ok(other) => panic!("EBB_CHAOS={other}: use small, ci or full"),
        }
    }

    pub fn pick<T>(self, small: T, ci: T, full: T) -> T {
        match self {
            ChaosSize::Small => small,
            ChaosSize::Ci => ci,
            ChaosSize::Full => full,
        }
    }
}

/// Skips a test that takes too long for plain `cargo test`.
#[macro_export]
macro_rules! skip_at_small_size {
    () => {
        if $crate::chaos::ChaosSize::from_environment() == $crate::chaos::ChaosSize::Small {
            eprintln!("SKIPPED: set EBB_CHAOS=ci or EBB_CHAOS=full");
            return;
        }
    };
}

/// Skips a test whose fault injection is not compiled in.
#[macro_export]
macro_rules! skip_without_feature {
    ($feature:literal) => {
        if !cfg!(feature = $feature) {
            eprintln!("SKIPPED: needs --features {}", $feature);
            return;
        }
    };
}
