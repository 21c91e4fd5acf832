//! The plain values of the configuration to the plans of the shards.

use std::sync::Arc;

use anyhow::Context;

use crate::config::aggregate::{
    Aggregate as AggregateKeys, Carry as CarryChoice, Frequency as FrequencyKeys, FrequencyMethod,
    Measure as MeasureChoice,
};
use crate::config::dedup::{
    Cost as CostChoice, Dedup, Filter, Penalty, Prior, Rule as RuleKeys, Seen as SeenChoice, Sizing, Window,
};
use crate::config::service;
use crate::config::stream::{Event, Path, Stream, TimeUnit as UnitChoice};
use ebb_core::{
    AggregateParameters, AggregateSpec, Cost, DedupSpec, EventSpec, FilterSpec, IsolationSpec, KeyRule, KeyRules,
    PayloadLimits, PenaltySpec, Plan, Reader, Seen, TimeUnit,
};
use ebb_sketch::filter::frequency::FrequencySpec;
use ebb_sketch::filter::frequency::basic::BasicSpec;
use ebb_sketch::filter::frequency::epochs::EpochSpec;
use ebb_sketch::filter::frequency::forward::ForwardSpec;
use ebb_sketch::filter::frequency::optimised::{Carry, DigitSpec, OptimisedSpec};
use ebb_sketch::filter::importance::{ImportanceScale, Rule as RaiseRule};
use ebb_sketch::filter::inference::PriorSpec;
use ebb_sketch::filter::limiting::ValueShares;
use ebb_sketch::filter::places::Size;
use ebb_sketch::filter::posterior::Share;
use ebb_sketch::filter::sizing::{self, Budget, Demand};
use ebb_sketch::filter::stable::FadingSpec;
use ebb_sketch::filter::timing::{Drive, LINE_BYTES, Layout, TimingSpec, blocks_most};
use ebb_sketch::filter::tuning::tune_decrements;
use ebb_sketch::hash::{HashKey, HashKeys};

/// Items whose past is followed exactly, to learn how soon items come again.
const FOLLOWED: u32 = 4096;
/// Cells an item, where neither the configuration nor a plan says.
const CELLS: u8 = 4;
/// Bits of a timer, where neither the configuration nor a plan says.
const TIMER_BITS: u8 = 4;
/// Bits of a cell of the filters that forget at random.
const FADING_BITS: u64 = 3;
/// The share of false duplicates that filters that forget at random are tuned to.
const FADING_ERROR: f64 = 0.01;
/// Time windows remember this part of themselves more, for events that come late.
const LATENESS_PART: u64 = 8;

/// Draws the hashes by which sketches sample. It need not be secret, for what is sampled was hashed under a secret key, and
/// must not change with that key.
const SAMPLING_SEED: u64 = 0x6562_625f_7365_6564;

/// The plan of one stream under one hash key.
pub fn plan(stream: &Stream, limits: &service::Limits, key: &HashKey) -> anyhow::Result<Arc<Plan>> {
    plan_under(stream, limits, &key.clone().into())
}

/// The plan of one stream.
pub(super) fn plan_under(stream: &Stream, limits: &service::Limits, keys: &HashKeys) -> anyhow::Result<Arc<Plan>> {
    let (numbers, labels) = (number_paths(stream), label_paths(stream));
    let event = event_spec(&stream.event, (numbers.clone(), labels.clone()), limits);
    let reader = Reader::new(event, keys.clone()).context("event")?;
    let frequency = stream.frequency.as_ref().map(frequency_spec).transpose().context("frequency")?;
    Ok(Arc::new(Plan {
        dedup: dedup_spec(&stream.dedup, &numbers, &reader).context("dedup")?,
        aggregates: aggregate_specs(stream, &numbers, &labels, SAMPLING_SEED)?,
        reader: Arc::new(reader),
        max_skew_ms: stream.event.max_skew.0,
        frequency,
    }))
}

/// The paths of all numbers that costs and aggregates refer to, each once.
fn number_paths(stream: &Stream) -> Vec<Path> {
    let measured = stream.aggregates.values().filter_map(|aggregate| match &aggregate.of {
        MeasureChoice::Field(path) => Some(path),
        MeasureChoice::Count | MeasureChoice::Value | MeasureChoice::Weight => None,
    });
    let rules = stream.dedup.rules.iter().filter_map(|rule| rule.penalty.as_ref());
    let costs = stream.dedup.penalty.iter().chain(rules).flat_map(|p| [&p.false_duplicate, &p.missed_duplicate]);
    let costs = costs.filter_map(|cost| match cost {
        CostChoice::Field(path) => Some(path),
        CostChoice::Constant(_) => None,
    });
    let mut paths: Vec<Path> = Vec::new();
    // What is measured comes first: its places are part of the state, those of costs are not.
    for path in measured.chain(costs) {
        if !paths.contains(path) {
            paths.push(path.clone());
        }
    }
    paths
}

/// The paths of all texts that aggregates list, each once.
fn label_paths(stream: &Stream) -> Vec<Path> {
    let mut paths: Vec<Path> = Vec::new();
    for path in stream.aggregates.values().filter_map(|aggregate| aggregate.top.as_ref()) {
        if !paths.contains(path) {
            paths.push(path.clone());
        }
    }
    paths
}

fn aggregate_specs(
    stream: &Stream,
    numbers: &[Path],
    labels: &[Path],
    seed: u64,
) -> anyhow::Result<Vec<AggregateSpec>> {
    let place = |paths: &[Path], path: &Path| {
        paths.iter().position(|known| known == path).expect("all paths of aggregates were gathered")
    };
    let spec = |(name, keys): (&String, &AggregateKeys)| {
        let number = |path: &Path| place(numbers, path);
        let top = keys.top.as_ref().map(|path| place(labels, path));
        let parameters = AggregateParameters { seed, top, ..keys.parameters(name, &stream.event, number) };
        AggregateSpec::new(parameters).map_err(|error| anyhow::anyhow!("aggregates.{name}.{}: {error}", error.key()))
    };
    stream.aggregates.iter().map(spec).collect()
}

fn event_spec(event: &Event, (numbers, labels): (Vec<Path>, Vec<Path>), limits: &service::Limits) -> EventSpec {
    let unit = |unit| match unit {
        UnitChoice::S => TimeUnit::Seconds,
        UnitChoice::Ms => TimeUnit::Milliseconds,
        UnitChoice::Us => TimeUnit::Microseconds,
        UnitChoice::Ns => TimeUnit::Nanoseconds,
        UnitChoice::Rfc3339 => TimeUnit::Rfc3339,
    };
    EventSpec {
        item: event.item.clone(),
        key: event.key.clone(),
        time: event.time.as_ref().map(|time| (time.path.clone(), unit(time.unit))),
        id: event.id.clone(),
        value: event.value.clone(),
        weight: event.weight.clone(),
        importance: event.importance.clone(),
        numbers,
        labels,
        limits: PayloadLimits {
            record_bytes: limits.record.0 as usize,
            depth: limits.depth as u32,
            fields: limits.fields as u32,
            key_bytes: limits.key.0 as usize,
        },
    }
}

fn dedup_spec(dedup: &Dedup, numbers: &[Path], reader: &Reader) -> anyhow::Result<DedupSpec> {
    let seen = match dedup.seen {
        SeenChoice::First => Seen::First,
        SeenChoice::Last => Seen::Last,
    };
    let filter = filter_spec(dedup)?;
    let isolation = match (&filter, dedup.isolate) {
        (_, 0) => None,
        (FilterSpec::Timing { spec, prior }, filters) => Some(isolation_spec(spec, *prior, filters as u32, seen)?),
        (FilterSpec::Fading { .. } | FilterSpec::Classic { .. }, _) => {
            anyhow::bail!("isolate: needs ages, and filter {} keeps none; write filter: timing", dedup.filter.word())
        }
    };
    let penalty = dedup.penalty.as_ref().map(|penalty| penalty_spec(penalty, numbers));
    Ok(DedupSpec { filter, seen, penalty, rules: rules(&dedup.rules, numbers, reader), isolation })
}

pub(super) fn filter_spec(dedup: &Dedup) -> anyhow::Result<FilterSpec> {
    let raise = match dedup.filter {
        Filter::Timing => {
            let spec = timing_spec(dedup)?;
            return Ok(match dedup.prior {
                Prior::Auto | Prior::AutoFrequency => FilterSpec::learning(spec, FOLLOWED)?,
                Prior::Given(p) => FilterSpec::Timing { spec, prior: PriorSpec::Constant(Share::new(p)?) },
            });
        }
        Filter::Classic => {
            let share = match dedup.prior {
                Prior::Given(p) => Some(Share::new(p)?),
                Prior::Auto | Prior::AutoFrequency => None,
            };
            let hashes = dedup.cells.map_or(CELLS, |cells| cells as u8);
            return Ok(FilterSpec::Classic { size: Size::in_memory(memory(dedup))?, hashes, share });
        }
        Filter::Stable => None,
        Filter::Importance2c => Some(RaiseRule::two_class as fn(u8) -> RaiseRule),
        Filter::ImportanceMc => Some((|_| RaiseRule::MultiClass) as fn(u8) -> RaiseRule),
        Filter::ImportanceH => Some((|_| RaiseRule::Harmonic) as fn(u8) -> RaiseRule),
    };
    let top = ((1u16 << dedup.bits.unwrap_or(FADING_BITS)) - 1) as u8;
    let rule = raise.map_or(RaiseRule::Stable, |raise| raise(top));
    let hashes = dedup.cells.map_or(CELLS, |cells| cells as u8);
    let spec = FadingSpec::new(Size::in_memory(memory(dedup))?, hashes, 1, top, rule)?;
    let spec = match dedup.decrements {
        Some(decrements) => spec.with_decrements(decrements as u32)?,
        None => tune_decrements(&spec, &ValueShares::even(top), dedup.error.unwrap_or(FADING_ERROR))?,
    };
    Ok(FilterSpec::Fading { spec, scale: ImportanceScale::new(dedup.importance_max, top)? })
}

fn memory(dedup: &Dedup) -> u64 {
    match dedup.sizing() {
        Sizing::Memory(memory) => memory.0,
        // Ten bits an item and a factor of ten in the error: a classical Bloom filter's rule of thumb.
        Sizing::Error { error, items } => (items * 1.25 * libm::log10(1.0 / error).max(1.0)).max(1024.0) as u64,
    }
}

fn timing_spec(dedup: &Dedup) -> anyhow::Result<TimingSpec> {
    let span = match dedup.window {
        Window::Time(window) => {
            let lateness_ms = dedup.lateness.map_or(window.0 / LATENESS_PART, |late| late.0);
            sizing::Span::Time { window_ms: window.0, lateness_ms }
        }
        Window::Events(window) => sizing::Span::Count { window },
    };
    let by_hand = dedup.bits.is_some() || dedup.cells.is_some() || dedup.blocks.is_some();
    // Isolated keys take half of the memory.
    let halves = if dedup.isolate > 0 { 2 } else { 1 };
    match (dedup.sizing(), dedup.expected_items()) {
        (Sizing::Error { .. }, _) if by_hand => {
            anyhow::bail!("error: chooses bits, cells and blocks by itself; remove them, or write memory: instead")
        }
        (Sizing::Error { error, items }, _) => Ok(sizing::plan(&Demand::new(span, items)?, Budget::Error(error))?.spec),
        (Sizing::Memory(memory), Some(items)) if !by_hand => {
            Ok(sizing::plan(&Demand::new(span, items)?, Budget::Memory(memory.0 / halves))?.spec)
        }
        (Sizing::Memory(memory), _) => timing_by_hand(dedup, span, memory.0 / halves),
    }
}

/// A layout of the given bits, cells and blocks, where they are given.
fn timing_by_hand(dedup: &Dedup, span: sizing::Span, memory: u64) -> anyhow::Result<TimingSpec> {
    let bits = dedup.bits.map_or(TIMER_BITS, |bits| bits as u8);
    let cells = dedup.cells.map_or(CELLS, |cells| cells as u8);
    // One block less than the timers can tell apart leaves the sweep a tick to spare.
    let blocks = dedup.blocks.unwrap_or(blocks_most(bits) - 1).max(1);
    let drive = match span {
        sizing::Span::Time { window_ms, lateness_ms } => {
            let tick_ms = window_ms.saturating_add(lateness_ms).div_ceil(blocks).clamp(1, window_ms.max(1));
            Drive::Time { window_ms, lateness_ms, tick_ms }
        }
        sizing::Span::Count { window } => Drive::Count { window, block: window.div_ceil(blocks).max(1) },
    };
    Ok(TimingSpec::new(drive, Layout::Lines(memory / LINE_BYTES), bits, cells)?)
}

/// The isolated keys share as much memory among them as the common filter has.
fn isolation_spec(common: &TimingSpec, prior: PriorSpec, filters: u32, seen: Seen) -> anyhow::Result<IsolationSpec> {
    let Drive::Time { .. } = common.drive() else {
        anyhow::bail!("isolate: needs a window of time; write one, or isolate: 0");
    };
    let lines = common.memory_bytes() / LINE_BYTES / u64::from(filters);
    let filter = TimingSpec::new(common.drive(), Layout::Lines(lines), common.timer_bits(), common.cells_per_item())
        .with_context(|| format!("isolate: the memory does not suffice for {filters} filters more"))?;
    Ok(IsolationSpec { filters, filter, prior, seen, shared: *common })
}

fn penalty_spec(penalty: &Penalty, numbers: &[Path]) -> PenaltySpec {
    let cost = |cost: &CostChoice| match cost {
        CostChoice::Constant(cost) => Cost::Constant(*cost),
        CostChoice::Field(path) => {
            Cost::Field(numbers.iter().position(|known| known == path).expect("all paths of costs were gathered"))
        }
    };
    PenaltySpec { false_duplicate: cost(&penalty.false_duplicate), missed_duplicate: cost(&penalty.missed_duplicate) }
}

/// A key may stand in quotes or not: the rule holds for both.
fn rules(rules: &[RuleKeys], numbers: &[Path], reader: &Reader) -> KeyRules {
    KeyRules::new(rules.iter().flat_map(|keys| {
        let window = keys.window.map(|window| match window {
            Window::Time(window) => window.0,
            Window::Events(window) => window,
        });
        let penalty = keys.penalty.as_ref().map(|penalty| penalty_spec(penalty, numbers));
        let rule = KeyRule { window, penalty };
        keys.keys
            .iter()
            .flat_map(|key| [Some(reader.key_fingerprint(key)), reader.bare_key_fingerprint(key)])
            .flatten()
            .map(move |key| (key, rule))
    }))
}

fn frequency_spec(keys: &FrequencyKeys) -> anyhow::Result<FrequencySpec> {
    let (size, hashes) = (Size::in_memory(keys.memory.0)?, keys.cells as u8);
    let half_life = keys.half_life.0;
    let steps = keys.epoch.map_or(16, |epoch| half_life.div_ceil(epoch.0.max(1)).clamp(1, 1 << 16) as u32);
    Ok(match keys.method {
        FrequencyMethod::Forward => FrequencySpec::Forward(ForwardSpec::new(size, hashes, half_life)?),
        FrequencyMethod::Basic => FrequencySpec::Basic(BasicSpec::new(
            size,
            hashes,
            EpochSpec::halving(half_life, steps.min(half_life as u32))?,
            8,
        )?),
        FrequencyMethod::Optimised => {
            let carry = match keys.carry {
                CarryChoice::Each => Carry::Each,
                CarryChoice::All => Carry::All,
            };
            let cells = keys.memory.0 * 2;
            let form = DigitSpec { digit_bits: 4, fraction_bits: 4, pool: (cells / 8).clamp(1, 1 << 30) as u32, carry };
            FrequencySpec::Optimised(OptimisedSpec::new(size, hashes, EpochSpec::halving(half_life, steps)?, form)?)
        }
    })
}
