//! Calls that must come back: librdkafka has hung in some before. One that does not ends the process, so that whoever
//! started it can start it again; the log is the truth, nothing is lost.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any call is allowed to wait by its own deadline.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// One thread's present call.
#[derive(Debug, Clone, Default)]
pub(super) struct Watchdog {
    call: Arc<Mutex<Option<(&'static str, Instant)>>>,
}

impl Watchdog {
    /// Begins to watch; ends when the last clone is gone.
    pub(super) fn start() -> std::io::Result<Self> {
        let watchdog = Self::default();
        let call = Arc::downgrade(&watchdog.call);
        thread::Builder::new().name("watchdog".into()).spawn(move || watch(&call))?;
        Ok(watchdog)
    }

    /// Makes a call that must come back.
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
            && since.elapsed() > PATIENCE
        {
            tracing::error!(call = name, seconds = since.elapsed().as_secs(), "a call hangs; ending the process");
            std::process::abort();
        }
        thread::sleep(LOOK_EVERY);
    }
}
