//! Defaults of the dedup view that depend on other keys.

use super::{DedupConfig, FilterKind, FilterSizing, WindowConfig};
use ebb_core::Seen;
use ebb_sketch::filter::structure::timing::max_blocks;
use ebb_sketch::units::{Bytes, DurationMs};

pub(super) const MEMORY: Bytes = Bytes(64 << 20);
pub(super) const TUNING_ERROR: f64 = 0.01;
pub(super) const MISSED: f64 = 0.01;
pub(super) const CELLS: u64 = 4;
pub(super) const IMPORTANCE_MAX: f64 = 10.0;
const TIMER_BITS: u64 = 4;
/// Bits of the counters of `stable` and the importance filters.
const COUNTER_BITS: u64 = 3;
pub(super) const MAX_COUNTER: u8 = (1 << COUNTER_BITS) - 1;
/// The part of a time window that late events may be behind.
const LATENESS_DIVISOR: u64 = 8;

/// Sets the keys that are absent and whose value follows from other keys.
pub(super) fn resolve(dedup: &mut DedupConfig) {
    if dedup.filter.has_counters() && dedup.memory.is_none() && (dedup.error.is_some() || dedup.missed.is_some()) {
        dedup.error.get_or_insert(TUNING_ERROR);
        dedup.missed.get_or_insert(MISSED);
    }
    if dedup.error.is_none() {
        dedup.memory.get_or_insert(MEMORY);
    }
    dedup.seen.get_or_insert(if dedup.filter.has_counters() { Seen::Last } else { Seen::First });
    dedup.importance_max = Some(dedup.max_importance());
    match dedup.filter {
        FilterKind::Timing => resolve_timing(dedup),
        // With an error, the layout is planned.
        FilterKind::Classic if dedup.error.is_some() => {}
        FilterKind::Classic => {
            dedup.cells.get_or_insert(CELLS);
        }
        FilterKind::Stable | FilterKind::Importance2c | FilterKind::ImportanceMc | FilterKind::ImportanceH => {
            if dedup.error.is_none() {
                dedup.bits.get_or_insert(COUNTER_BITS);
                dedup.cells.get_or_insert(CELLS);
            }
        }
    }
}

fn resolve_timing(dedup: &mut DedupConfig) {
    if let WindowConfig::Time(window) = dedup.window {
        dedup.lateness.get_or_insert(DurationMs(window.0 / LATENESS_DIVISOR));
    }
    if is_layout_planned(dedup) {
        return;
    }
    let bits = *dedup.bits.get_or_insert(TIMER_BITS);
    dedup.cells.get_or_insert(CELLS);
    // One block fewer than the timers can distinguish leaves the sweep one tick of slack.
    dedup.blocks.get_or_insert(max_blocks(bits as u8) - 1);
}

/// Whether bits, cells and blocks are planned for the expected traffic instead of being fixed.
fn is_layout_planned(dedup: &DedupConfig) -> bool {
    let is_configured = dedup.bits.is_some() || dedup.cells.is_some() || dedup.blocks.is_some();
    match dedup.sizing() {
        FilterSizing::Error { .. } => true,
        FilterSizing::Memory(_) => dedup.expected_items().is_some() && !is_configured,
    }
}
