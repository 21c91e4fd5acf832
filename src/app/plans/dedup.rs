//! Maps the keys of the dedup view to its filter, penalties and rules.

use anyhow::Context;

use super::index_of;
use crate::config::dedup::{
    CostConfig, DedupConfig, FilterKind, FilterSizing, KeyRuleConfig, PenaltyConfig, PriorConfig, WindowConfig,
};
use ebb_core::{
    ArrivalShare, Cost, DedupSpec, FilterSpec, IsolationSpec, KeyRule, KeyRules, Path, Penalties, PenaltySpec,
    PriorStrata, Reader, Seen, ShareSource,
};
use ebb_sketch::filter::inference::PriorSpec;
use ebb_sketch::filter::planning::sizing::{self, Budget, Workload};
use ebb_sketch::filter::planning::stationary::ValueShares;
use ebb_sketch::filter::planning::tuning::tune_decrements;
use ebb_sketch::filter::structure::layout::{CellLayout, LINE_BYTES};
use ebb_sketch::filter::structure::stable::StableSpec;
use ebb_sketch::filter::structure::stable::importance::{ImportanceRule as RaiseRule, ImportanceScale};
use ebb_sketch::filter::structure::timing::{ClockSpec, TimingSpec};

/// Items whose history is tracked exactly, from which the prior is learned.
const SAMPLED_ITEMS: u32 = 4096;

pub(super) fn dedup_spec(dedup: &DedupConfig, numbers: &[Path], reader: &Reader) -> anyhow::Result<DedupSpec> {
    let filter = filter_spec(dedup)?;
    let isolation = match (&filter, dedup.isolate) {
        (_, 0) => None,
        (FilterSpec::Timing { spec, prior }, filters) => {
            Some(isolation_spec(spec, *prior, filters as u32, dedup.seen)?)
        }
        (FilterSpec::Stable { .. } | FilterSpec::Classic { .. }, _) => {
            anyhow::bail!("isolate: requires filter: timing")
        }
    };
    Ok(DedupSpec {
        filter,
        seen: dedup.seen,
        penalty: dedup.penalty.as_ref().map(|penalty| penalty_spec(penalty, numbers)),
        share: match &dedup.prior {
            PriorConfig::Field(path) => Some(ShareSource::Field(index_of(path, numbers))),
            PriorConfig::Auto | PriorConfig::AutoFrequency | PriorConfig::Constant(_) => None,
        },
        strata: match dedup.prior {
            PriorConfig::AutoFrequency => PriorStrata::KeysAndFrequency,
            PriorConfig::Auto | PriorConfig::Constant(_) | PriorConfig::Field(_) => PriorStrata::Keys,
        },
        rules: rules(&dedup.rules, numbers, reader)?,
        isolation,
    })
}

/// The filter of the view.
pub(in crate::app) fn filter_spec(dedup: &DedupConfig) -> anyhow::Result<FilterSpec> {
    let raise_rule: fn(u8) -> RaiseRule = match dedup.filter {
        FilterKind::Timing => {
            let spec = timing_spec(dedup)?;
            return Ok(match dedup.prior {
                PriorConfig::Auto | PriorConfig::AutoFrequency | PriorConfig::Field(_) => {
                    FilterSpec::learning(spec, SAMPLED_ITEMS)?
                }
                PriorConfig::Constant(p) => {
                    FilterSpec::Timing { spec, prior: PriorSpec::Constant(ArrivalShare::new(p)?) }
                }
            });
        }
        FilterKind::Classic => {
            let share = match dedup.prior {
                PriorConfig::Constant(p) => Some(ArrivalShare::new(p)?),
                PriorConfig::Auto | PriorConfig::AutoFrequency | PriorConfig::Field(_) => None,
            };
            return Ok(FilterSpec::Classic {
                size: CellLayout::in_memory(memory(dedup))?,
                hashes: cells(dedup)?,
                share,
            });
        }
        FilterKind::Stable => |_| RaiseRule::Stable,
        FilterKind::Importance2c => RaiseRule::two_class,
        FilterKind::ImportanceMc => |_| RaiseRule::MultiClass,
        FilterKind::ImportanceH => |_| RaiseRule::Harmonic,
    };
    stable_spec(dedup, raise_rule)
}

/// A filter whose counters are decremented at random.
fn stable_spec(dedup: &DedupConfig, raise_rule: fn(u8) -> RaiseRule) -> anyhow::Result<FilterSpec> {
    let bits = dedup.bits.context("bits: has no value")?;
    let top = ((1u16 << bits) - 1) as u8;
    let spec = StableSpec::new(CellLayout::in_memory(memory(dedup))?, cells(dedup)?, 1, top, raise_rule(top))?;
    let spec = match dedup.decrements {
        Some(decrements) => spec.with_decrements(decrements as u32)?,
        None => tune_decrements(&spec, &ValueShares::uniform(top), dedup.tuning_error())?,
    };
    Ok(FilterSpec::Stable { spec, scale: ImportanceScale::new(dedup.importance_max, top)? })
}

fn cells(dedup: &DedupConfig) -> anyhow::Result<u8> {
    Ok(dedup.cells.context("cells: has no value")? as u8)
}

/// The size of a filter without timers.
fn memory(dedup: &DedupConfig) -> u64 {
    match dedup.sizing() {
        FilterSizing::Memory(memory) => memory.0,
        // The rule of thumb for Bloom filters: ten bits per item for every factor of ten in the error.
        FilterSizing::Error { error, items } => (items * 1.25 * libm::log10(1.0 / error).max(1.0)).max(1024.0) as u64,
    }
}

fn timing_spec(dedup: &DedupConfig) -> anyhow::Result<TimingSpec> {
    let span = match dedup.window {
        WindowConfig::Time(window) => {
            let lateness = dedup.lateness.context("lateness: has no value")?;
            sizing::WindowLength::Time { window_ms: window.0, lateness_ms: lateness.0 }
        }
        WindowConfig::Events(window) => sizing::WindowLength::Count { window },
    };
    // Isolated keys take half of the memory.
    let shares = if dedup.isolate > 0 { 2 } else { 1 };
    let planned = |items, budget| {
        let workload = Workload::new(span, items)?;
        let plan = match (budget, planning_penalties(dedup)) {
            (Budget::Memory(bytes), Some(penalties)) => {
                sizing::plan_for_penalty(&workload, bytes, &penalties, dedup.seen)?
            }
            (Budget::Memory(_), None) | (Budget::Error(_), _) => sizing::plan_filter(&workload, budget)?,
        };
        anyhow::Ok(plan.spec)
    };
    match (dedup.sizing(), dedup.bits, dedup.cells, dedup.blocks) {
        (FilterSizing::Error { error, items }, ..) => planned(items, Budget::Error(error)),
        (FilterSizing::Memory(memory), Some(bits), Some(cells), Some(blocks)) => {
            let layout = CellLayout::Lines(memory.0 / shares / LINE_BYTES);
            Ok(TimingSpec::new(clock_spec(span, blocks), layout, bits as u8, cells as u8)?)
        }
        (FilterSizing::Memory(memory), ..) => {
            let items = dedup.expected_items().context("neither the layout nor the expected traffic is known")?;
            planned(items, Budget::Memory(memory.0 / shares))
        }
    }
}

/// The penalties for which the layout is planned: the configured constants, or equal ones if they are fields of the event.
/// Their ratio is limited, because an extreme one makes all layouts equal.
pub(in crate::app) fn planning_penalties(dedup: &DedupConfig) -> Option<Penalties> {
    const MAX_RATIO: f64 = 100.0;
    let penalty = dedup.penalty.as_ref()?;
    let (CostConfig::Constant(wrong), CostConfig::Constant(missed)) =
        (&penalty.false_duplicate, &penalty.missed_duplicate)
    else {
        return Penalties::new(1.0, 1.0).ok();
    };
    let ratio = if *wrong == *missed { 1.0 } else { (wrong / missed).clamp(1.0 / MAX_RATIO, MAX_RATIO) };
    Penalties::new(ratio, 1.0).ok()
}

/// Divides the window and its lateness into blocks.
fn clock_spec(span: sizing::WindowLength, blocks: u64) -> ClockSpec {
    match span {
        sizing::WindowLength::Time { window_ms, lateness_ms } => {
            let tick_ms = window_ms.saturating_add(lateness_ms).div_ceil(blocks).clamp(1, window_ms.max(1));
            ClockSpec::Time { window_ms, lateness_ms, tick_ms }
        }
        sizing::WindowLength::Count { window } => ClockSpec::Count { window, block: window.div_ceil(blocks).max(1) },
    }
}

/// The filters of isolated keys together have as much memory as the common filter.
fn isolation_spec(common: &TimingSpec, prior: PriorSpec, filters: u32, seen: Seen) -> anyhow::Result<IsolationSpec> {
    let ClockSpec::Time { .. } = common.clock() else {
        anyhow::bail!("isolate: requires a time window");
    };
    let lines = common.memory_bytes() / LINE_BYTES / u64::from(filters);
    let filter =
        TimingSpec::new(common.clock(), CellLayout::Lines(lines), common.timer_bits(), common.cells_per_item())
            .with_context(|| format!("isolate: the memory is too small for {filters} additional filters"))?;
    Ok(IsolationSpec { filters, filter, prior, seen, shared: *common })
}

fn penalty_spec(penalty: &PenaltyConfig, numbers: &[Path]) -> PenaltySpec {
    let cost = |cost: &CostConfig| match cost {
        CostConfig::Constant(cost) => Cost::Constant(*cost),
        CostConfig::Field(path) => Cost::Field(index_of(path, numbers)),
    };
    PenaltySpec { false_duplicate: cost(&penalty.false_duplicate), missed_duplicate: cost(&penalty.missed_duplicate) }
}

/// A rule applies to its keys both as JSON strings and, where they have that form, as JSON numbers or literals.
fn rules(configs: &[KeyRuleConfig], numbers: &[Path], reader: &Reader) -> anyhow::Result<KeyRules> {
    let mut rules = Vec::new();
    for config in configs {
        let window = config.window.map(|window| match window {
            WindowConfig::Time(window) => window.0,
            WindowConfig::Events(window) => window,
        });
        let penalty = config.penalty.as_ref().map(|penalty| penalty_spec(penalty, numbers));
        let share = match &config.prior {
            Some(PriorConfig::Constant(p)) => Some(ShareSource::Constant(ArrivalShare::new(*p)?)),
            Some(PriorConfig::Field(path)) => Some(ShareSource::Field(index_of(path, numbers))),
            Some(PriorConfig::Auto | PriorConfig::AutoFrequency) | None => None,
        };
        let rule = KeyRule { window, penalty, share };
        let keys = config.keys.iter();
        let keys = keys.flat_map(|key| [Some(reader.key_fingerprint(key)), reader.bare_key_fingerprint(key)]);
        rules.extend(keys.flatten().map(|key| (key, rule)));
    }
    Ok(KeyRules::new(rules))
}
