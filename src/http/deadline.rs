//! The time that a request has: one timer for all that is waited for, its body and its answer.

use std::pin::Pin;

use tokio::time::{Sleep, sleep};

use super::server::HttpLimits;

/// See the module.
#[derive(Debug)]
pub(super) struct Deadline(Pin<Box<Sleep>>);

impl Deadline {
    /// That of a request that begins now.
    pub(super) fn of(limits: &HttpLimits) -> Self {
        Self(Box::pin(sleep(limits.request_timeout)))
    }

    /// What comes of the work; nothing when the time is over before it.
    pub(super) async fn wait_for<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = &mut self.0 => None,
        }
    }
}
