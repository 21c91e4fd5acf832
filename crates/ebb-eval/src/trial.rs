//! One stream over the file: the same shards as in the service, the exact memory beside them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::checks::{Checked, Moment};
use super::exact::When;
use super::oracle::{Oracle, Sighting};
use super::report::{self, Memory, MemoryPoint, StreamReport, Verdicts};
use super::tally::{Decided, Tally};
use crate::EvalStream;
use ebb_core::{
    AggregateAnswer, AggregateError, AggregateQuestion, AggregateSpec, DedupSpec, Event, FilterSpec, Plan, Reason,
    Seen, Shard, Verdict, VerdictCounts, ViewError, partition_of,
};
use ebb_sketch::decay::Decay;
use ebb_sketch::filter::structure::timing::ClockSpec;

/// Bytes of an item in an exact map: 16 of fingerprint, 8 of time, padded to 32, one of control, seven eighths full.
const ITEM_BYTES: u64 = 38;
/// Events between two looks at how often the filter says it errs.
const LOOK_EVERY: u64 = 256;

/// See the module.
#[derive(Debug)]
pub struct Trial {
    labels: Labels,
    plan: Arc<Plan>,
    shards: Vec<Shard>,
    /// The same without penalties; empty where there are none.
    standard: Vec<Shard>,
    /// By partition.
    oracles: Vec<Oracle>,
    arrivals: Vec<i64>,
    aggregates: Vec<Checked>,
    tally: Tally,
    counts: VerdictCounts,
    memory: Vec<MemoryPoint>,
    events: u64,
    /// When the log takes the events: what is dated much later is rejected, as by the service.
    now_ms: i64,
}

/// What the report calls it.
#[derive(Debug, Clone)]
pub struct Labels {
    pub name: String,
    pub window: Option<String>,
    pub filter: &'static str,
}

impl Trial {
    pub fn new(stream: EvalStream, decays: &[Decay], now_ms: i64) -> Result<Self, ViewError> {
        let EvalStream { labels, plan, partitions } = stream;
        let standard = plan.dedup.without_penalties();
        let has_penalties = standard != plan.dedup;
        let bare = Plan { dedup: standard, frequency: None, aggregates: Vec::new(), ..plan.as_ref().clone() };
        let bare = Arc::new(bare);
        let shards = |plan: &Arc<Plan>| (0..partitions).map(|p| Shard::new(plan.clone(), p)).collect::<Result<_, _>>();
        Ok(Self {
            labels,
            shards: shards(&plan)?,
            standard: if has_penalties { shards(&bare)? } else { Vec::new() },
            oracles: (0..partitions).map(|_| Oracle::new(plan.dedup.seen)).collect(),
            arrivals: vec![0; partitions as usize],
            aggregates: plan.aggregates.iter().map(|spec| Checked::new(spec, decays)).collect(),
            tally: Tally::new(block(&plan.dedup)),
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

    /// One line of the file, as the service would read it.
    pub fn feed(&mut self, payload: &[u8]) {
        self.events += 1;
        match self.plan.reader.read(payload) {
            // Refused at the edge: it never becomes a record.
            Err(reason) => self.counts.add(Verdict::Rejected(reason)),
            Ok(event) => self.record(&event),
        }
        if self.events.is_multiple_of(LOOK_EVERY) {
            self.look();
        }
    }

    fn record(&mut self, event: &Event) {
        let partition = partition_of(event.route, self.shards.len());
        let shard = &mut self.shards[partition];
        let outcome = shard.fold(shard.next().0, self.now_ms, Ok(event));
        let standard = match self.standard.get_mut(partition) {
            None => outcome.verdict,
            Some(shard) => shard.fold(shard.next().0, self.now_ms, Ok(event)).verdict,
        };
        self.counts.add(outcome.verdict);
        let Some(answer) = outcome.answer else { return };
        let dedup = &self.plan.dedup;
        let time_ms = event.time_ms.unwrap_or(self.now_ms);
        let window = dedup.key_window(event.key).unwrap_or(u64::MAX);
        let (stamp, window) = match drive(dedup) {
            // What came just before has age 0 on a clock of arrivals.
            Some(ClockSpec::Count { .. }) => (self.arrivals[partition], window.saturating_add(1)),
            Some(ClockSpec::Time { .. }) | None => (time_ms, window),
        };
        self.arrivals[partition] += 1;
        let sighting = Sighting { item: event.item, stamp, window, verdict: answer.verdict };
        let truth = self.oracles[partition].judge(&sighting);
        let penalties = dedup.penalties(event.key, &event.numbers);
        self.tally.add(&Decided { truth, answer: &answer, standard, penalties });
        let when = When { time_ms, clock_ms: self.shards[partition].as_of().time_ms.unwrap_or(time_ms) };
        self.aggregates.iter_mut().for_each(|one| one.exact.add(event, answer.verdict, when));
    }

    fn look(&mut self) {
        let rates = self.shards.iter().map(|shard| shard.status().false_duplicate_rate);
        self.tally.take_rate(rates.sum::<f64>() / self.shards.len() as f64);
    }

    /// Asks every aggregate, and how much an exact memory would hold.
    pub fn pause(&mut self) {
        self.look();
        let exact_bytes = ITEM_BYTES * self.live_items();
        self.memory.push(MemoryPoint { events: self.events, exact_bytes });
        let Some(time_ms) = self.shards.iter().filter_map(|shard| shard.as_of().time_ms).max() else { return };
        let moment = Moment { events: self.events, time_ms };
        let shards = &self.shards;
        self.aggregates.iter_mut().for_each(|one| one.ask(moment, |spec, question| ask(shards, spec, question)));
    }

    fn live_items(&self) -> u64 {
        let reach = match drive(&self.plan.dedup) {
            Some(ClockSpec::Time { window_ms, lateness_ms, .. }) => window_ms.saturating_add(lateness_ms),
            Some(ClockSpec::Count { window, .. }) => window,
            None => u64::MAX,
        };
        let stamp = |partition: usize| match drive(&self.plan.dedup) {
            Some(ClockSpec::Count { .. }) => self.arrivals[partition],
            Some(ClockSpec::Time { .. }) | None => self.shards[partition].as_of().time_ms.unwrap_or(0),
        };
        self.oracles.iter().enumerate().map(|(partition, oracle)| oracle.live(stamp(partition), reach)).sum()
    }

    pub fn report(self) -> StreamReport {
        let status: Vec<_> = self.shards.iter().map(Shard::status).collect();
        let of_aggregate = |place: usize| status.iter().map(|one| one.aggregates[place].memory_bytes).sum();
        let aggregates: Vec<_> =
            self.aggregates.iter().enumerate().map(|(place, one)| one.report(of_aggregate(place))).collect();
        let kept: u64 = aggregates.iter().map(|one| one.memory_bytes).sum();
        let (calibration, (ages, never_seen)) = (self.tally.calibration(), self.tally.ages());
        let timing = matches!(self.plan.dedup.filter, FilterSpec::Timing { .. });
        let mut promises = if timing { report::filter_promises(&self.tally.own) } else { Vec::new() };
        promises.extend(aggregates.iter().flat_map(report::aggregate_promises));
        let exact_bytes = self.memory.iter().map(|point| point.exact_bytes).max().unwrap_or(0);
        StreamReport {
            name: self.labels.name,
            window: self.labels.window,
            seen: match self.plan.dedup.seen {
                Seen::First => "first",
                Seen::Last => "last",
            },
            filter: self.labels.filter,
            partitions: self.shards.len(),
            verdicts: verdicts(&self.counts),
            bases: self.tally.bases.clone(),
            penalty: self.tally.penalty(),
            mistakes: self.tally.mistakes,
            standard: self.tally.standard,
            own_answers: self.tally.own,
            calibration,
            ages,
            never_seen,
            memory: Memory {
                filter_bytes: status.iter().map(|one| one.memory_bytes).sum::<u64>().saturating_sub(kept),
                exact_items: exact_bytes / ITEM_BYTES,
                exact_bytes,
                over_time: self.memory,
            },
            aggregates,
            promises,
        }
    }
}

fn ask(
    shards: &[Shard],
    spec: &AggregateSpec,
    question: &AggregateQuestion,
) -> Result<AggregateAnswer, AggregateError> {
    let parts: Result<Vec<_>, _> = shards.iter().map(|shard| shard.partial_aggregate(question)).collect();
    spec.answer(question, parts?)
}

fn verdicts(counts: &VerdictCounts) -> Verdicts {
    let rejected: BTreeMap<_, _> = Reason::ALL.map(|reason| (reason.name(), counts.rejected(reason))).into();
    Verdicts {
        unique: counts.unique,
        duplicate: counts.duplicate,
        late: counts.late,
        rejected: rejected.into_iter().filter(|(_, count)| *count > 0).collect(),
    }
}

fn drive(dedup: &DedupSpec) -> Option<ClockSpec> {
    match &dedup.filter {
        FilterSpec::Timing { spec, .. } => Some(spec.clock()),
        FilterSpec::Fading { .. } | FilterSpec::Classic { .. } => None,
    }
}

/// How long the filter takes one moment for another.
fn block(dedup: &DedupSpec) -> u64 {
    drive(dedup).map_or(0, |drive| drive.block())
}
