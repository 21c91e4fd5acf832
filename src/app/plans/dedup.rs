//! Maps the keys of the dedup view to its filter, penalties and rules.

use anyhow::Context;

use super::index_of;
use crate::config::dedup::{
    ClassesConfig, CostConfig, DedupConfig, FilterKind, FilterSizing, KeyRuleConfig, PenaltyConfig, PriorConfig,
    WindowConfig,
};
use ebb_core::{
    ArrivalShare, ClassScale, Cost, DedupSpec, FilterSpec, IsolationSpec, KeyRule, KeyRules, Path, Penalties,
    PenaltySpec, PriorStrata, Reader, Seen, ShareSource, Span, StableViewSpec,
};
use ebb_sketch::filter::inference::PriorSpec;
use ebb_sketch::filter::planning::classic_sizing::size_classic;
use ebb_sketch::filter::planning::sizing::{self, Budget, Workload};
use ebb_sketch::filter::stable_posterior::SharePriorSpec;
use ebb_sketch::filter::structure::layout::{CellLayout, LINE_BYTES};
use ebb_sketch::filter::structure::stable::importance::ImportanceScale;
use ebb_sketch::filter::structure::timing::{ClockSpec, TimingSpec};

/// Items whose history is tracked exactly, from which the prior is learned.
const SAMPLED_ITEMS: u32 = 4096;

pub(super) fn dedup_spec(dedup: &DedupConfig, numbers: &[Path], reader: &Reader) -> anyhow::Result<DedupSpec> {
    let filter = filter_spec(dedup)?;
    let isolation = match (&filter, dedup.isolate) {
        (_, 0) => None,
        (FilterSpec::Timing { spec, prior }, filters) => {
            Some(isolation_spec(spec, *prior, filters as u32, dedup.seen())?)
        }
        (FilterSpec::Stable(_) | FilterSpec::Classic { .. }, _) => {
            anyhow::bail!("isolate: requires filter: timing")
        }
    };
    Ok(DedupSpec {
        filter,
        seen: dedup.seen(),
        penalty: dedup.penalty.as_ref().map(|penalty| penalty_spec(penalty, numbers)),
        share: match &dedup.prior {
            PriorConfig::Field(path) => Some(ShareSource::Field(index_of(path, numbers))),
            PriorConfig::Classes(shares) => Some(class_shares(dedup, shares)?),
            PriorConfig::Auto | PriorConfig::AutoFrequency | PriorConfig::Constant(_) => None,
        },
        strata: match dedup.prior {
            PriorConfig::AutoFrequency => PriorStrata::KeysAndFrequency,
            PriorConfig::Auto | PriorConfig::Constant(_) | PriorConfig::Field(_) | PriorConfig::Classes(_) => {
                PriorStrata::Keys
            }
        },
        rules: rules(&dedup.rules, numbers, reader)?,
        isolation,
    })
}

/// The filter of the view.
pub(in crate::app) fn filter_spec(dedup: &DedupConfig) -> anyhow::Result<FilterSpec> {
    Ok(match dedup.filter {
        FilterKind::Timing => {
            let spec = timing_spec(dedup)?;
            match dedup.prior {
                PriorConfig::Auto | PriorConfig::AutoFrequency | PriorConfig::Field(_) | PriorConfig::Classes(_) => {
                    FilterSpec::learning(spec, SAMPLED_ITEMS)?
                }
                PriorConfig::Constant(p) => {
                    FilterSpec::Timing { spec, prior: PriorSpec::Constant(ArrivalShare::new(p)?) }
                }
            }
        }
        FilterKind::Classic => classic_spec(dedup)?,
        FilterKind::Stable | FilterKind::Importance2c | FilterKind::ImportanceMc | FilterKind::ImportanceH => {
            FilterSpec::Stable(stable_spec(dedup)?)
        }
    })
}

/// A filter whose counters are decremented at random.
fn stable_spec(dedup: &DedupConfig) -> anyhow::Result<StableViewSpec> {
    let filter = dedup.stable_filter()?;
    let scale = match dedup.importance_classes {
        ClassesConfig::Percentiles => ClassScale::Percentiles,
        ClassesConfig::Numbers | ClassesConfig::Table(_) => {
            ClassScale::Linear(ImportanceScale::new(dedup.max_importance(), filter.max_value())?)
        }
    };
    let window = match dedup.window {
        WindowConfig::Time(window) => Span::Milliseconds(window.0),
        WindowConfig::Events(events) => Span::Events(events),
    };
    let prior = match dedup.prior {
        _ if !dedup.has_penalty() => None,
        PriorConfig::Constant(p) => Some(SharePriorSpec::Constant(ArrivalShare::new(p)?)),
        PriorConfig::Auto | PriorConfig::AutoFrequency | PriorConfig::Field(_) | PriorConfig::Classes(_) => {
            Some(SharePriorSpec::Learned)
        }
    };
    let (window_events, mix) = (dedup.expected_events(), dedup.class_mix()?);
    Ok(StableViewSpec { filter, scale, window: Some(window), window_events, mix, prior })
}

fn classic_spec(dedup: &DedupConfig) -> anyhow::Result<FilterSpec> {
    let share = match dedup.prior {
        PriorConfig::Constant(p) => Some(ArrivalShare::new(p)?),
        PriorConfig::Auto | PriorConfig::AutoFrequency | PriorConfig::Field(_) | PriorConfig::Classes(_) => None,
    };
    let cells = dedup.cells.map(|cells| cells as u8);
    let (size, hashes) = match dedup.sizing() {
        FilterSizing::Memory(memory) => (CellLayout::in_memory(memory.0)?, cells.context("cells: has no value")?),
        FilterSizing::Error { error, items } => {
            let (lines, hashes) = size_classic(items, error, cells)?;
            (CellLayout::Lines(lines), hashes)
        }
    };
    Ok(FilterSpec::Classic { size, hashes, share })
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
                sizing::plan_for_penalty(&workload, bytes, &penalties, dedup.seen())?
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

/// The shares of the importance classes. The configuration was checked: all of them are in the table.
fn class_shares(dedup: &DedupConfig, shares: &[(String, f64)]) -> anyhow::Result<ShareSource> {
    let classes = dedup.named_classes().context("prior: requires a table of importance_classes")?;
    let share = |(name, share): &(String, f64)| {
        let importance = classes.importance(name).with_context(|| format!("prior: unknown class {name}"))?;
        anyhow::Ok((importance, ArrivalShare::new(*share)?))
    };
    Ok(ShareSource::Classes(shares.iter().map(share).collect::<anyhow::Result<_>>()?))
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
            Some(PriorConfig::Auto | PriorConfig::AutoFrequency | PriorConfig::Classes(_)) | None => None,
        };
        let rule = KeyRule { window, penalty, share };
        let keys = config.keys.iter();
        let keys = keys.flat_map(|key| [Some(reader.key_fingerprint(key)), reader.bare_key_fingerprint(key)]);
        rules.extend(keys.flatten().map(|key| (key, rule.clone())));
    }
    Ok(KeyRules::new(rules))
}
