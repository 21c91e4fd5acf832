//! Names of the crash points and mutants that the binary accepts in `EBB_CRASH_AT`, `EBB_PANIC_AT` and `EBB_MUTANT`.
//!
//! The binary exits with status 2 at start if it does not know a name, which fails the scenario that uses it.

/// Every crash point, in the order in which the scenario visits them: `mid_replay` follows `after_commit`, because only a
/// commit without a later checkpoint leaves records to replay.
pub const CRASH_POINTS: [&str; 16] = [
    "before_fence",
    "after_fence",
    "before_committed",
    "after_committed",
    "before_produce",
    "after_produce",
    "before_offsets",
    "after_offsets",
    "during_commit",
    "after_commit",
    "mid_replay",
    "before_checkpoint",
    "after_checkpoint_write",
    "after_checkpoint",
    "before_snapshot",
    "after_snapshot",
];

/// The crash points that a process passes once, during its start.
pub const START_CRASH_POINTS: [&str; 5] =
    ["before_fence", "after_fence", "before_committed", "after_committed", "mid_replay"];

/// Every mutant: each breaks one rule of recovery.
pub const MUTANTS: [&str; 11] = [
    "offset-not-plus-one",
    "offset-plus-two",
    "emit-during-replay",
    "skip-replay",
    "checkpoint-before-commit",
    "ignore-commit-error",
    "keep-state-after-abort",
    "no-transaction",
    "offsets-first",
    SKIP_IDENTITY,
    BELIEVE_OFFSETS,
];

/// Found by the retention scenario.
pub const SKIP_IDENTITY: &str = "skip-identity";
/// Found by the scenario with torn commits.
pub const BELIEVE_OFFSETS: &str = "believe-offsets";
