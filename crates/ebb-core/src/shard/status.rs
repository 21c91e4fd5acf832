//! Figures of a shard for status pages and metrics.

use super::Shard;
use crate::aggregate::AggregateStatus;
use crate::frequency::FrequencyView;
use crate::offset::AsOf;
use crate::verdict::VerdictCounts;
use ebb_sketch::filter::inference::Basis;
use ebb_sketch::filter::inference::prior::ShareEstimate;
use ebb_sketch::filter::stable_posterior::classes::ClassCounts;

/// Figures of a shard for status pages and metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardStatus {
    /// Position and event time of the figures.
    pub as_of: AsOf,
    /// Records by verdict.
    pub counts: VerdictCounts,
    /// Share of the dedup filter's cells that are in use.
    pub fill: f64,
    /// Probability that an item that was never seen is called a duplicate.
    pub false_duplicate_rate: f64,
    /// What answers to questions with penalties are based on at present: the policy in force, or that the prior is being
    /// learned.
    pub basis: Basis,
    /// The learned share of events that repeat an item of the window; absent while it is learned and with other priors.
    pub repeats: Option<ShareEstimate>,
    /// The largest recent difference between stated probabilities and observed frequencies, where it is measured.
    pub calibration_error: Option<f64>,
    /// Events by importance class, where the filter has classes; see [`crate::StableViewSpec::forgetting`].
    pub classes: Option<ClassCounts>,
    /// Number of keys with a filter of their own.
    pub isolated_keys: usize,
    /// Whether state recorded under the previous hash key is still remembered.
    pub needs_previous_key: bool,
    /// How often a counter of the frequency view overflowed.
    pub exhausted_counts: u64,
    /// Events that the frequency view did not count because their weight was out of range.
    pub refused_weights: u64,
    /// Figures of the aggregates, in the order of the plan.
    pub aggregates: Vec<AggregateStatus>,
    /// Memory of all views.
    pub memory_bytes: u64,
}

impl Shard {
    /// The class of an importance, where the dedup filter has classes.
    pub fn importance_class(&self, importance: f64) -> Option<u8> {
        self.dedup.importance_class(importance)
    }

    /// Figures of the shard and its views.
    pub fn status(&self) -> ShardStatus {
        let aggregates: Vec<AggregateStatus> =
            self.aggregates.iter().zip(&self.plan.aggregates).map(|(aggregate, spec)| aggregate.status(spec)).collect();
        ShardStatus {
            as_of: self.as_of(),
            counts: self.counts,
            fill: self.dedup.fill(),
            false_duplicate_rate: self.dedup.false_duplicate_rate(),
            basis: self.dedup.basis(),
            repeats: self.dedup.repeats(),
            calibration_error: self.dedup.calibration_error(),
            classes: self.dedup.classes().cloned(),
            isolated_keys: self.dedup.isolated_keys(),
            needs_previous_key: self.rotation.is_some(),
            exhausted_counts: self.frequency.as_ref().map_or(0, FrequencyView::lost_increments),
            refused_weights: self.frequency.as_ref().map_or(0, FrequencyView::refused),
            memory_bytes: self.dedup.memory_bytes()
                + self.frequency.as_ref().map_or(0, FrequencyView::memory_bytes)
                + aggregates.iter().map(|aggregate| aggregate.memory_bytes).sum::<u64>(),
            aggregates,
        }
    }
}
