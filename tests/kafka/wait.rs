//! Polling for a condition with a deadline.

use std::thread;
use std::time::{Duration, Instant};

/// For everything that a loaded machine may take long for.
pub const TIMEOUT: Duration = Duration::from_secs(90);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Polls until the condition holds; panics with `expectation` after `timeout`.
#[track_caller]
pub fn wait_until(expectation: &str, timeout: Duration, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < timeout, "{expectation}: not within {timeout:?}");
        thread::sleep(POLL_INTERVAL);
    }
}
