//! Counts of events that were rejected before they reached a shard.
//!
//! A shard counts the records of its log, and an event that cannot be read is never written to the log. These counts are
//! kept beside the shards, so that the status of a stream and the metrics show the same rejections.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::metrics::Metrics;
use ebb_core::Reason;

/// Rejections of one stream since the start of the instance.
#[derive(Debug)]
pub(super) struct EdgeRejections {
    stream: String,
    metrics: Metrics,
    by_reason: [AtomicU64; Reason::ALL.len()],
}

impl EdgeRejections {
    pub(super) fn new(stream: &str, metrics: &Metrics) -> Self {
        Self { stream: stream.to_owned(), metrics: metrics.clone(), by_reason: Default::default() }
    }

    /// Counts rejections here and in the metrics.
    pub(super) fn add(&self, reasons: impl Iterator<Item = Reason>) {
        for reason in reasons {
            self.by_reason[reason as usize].fetch_add(1, Relaxed);
            self.metrics.rejected.with_label_values(&[&self.stream, reason.name()]).inc();
            self.metrics.events.with_label_values(&[self.stream.as_str(), "rejected"]).inc();
        }
    }

    pub(super) fn count(&self, reason: Reason) -> u64 {
        self.by_reason[reason as usize].load(Relaxed)
    }
}
