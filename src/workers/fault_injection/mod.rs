//! Fault injection for tests, compiled only with the features `fault-points` and `mutants`.
//!
//! `EBB_CRASH_AT=step:count` kills the process, as `kill -9` does, when the step is reached for the `count`th time;
//! `EBB_PANIC_AT=step:count` makes the thread panic there. `EBB_MUTANT=name` replaces one rule of recovery by a wrong one,
//! so that a test can show that it would notice. An unknown name ends the process with status 2.

#[cfg(feature = "fault-points")]
pub(super) mod crash_points;
#[cfg(feature = "mutants")]
pub(super) mod mutants;

/// Ends the process if a variable names something that does not exist: a test would pass without having tested anything.
#[cfg(any(feature = "fault-points", feature = "mutants"))]
pub(super) fn check_variables() {
    #[cfg(feature = "fault-points")]
    crash_points::check_variables();
    #[cfg(feature = "mutants")]
    mutants::check_variables();
}

#[cfg(any(feature = "fault-points", feature = "mutants"))]
fn unknown_name(variable: &str, value: &str) -> ! {
    eprintln!("{variable}={value}: unknown name");
    std::process::exit(2)
}
