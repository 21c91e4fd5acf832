//! The deadline of a request: one timer for reading the body and for every wait on the workers.

use std::pin::Pin;

use tokio::time::{Sleep, sleep};

use super::server::HttpLimits;

#[derive(Debug)]
pub(super) struct RequestDeadline(Pin<Box<Sleep>>);

impl RequestDeadline {
    /// Starts now.
    pub(super) fn start(limits: &HttpLimits) -> Self {
        Self(Box::pin(sleep(limits.request_timeout)))
    }

    /// The output of `work`, or `None` when the deadline passes first.
    pub(super) async fn run<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            output = work => Some(output),
            () = &mut self.0 => None,
        }
    }
}
