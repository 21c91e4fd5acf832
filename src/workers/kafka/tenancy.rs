//! A partition as the poll thread knows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::Feed;
use crate::kafka::Taken;
use ebb_core::NextOffset;

/// How long a partition that cannot be restored yet is left alone: longer after every try.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
const AGAIN_AT_LEAST_EVERY: Duration = Duration::from_secs(3);

/// Whose it is, and under which number it was last assigned.
#[derive(Debug)]
pub(super) struct Tenancy {
    pub(super) worker: usize,
    pub(super) shard: usize,
    epoch: u64,
    /// The group has given it to this instance, and nobody has refused it here.
    pub(super) is_held: bool,
    /// What is fetched of it goes to its worker.
    pub(super) is_read: bool,
    /// When its worker is asked again where to begin, and how long it was left alone before.
    again_at: Option<Instant>,
    pub(super) alone: Duration,
    pub(super) waiting: Arc<AtomicUsize>,
    /// Up to where its worker knows the log.
    pub(super) told: NextOffset,
}

impl Tenancy {
    /// One of another instance, for now.
    pub(super) fn at((worker, shard): (usize, usize)) -> Self {
        Self {
            worker,
            shard,
            epoch: 0,
            is_held: false,
            is_read: false,
            again_at: None,
            alone: Duration::ZERO,
            waiting: Arc::default(),
            told: NextOffset(0),
        }
    }

    /// Its worker is asked where to begin: what was handed over before counts no more.
    pub(super) fn begin(&mut self, epoch: u64) {
        (self.epoch, self.waiting, self.told) = (epoch, Arc::default(), NextOffset(0));
        (self.is_read, self.again_at) = (false, None);
    }

    pub(super) fn end(&mut self) {
        (self.is_held, self.is_read, self.again_at, self.epoch) = (false, false, None, 0);
    }

    /// Its worker is asked again, later every time.
    pub(super) fn put_off(&mut self) {
        self.is_read = false;
        self.alone = (2 * self.alone).clamp(AGAIN_AFTER, AGAIN_AT_LEAST_EVERY);
        self.again_at = Some(Instant::now() + self.alone);
    }

    pub(super) fn is_due(&self) -> bool {
        self.again_at.is_some_and(|at| at <= Instant::now())
    }

    pub(super) fn hand(&self, feeds: &[UnboundedSender<Feed>], taken: Taken) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let (shard, epoch, waiting) = (self.shard, self.epoch, self.waiting.clone());
        // A worker that has ended needs nothing.
        let _ = feeds[self.worker].send(Feed::Taken { shard, epoch, taken, waiting });
    }
}
