//! Steps of recovery at which a test can stop the process. Without the feature `fault-points` they are empty functions.

#[cfg(feature = "fault-points")]
pub(super) use super::fault_injection::crash_points::{reached, reached_during};

#[cfg(not(feature = "fault-points"))]
mod production {
    #[inline(always)]
    pub(in crate::workers) fn reached(_step: &'static str) {}

    #[inline(always)]
    pub(in crate::workers) fn reached_during<T>(_step: &'static str, call: impl FnOnce() -> T) -> T {
        call()
    }
}

#[cfg(not(feature = "fault-points"))]
pub(super) use production::{reached, reached_during};
