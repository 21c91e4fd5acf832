//! The evaluation of one stream: the shards of the service with an exact oracle beside them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::aggregate_check::AggregateCheck;
use super::exact::EventTime;
use super::oracle::{DecidedItem, Oracle};
use super::report::{self, ClassErrors, MemoryPoint, MemoryReport, StreamReport, VerdictTotals};
use super::statistic_check::Moment;
use super::tally::{DecisionSample, DecisionTally, ErrorCounts};
use crate::EvalStream;
use ebb_core::{
    AggregateAnswer, AggregateError, AggregateQuestion, AggregateSpec, DedupSpec, Event, FilterSpec, Plan, Reason,
    Seen, Shard, Span, Verdict, VerdictCounts, ViewError, partition_of,
};
use ebb_sketch::decay::Decay;
use ebb_sketch::filter::structure::timing::ClockSpec;
use ebb_sketch::hash::Fingerprint;

/// Bytes of an item in an exact hash map: 16 for the fingerprint, 8 for the time, padded to 32, one control byte, and a load
/// factor of 7/8.
const ITEM_BYTES: u64 = 38;
/// Events between two readings of the filter's estimated false positive rate.
const RATE_INTERVAL: u64 = 256;

/// The state of the evaluation of one stream.
#[derive(Debug)]
pub struct StreamEvaluation {
    labels: StreamLabels,
    plan: Arc<Plan>,
    shards: Vec<Shard>,
    /// The same without penalties; empty if none are configured.
    standard_shards: Vec<Shard>,
    /// One per partition, as are the arrivals.
    oracles: Vec<Oracle>,
    arrivals: Vec<i64>,
    aggregates: Vec<AggregateCheck>,
    tally: DecisionTally,
    counts: VerdictCounts,
    memory: Vec<MemoryPoint>,
    events: u64,
    /// The record timestamp of all events: those dated much later are rejected, as by the service.
    now_ms: i64,
}

/// How the report describes a stream.
#[derive(Debug, Clone)]
pub struct StreamLabels {
    /// The name of the stream.
    pub name: String,
    /// The dedup window, if the filter has one.
    pub window: Option<String>,
    /// The window in which repeats are counted, if the filter itself has none.
    pub counted_within: Option<String>,
    /// The name of the dedup filter.
    pub filter: &'static str,
}

impl StreamEvaluation {
    pub fn new(stream: EvalStream, decays: &[Decay], now_ms: i64) -> Result<Self, ViewError> {
        let EvalStream { labels, plan, partitions } = stream;
        let standard = plan.dedup.without_penalties();
        let has_penalties = standard != plan.dedup;
        let standard_plan = Plan { dedup: standard, frequency: None, aggregates: Vec::new(), ..plan.as_ref().clone() };
        let standard_plan = Arc::new(standard_plan);
        let shards = |plan: &Arc<Plan>| (0..partitions).map(|p| Shard::new(plan.clone(), p)).collect::<Result<_, _>>();
        Ok(Self {
            labels,
            shards: shards(&plan)?,
            standard_shards: if has_penalties { shards(&standard_plan)? } else { Vec::new() },
            oracles: (0..partitions).map(|_| Oracle::new(plan.dedup.renewal())).collect(),
            arrivals: vec![0; partitions as usize],
            aggregates: plan.aggregates.iter().map(|spec| AggregateCheck::new(spec, decays)).collect(),
            tally: DecisionTally::new(block_length(&plan.dedup)),
            counts: VerdictCounts::default(),
            memory: Vec::new(),
            events: 0,
            now_ms,
            plan,
        })
    }

    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Processes one line of the file as the service would.
    pub fn add_line(&mut self, payload: &[u8]) {
        self.events += 1;
        match self.plan.reader.read(payload) {
            // The service rejects it before it becomes a record.
            Err(reason) => self.counts.add(Verdict::Rejected(reason)),
            Ok(event) => self.add_event(&event),
        }
        if self.events.is_multiple_of(RATE_INTERVAL) {
            self.read_rate();
        }
    }

    fn add_event(&mut self, event: &Event) {
        let partition = partition_of(event.route, self.shards.len());
        let shard = &mut self.shards[partition];
        let class = event.importance.and_then(|importance| shard.importance_class(importance));
        let outcome = shard.fold(shard.next().0, self.now_ms, Ok(event));
        let standard = match self.standard_shards.get_mut(partition) {
            None => outcome.verdict,
            Some(shard) => shard.fold(shard.next().0, self.now_ms, Ok(event)).verdict,
        };
        self.counts.add(outcome.verdict);
        let Some(answer) = outcome.answer else { return };
        let dedup = &self.plan.dedup;
        let time_ms = event.time_ms.unwrap_or(self.now_ms);
        let (stamp, window) = match counted_window(dedup, event.key) {
            // By arrivals the previous event has age 0.
            Some(Span::Events(window)) => (self.arrivals[partition], window.saturating_add(1)),
            Some(Span::Milliseconds(window)) => (time_ms, window),
            None => (time_ms, u64::MAX),
        };
        self.arrivals[partition] += 1;
        let decided = DecidedItem { item: event.item, stamp, window, verdict: answer.verdict };
        let truth = self.oracles[partition].observe(&decided);
        let penalties = dedup.penalties(event.key, &event.numbers);
        self.tally.add(&DecisionSample { truth, answer: &answer, standard, penalties, class });
        let time = EventTime { time_ms, clock_ms: self.shards[partition].as_of().time_ms.unwrap_or(time_ms) };
        self.aggregates.iter_mut().for_each(|one| one.exact.add(event, answer.verdict, time));
    }

    fn read_rate(&mut self) {
        let rates = self.shards.iter().map(|shard| shard.status().false_duplicate_rate);
        self.tally.add_rate(rates.sum::<f64>() / self.shards.len() as f64);
    }

    /// Queries every aggregate and measures the exact memory.
    pub fn query_aggregates(&mut self) {
        self.read_rate();
        let exact_bytes = ITEM_BYTES * self.live_items();
        self.memory.push(MemoryPoint { events: self.events, exact_bytes });
        let Some(time_ms) = self.shards.iter().filter_map(|shard| shard.as_of().time_ms).max() else { return };
        let moment = Moment { events: self.events, time_ms };
        let shards = &self.shards;
        self.aggregates.iter_mut().for_each(|one| one.compare(moment, |spec, question| query(shards, spec, question)));
    }

    fn live_items(&self) -> u64 {
        let lateness = match clock_spec(&self.plan.dedup) {
            Some(ClockSpec::Time { lateness_ms, .. }) => lateness_ms,
            Some(ClockSpec::Count { .. }) | None => 0,
        };
        let window = counted_window(&self.plan.dedup, None);
        let reach = match window {
            Some(Span::Milliseconds(window)) => window.saturating_add(lateness),
            Some(Span::Events(window)) => window,
            None => u64::MAX,
        };
        let stamp = |partition: usize| match window {
            Some(Span::Events(_)) => self.arrivals[partition],
            Some(Span::Milliseconds(_)) | None => self.shards[partition].as_of().time_ms.unwrap_or(0),
        };
        self.oracles.iter().enumerate().map(|(partition, oracle)| oracle.live_items(stamp(partition), reach)).sum()
    }

    pub fn report(self) -> StreamReport {
        let status: Vec<_> = self.shards.iter().map(Shard::status).collect();
        let memory_bytes = |index: usize| status.iter().map(|one| one.aggregates[index].memory_bytes).sum();
        let aggregates: Vec<_> =
            self.aggregates.iter().enumerate().map(|(index, one)| one.report(memory_bytes(index))).collect();
        let aggregate_bytes: u64 = aggregates.iter().map(|one| one.memory_bytes).sum();
        let (calibration, (ages, never_seen)) = (self.tally.calibration(), self.tally.ages());
        let has_timing_filter = matches!(self.plan.dedup.filter, FilterSpec::Timing { .. });
        let mut guarantees =
            if has_timing_filter { report::filter_guarantees(&self.tally.standard_answers) } else { Vec::new() };
        guarantees.extend(aggregates.iter().flat_map(report::aggregate_guarantees));
        let exact_bytes = self.memory.iter().map(|point| point.exact_bytes).max().unwrap_or(0);
        StreamReport {
            name: self.labels.name,
            window: self.labels.window,
            counted_within: self.labels.counted_within,
            seen: match self.plan.dedup.renewal() {
                Seen::First => "first",
                Seen::Last => "last",
            },
            filter: self.labels.filter,
            partitions: self.shards.len(),
            verdicts: verdict_totals(&self.counts),
            bases: self.tally.bases.clone(),
            penalty: self.tally.penalty(),
            errors: self.tally.errors,
            classes: class_errors(&self.plan, self.tally.classes),
            standard_errors: self.tally.standard_errors,
            standard_answers: self.tally.standard_answers,
            calibration,
            ages,
            never_seen,
            memory: MemoryReport {
                filter_bytes: status.iter().map(|one| one.memory_bytes).sum::<u64>().saturating_sub(aggregate_bytes),
                exact_items: exact_bytes / ITEM_BYTES,
                exact_bytes,
                over_time: self.memory,
            },
            aggregates,
            guarantees,
        }
    }
}

fn query(
    shards: &[Shard],
    spec: &AggregateSpec,
    question: &AggregateQuestion,
) -> Result<AggregateAnswer, AggregateError> {
    let parts: Result<Vec<_>, _> = shards.iter().map(|shard| shard.partial_aggregate(question)).collect();
    spec.answer(question, parts?)
}

fn verdict_totals(counts: &VerdictCounts) -> VerdictTotals {
    let rejected: BTreeMap<_, _> = Reason::ALL.map(|reason| (reason.name(), counts.rejected(reason))).into();
    VerdictTotals {
        unique: counts.unique,
        duplicate: counts.duplicate,
        late: counts.late,
        rejected: rejected.into_iter().filter(|(_, count)| *count > 0).collect(),
    }
}

fn clock_spec(dedup: &DedupSpec) -> Option<ClockSpec> {
    match &dedup.filter {
        FilterSpec::Timing { spec, .. } => Some(spec.clock()),
        FilterSpec::Stable(_) | FilterSpec::Classic { .. } => None,
    }
}

/// The window in which repeats of a key's items are counted: that of the filter, or the one that a filter without window
/// is planned for.
fn counted_window(dedup: &DedupSpec, key: Option<Fingerprint>) -> Option<Span> {
    match (&dedup.filter, dedup.key_window(key)) {
        (FilterSpec::Timing { spec, .. }, Some(window)) => Some(match spec.clock() {
            ClockSpec::Time { .. } => Span::Milliseconds(window),
            ClockSpec::Count { .. } => Span::Events(window),
        }),
        (FilterSpec::Stable(spec), _) => spec.window,
        (FilterSpec::Timing { .. } | FilterSpec::Classic { .. }, _) => None,
    }
}

fn class_errors(plan: &Plan, classes: BTreeMap<u8, ErrorCounts>) -> Vec<ClassErrors> {
    let Some(spec) = plan.dedup.filter.stable() else { return Vec::new() };
    let named = plan.reader.spec().importance_classes.as_ref();
    let named = |(value, errors)| ClassErrors { class: spec.class_name(value, named), errors };
    classes.into_iter().map(named).collect()
}

/// The resolution of the filter, in the unit of the window; 0 if it has none.
fn block_length(dedup: &DedupSpec) -> u64 {
    clock_spec(dedup).map_or(0, |clock| clock.block())
}
