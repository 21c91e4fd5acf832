//! The memory and the layout of the frequency view.

use super::memory::ViewMemory;
use super::table::{bytes, short};
use ebb_sketch::filter::structure::frequency::basic::BasicSpec;
use ebb_sketch::filter::structure::frequency::epochs::EpochSpec;
use ebb_sketch::filter::structure::frequency::optimised::OptimisedSpec;
use ebb_sketch::filter::structure::frequency::{FrequencyFilter, FrequencySpec};
use ebb_sketch::units::DurationMs;

pub(super) fn view(spec: &FrequencySpec) -> ViewMemory {
    let note = match spec {
        FrequencySpec::Forward(_) => "fixed, 64-bit counters with exact decay".into(),
        FrequencySpec::Basic(spec) => basic(spec),
        FrequencySpec::Optimised(spec) => optimised(spec),
    };
    ViewMemory { name: "frequency".into(), memory_bytes: FrequencyFilter::new(*spec).memory_bytes(), note }
}

fn basic(spec: &BasicSpec) -> String {
    let (cells, fraction_bits) = (spec.hasher().cells(), spec.fraction_bits());
    format!(
        "fixed, {} counters of 32 bits, {fraction_bits} of them fractional; {}",
        short(cells as f64),
        decay(spec.epochs(), fraction_bits)
    )
}

fn optimised(spec: &OptimisedSpec) -> String {
    let (cells, form) = (spec.hasher().cells(), spec.form());
    format!(
        "fixed, {} digits of {} bits, {} of them fractional, and a pool of {} digits; {}; basic: {} for these counters",
        short(cells as f64),
        form.digit_bits,
        form.fraction_bits,
        short(f64::from(form.pool)),
        decay(spec.epochs(), form.fraction_bits),
        bytes(cells * 4),
    )
}

fn decay(epochs: &EpochSpec, fraction_bits: u8) -> String {
    let excess = short(epochs.rounding_excess(fraction_bits));
    format!("epochs of {}, rounding adds at most {excess}", DurationMs(epochs.epoch_ms()))
}
