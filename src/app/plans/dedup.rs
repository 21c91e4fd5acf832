//! Maps the keys of the dedup view to its filter, penalties and rules.

use anyhow::Context;

use super::index_of;
use crate::config::dedup::{
    ClassesConfig, CostConfig, DedupConfig, FilterKind, FilterSizing, KeyRuleConfig, PenaltyConfig, PriorConfig,
    WindowConfig,
};
use ebb_core::{
    ArrivalShare, ClassScale, Cost, DedupSpec, FilterSpec, IsolationSpec, KeyRule, KeyRules, Path, PenaltySpec, Reader,
    Seen, Span, StableViewSpec,
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
        rules: rules(&dedup.rules, numbers, reader),
        isolation,
    })
}

/// The filter of the view.
pub(in crate::app) fn filter_spec(dedup: &DedupConfig) -> anyhow::Result<FilterSpec> {
    Ok(match dedup.filter {
        FilterKind::Timing => {
            let spec = timing_spec(dedup)?;
            match dedup.prior {
                PriorConfig::Auto | PriorConfig::AutoFrequency => FilterSpec::learning(spec, SAMPLED_ITEMS)?,
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
        PriorConfig::Auto | PriorConfig::AutoFrequency => Some(SharePriorSpec::Learned),
    };
    let (window_events, mix) = (dedup.expected_events(), dedup.class_mix()?);
    Ok(StableViewSpec { filter, scale, window: Some(window), window_events, mix, prior })
}

fn classic_spec(dedup: &DedupConfig) -> anyhow::Result<FilterSpec> {
    let share = match dedup.prior {
        PriorConfig::Constant(p) => Some(ArrivalShare::new(p)?),
        PriorConfig::Auto | PriorConfig::AutoFrequency => None,
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
    let planned = |items, budget| anyhow::Ok(sizing::plan_filter(&Workload::new(span, items)?, budget)?.spec);
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
fn rules(rules: &[KeyRuleConfig], numbers: &[Path], reader: &Reader) -> KeyRules {
    KeyRules::new(rules.iter().flat_map(|config| {
        let window = config.window.map(|window| match window {
            WindowConfig::Time(window) => window.0,
            WindowConfig::Events(window) => window,
        });
        let penalty = config.penalty.as_ref().map(|penalty| penalty_spec(penalty, numbers));
        let rule = KeyRule { window, penalty };
        config
            .keys
            .iter()
            .flat_map(|key| [Some(reader.key_fingerprint(key)), reader.bare_key_fingerprint(key)])
            .flatten()
            .map(move |key| (key, rule))
    }))
}
