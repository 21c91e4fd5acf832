//! Named steps at which the process dies or a thread panics.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::unknown_name;

/// Every step, in the order in which a record passes them.
const STEPS: [&str; 16] = [
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
const VARIABLES: [&str; 2] = ["EBB_CRASH_AT", "EBB_PANIC_AT"];

static CRASH: LazyLock<Option<Trigger>> = LazyLock::new(|| Trigger::from_variable(VARIABLES[0]));
static PANIC: LazyLock<Option<Trigger>> = LazyLock::new(|| Trigger::from_variable(VARIABLES[1]));

/// A step and how often it is still passed before something happens.
struct Trigger {
    step: String,
    remaining: AtomicI64,
}

impl Trigger {
    fn from_variable(variable: &str) -> Option<Self> {
        let value = std::env::var(variable).ok()?;
        let (step, count) = value.split_once(':')?;
        Some(Self { step: step.to_owned(), remaining: count.parse::<i64>().ok()?.into() })
    }

    fn fires_at(&self, step: &str) -> bool {
        self.step == step && self.remaining.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

pub(super) fn check_variables() {
    for variable in VARIABLES {
        if let Ok(value) = std::env::var(variable)
            && !Trigger::from_variable(variable).is_some_and(|trigger| STEPS.contains(&trigger.step.as_str()))
        {
            unknown_name(variable, &value);
        }
    }
}

/// Passes a step at which the process can be made to die.
pub(in crate::workers) fn reached(step: &'static str) {
    debug_assert!(STEPS.contains(&step), "{step} is not listed");
    if CRASH.as_ref().is_some_and(|trigger| trigger.fires_at(step)) {
        eprintln!("killed at {step}");
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
    assert!(!PANIC.as_ref().is_some_and(|trigger| trigger.fires_at(step)), "panic requested at {step}");
}

/// Passes a step somewhere inside of a call that takes a while.
pub(in crate::workers) fn reached_during<T>(step: &'static str, call: impl FnOnce() -> T) -> T {
    let inside = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_micros(800));
        reached(step);
    });
    let result = call();
    let _ = inside.join();
    result
}
