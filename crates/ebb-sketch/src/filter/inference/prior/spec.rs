//! The parameters of a reuse prior.

use thiserror::Error;

/// Greatest age that is distinguished from "never", in windows. Decisions need no greater one.
pub const HORIZON_WINDOWS: u64 = 2;
/// Steps per window in which the clock of the derived values advances.
const STEPS_PER_WINDOW: u64 = 64;
/// Valid parameters of a reuse prior.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReuseSpec {
    pub(super) window: u64,
    pub(super) max_tracked: u32,
}

/// A window or a sample size out of range.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ReuseError {
    #[error("a window of {requested} is too short or too long to learn from; the nearest is {nearest}")]
    Window { requested: u64, nearest: u64 },
    #[error("{requested} tracked items are too few or too many to learn from; the nearest is {nearest}")]
    Tracked { requested: u32, nearest: u32 },
}

impl ReuseSpec {
    /// `window` in the clock's unit; `max_tracked` bounds the number of tracked items.
    pub fn new(window: u64, max_tracked: u32) -> Result<Self, ReuseError> {
        let nearest = window.clamp(1, 1 << 56);
        if nearest != window {
            return Err(ReuseError::Window { requested: window, nearest });
        }
        let nearest = max_tracked.clamp(16, 1 << 20);
        if nearest != max_tracked {
            return Err(ReuseError::Tracked { requested: max_tracked, nearest });
        }
        Ok(Self { window, max_tracked })
    }

    /// Resolution of ages, in the clock's unit: a finer one would not change any answer.
    pub(super) fn unit(&self) -> u64 {
        (self.window >> 16).max(1)
    }

    pub(super) fn horizon(&self) -> u64 {
        self.window * HORIZON_WINDOWS
    }

    /// Length of a step of the derived values' clock.
    pub(super) fn step(&self) -> u64 {
        (self.window / STEPS_PER_WINDOW).max(1)
    }
}
