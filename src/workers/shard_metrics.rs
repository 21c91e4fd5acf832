//! Metrics of shards, for as long as this instance owns them.

use crate::metrics::{Metrics, ShardMetrics};
use crate::store::ShardId;
use ebb_core::{AggregateStatus, Basis, Outcome, Plan, Reason, Refusal, ShardStatus, Verdict, VerdictCounts};

/// Figures of a shard.
pub(super) struct ShardFigures<'a> {
    pub(super) id: &'a ShardId,
    pub(super) status: &'a ShardStatus,
    /// Records that are not folded yet, if the end of the log is known.
    pub(super) lag: Option<u64>,
    /// Timestamp of the newest record.
    pub(super) timestamp_ms: Option<i64>,
}

pub(super) fn report(figures: &ShardFigures<'_>, metrics: &Metrics) {
    let ShardFigures { id, status, lag, timestamp_ms } = figures;
    let (shards, partition) = (&metrics.shards, id.partition.to_string());
    let labels = [id.stream.as_str(), partition.as_str()];
    shards.fill.with_label_values(&labels).set(status.fill);
    shards.false_duplicates.with_label_values(&labels).set(status.false_duplicate_rate);
    for basis in Basis::ALL {
        let labels = [labels[0], labels[1], basis.name()];
        shards.policy.with_label_values(&labels).set(i64::from(status.basis == basis));
    }
    shards.previous_key_needed.with_label_values(&labels).set(i64::from(status.needs_previous_key));
    shards.isolated_keys.with_label_values(&labels).set(status.isolated_keys as i64);
    shards.exhausted_counts.with_label_values(&labels).set(status.exhausted_counts as i64);
    shards.refused_weights.with_label_values(&labels).set(status.refused_weights as i64);
    shards.state_bytes.with_label_values(&labels).set(status.memory_bytes as i64);
    if let Some(error) = status.calibration_error {
        shards.calibration_error.with_label_values(&labels).set(error);
    }
    if let Some(lag) = lag {
        shards.lag.with_label_values(&labels).set(*lag as i64);
    }
    if let Some(time_ms) = status.as_of.time_ms {
        shards.event_time.with_label_values(&labels).set(time_ms as f64 / 1e3);
        if let Some(timestamp_ms) = timestamp_ms {
            shards.clock_skew.with_label_values(&labels).set((time_ms as f64 - *timestamp_ms as f64) / 1e3);
        }
    }
    status.aggregates.iter().for_each(|aggregate| report_aggregate(labels, aggregate, shards));
}

fn report_aggregate([stream, partition]: [&str; 2], status: &AggregateStatus, shards: &ShardMetrics) {
    let labels = [stream, partition, status.name.as_str()];
    shards.aggregate_events.with_label_values(&labels).set(status.events as i64);
    shards.aggregate_bytes.with_label_values(&labels).set(status.memory_bytes as i64);
    shards.aggregate_coarseness.with_label_values(&labels).set(i64::from(status.coarseness));
    for refusal in Refusal::ALL {
        let labels = [stream, partition, status.name.as_str(), refusal.name()];
        shards.aggregate_refused.with_label_values(&labels).set(status.refused[refusal as usize] as i64);
    }
    if let Some(keys) = status.keys {
        shards.aggregate_keys.with_label_values(&labels).set(keys.keys as i64);
        shards.aggregate_waiting.with_label_values(&labels).set(keys.waiting as i64);
        shards.aggregate_evicted.with_label_values(&labels).set(keys.evictions as i64);
        shards.aggregate_other.with_label_values(&labels).set(keys.other_events as i64);
    }
}

/// Removes the metrics of a shard that moved away: stale values would look like a shard that is stuck.
pub(super) fn remove(id: &ShardId, plan: &Plan, metrics: &Metrics) {
    let (shards, partition) = (&metrics.shards, id.partition.to_string());
    let labels = [id.stream.as_str(), partition.as_str()];
    let whole = [
        &shards.lag,
        &shards.isolated_keys,
        &shards.previous_key_needed,
        &shards.exhausted_counts,
        &shards.refused_weights,
        &shards.state_bytes,
    ];
    let real = [&shards.event_time, &shards.clock_skew, &shards.fill, &shards.false_duplicates];
    // An error means that the value was never set.
    whole.into_iter().chain([&metrics.checkpoint_bytes]).for_each(|gauges| drop(gauges.remove_label_values(&labels)));
    let real = real.into_iter().chain([&shards.calibration_error, &metrics.checkpoint_time]);
    real.for_each(|gauges| drop(gauges.remove_label_values(&labels)));
    for basis in Basis::ALL {
        drop(shards.policy.remove_label_values(&[labels[0], labels[1], basis.name()]));
    }
    for name in plan.aggregates.iter().map(|aggregate| aggregate.name()) {
        remove_aggregate([labels[0], labels[1], name], shards);
    }
}

fn remove_aggregate(labels: [&str; 3], shards: &ShardMetrics) {
    let gauges = [
        &shards.aggregate_events,
        &shards.aggregate_keys,
        &shards.aggregate_waiting,
        &shards.aggregate_evicted,
        &shards.aggregate_other,
        &shards.aggregate_bytes,
        &shards.aggregate_coarseness,
    ];
    gauges.into_iter().for_each(|gauges| drop(gauges.remove_label_values(&labels)));
    for refusal in Refusal::ALL {
        drop(shards.aggregate_refused.remove_label_values(&[labels[0], labels[1], labels[2], refusal.name()]));
    }
}

/// Counts verdicts and bases, once per batch.
pub(super) fn count_outcomes<'a>(stream: &str, outcomes: impl Iterator<Item = &'a Outcome>, metrics: &Metrics) {
    let (mut verdicts, mut bases, mut overruled) = (VerdictCounts::default(), [0; Basis::ALL.len()], 0);
    for outcome in outcomes {
        verdicts.add(outcome.verdict);
        if let Some(answer) = &outcome.answer {
            bases[answer.basis as usize] += 1;
            overruled += u64::from(answer.is_overruled);
        }
    }
    if overruled > 0 {
        metrics.overruled.with_label_values(&[stream]).inc_by(overruled);
    }
    let named = [Verdict::Unique, Verdict::Duplicate, Verdict::Late].into_iter().zip([
        verdicts.unique,
        verdicts.duplicate,
        verdicts.late,
    ]);
    for (verdict, count) in named.filter(|(_, count)| *count > 0) {
        metrics.events.with_label_values(&[stream, verdict.name()]).inc_by(count);
    }
    for reason in Reason::ALL.into_iter().filter(|reason| verdicts.rejected(*reason) > 0) {
        metrics.rejected.with_label_values(&[stream, reason.name()]).inc_by(verdicts.rejected(reason));
        metrics.events.with_label_values(&[stream, "rejected"]).inc_by(verdicts.rejected(reason));
    }
    for (basis, count) in Basis::ALL.into_iter().zip(bases).filter(|(_, count)| *count > 0) {
        metrics.decisions.with_label_values(&[stream, basis.name()]).inc_by(count);
    }
}
