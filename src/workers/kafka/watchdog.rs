//! Ends the process if a call hangs (K7), as librdkafka has been seen to do. The orchestrator restarts it; the log has
//! everything, so that nothing is lost.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than the timeout of any call.
const TIMEOUT: Duration = Duration::from_secs(120);
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The present call of a thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Watchdog {
    call: Arc<Mutex<Option<(&'static str, Instant)>>>,
}

impl Watchdog {
    /// Starts watching; ends when the last clone is dropped.
    pub(super) fn start() -> std::io::Result<Self> {
        let watchdog = Self::default();
        let call = Arc::downgrade(&watchdog.call);
        thread::Builder::new().name("watchdog".into()).spawn(move || watch(&call))?;
        Ok(watchdog)
    }

    /// Makes a call that must return.
    pub(super) fn during<T>(&self, name: &'static str, call: impl FnOnce() -> T) -> T {
        *self.call.lock().unwrap_or_else(PoisonError::into_inner) = Some((name, Instant::now()));
        let result = call();
        *self.call.lock().unwrap_or_else(PoisonError::into_inner) = None;
        result
    }
}

fn watch(call: &Weak<Mutex<Option<(&'static str, Instant)>>>) {
    while let Some(call) = call.upgrade() {
        let present = *call.lock().unwrap_or_else(PoisonError::into_inner);
        drop(call);
        if let Some((name, since)) = present
            && since.elapsed() > TIMEOUT
        {
            tracing::error!(call = name, seconds = since.elapsed().as_secs(), "a call hangs, ending the process");
            std::process::abort();
        }
        thread::sleep(CHECK_INTERVAL);
    }
}
