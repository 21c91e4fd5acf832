//! For tests alone: places where the process can be told to die, and mistakes it can be told to make.
//!
//! Without the features `fault-points` and `mutants` both are nothing: no variable is read, and no code is left of them.
//! `EBB_CRASH_AT=name:count` kills the process, as kill -9 does, when the named place is passed for the `count`th time;
//! with `EBB_PANIC_AT=name:count` the thread panics there.
//! `EBB_MUTANT=name` breaks one rule of recovery, so that a test can show that it would notice.

/// Every place that can be named, in the order in which a record passes them.
pub const POINTS: [&str; 16] = [
    "before_fence",
    "after_fence",
    "before_committed",
    "after_committed",
    "mid_replay",
    "before_produce",
    "after_produce",
    "before_offsets",
    "after_offsets",
    "during_commit",
    "after_commit",
    "before_checkpoint",
    "after_checkpoint_write",
    "after_checkpoint",
    "before_snapshot",
    "after_snapshot",
];

/// Rules that a mutant breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Commits the offset of the last record instead of the one behind it.
    OffsetNotPlusOne,
    /// Commits one record that was not read yet.
    OffsetPlusTwo,
    /// Emits what is only replayed.
    EmitDuringReplay,
    /// Skips the replay between the checkpoint and the committed offset.
    SkipReplay,
    /// Takes checkpoints of what is not committed, and restores them.
    CheckpointBeforeCommit,
    /// Takes a failed commit for a good one.
    IgnoreCommitError,
    /// After a failed transaction, goes on with the state that it left.
    KeepStateAfterAbort,
    /// Writes outputs outside of the transaction.
    NoTransaction,
    /// Commits the offsets on their own, before the outputs.
    OffsetsFirst,
    /// Does not look whether the log is the one that was folded.
    SkipIdentity,
    /// Does not look which outputs readers have.
    BelieveOffsets,
}

impl Mutant {
    pub const ALL: [Mutant; 11] = [
        Mutant::OffsetNotPlusOne,
        Mutant::OffsetPlusTwo,
        Mutant::EmitDuringReplay,
        Mutant::SkipReplay,
        Mutant::CheckpointBeforeCommit,
        Mutant::IgnoreCommitError,
        Mutant::KeepStateAfterAbort,
        Mutant::NoTransaction,
        Mutant::OffsetsFirst,
        Mutant::SkipIdentity,
        Mutant::BelieveOffsets,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Mutant::OffsetNotPlusOne => "offset-not-plus-one",
            Mutant::OffsetPlusTwo => "offset-plus-two",
            Mutant::EmitDuringReplay => "emit-during-replay",
            Mutant::SkipReplay => "skip-replay",
            Mutant::CheckpointBeforeCommit => "checkpoint-before-commit",
            Mutant::IgnoreCommitError => "ignore-commit-error",
            Mutant::KeepStateAfterAbort => "keep-state-after-abort",
            Mutant::NoTransaction => "no-transaction",
            Mutant::OffsetsFirst => "offsets-first",
            Mutant::SkipIdentity => "skip-identity",
            Mutant::BelieveOffsets => "believe-offsets",
        }
    }

    /// Whether the process is to make any mistake. Looking at the outputs would mend most of them unnoticed: whoever makes one
    /// does not look.
    pub(super) fn is_any_on() -> bool {
        Self::ALL.into_iter().any(Self::is_on)
    }

    /// Whether the process is to make this mistake.
    #[cfg(feature = "mutants")]
    pub(super) fn is_on(self) -> bool {
        static ON: std::sync::LazyLock<Option<String>> = std::sync::LazyLock::new(|| std::env::var("EBB_MUTANT").ok());
        ON.as_deref() == Some(self.name())
    }

    /// Whether the process is to make this mistake: never, without the feature.
    #[cfg(not(feature = "mutants"))]
    #[inline(always)]
    pub(super) fn is_on(self) -> bool {
        false
    }
}

/// A place that a variable names, and how often it is passed until something happens there.
#[cfg(feature = "fault-points")]
struct Wanted(Option<(String, std::sync::atomic::AtomicI64)>);

#[cfg(feature = "fault-points")]
impl Wanted {
    fn by(variable: &str) -> Self {
        let read = || {
            let told = std::env::var(variable).ok()?;
            let (name, count) = told.split_once(':')?;
            Some((name.to_owned(), count.parse::<i64>().ok()?.into()))
        };
        Self(read())
    }

    fn is_here(&self, point: &str) -> bool {
        let Some((_, left)) = self.0.as_ref().filter(|(name, _)| name == point) else { return false };
        left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) == 1
    }
}

/// Passes a place where the process can be told to die.
#[cfg(feature = "fault-points")]
pub(super) fn pass(point: &'static str) {
    use std::sync::LazyLock;
    static KILLS: LazyLock<Wanted> = LazyLock::new(|| Wanted::by("EBB_CRASH_AT"));
    static PANICS: LazyLock<Wanted> = LazyLock::new(|| Wanted::by("EBB_PANIC_AT"));
    debug_assert!(POINTS.contains(&point), "{point} is not on the list");
    if KILLS.is_here(point) {
        eprintln!("killed at {point}");
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
    assert!(!PANICS.is_here(point), "told to panic at {point}");
}

/// Passes a place where the process can be told to die: nothing, without the feature.
#[cfg(not(feature = "fault-points"))]
#[inline(always)]
pub(super) fn pass(_point: &'static str) {}

/// Passes a place somewhere inside of a call that takes a while.
#[cfg(feature = "fault-points")]
pub(super) fn pass_during<T>(point: &'static str, call: impl FnOnce() -> T) -> T {
    let inside = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_micros(800));
        pass(point);
    });
    let result = call();
    let _ = inside.join();
    result
}

/// Passes a place somewhere inside of a call: just the call, without the feature.
#[cfg(not(feature = "fault-points"))]
#[inline(always)]
pub(super) fn pass_during<T>(_point: &'static str, call: impl FnOnce() -> T) -> T {
    call()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_and_mutants_have_names_of_their_own() {
        let mut points = POINTS.to_vec();
        points.sort_unstable();
        points.dedup();
        assert_eq!(points.len(), POINTS.len());
        let mut mutants = Mutant::ALL.map(Mutant::name).to_vec();
        mutants.sort_unstable();
        mutants.dedup();
        assert_eq!(mutants.len(), Mutant::ALL.len());
    }

    #[test]
    #[cfg(not(feature = "mutants"))]
    fn without_the_feature_no_mistake_is_made() {
        assert!(Mutant::ALL.into_iter().all(|mutant| !mutant.is_on()));
    }
}
