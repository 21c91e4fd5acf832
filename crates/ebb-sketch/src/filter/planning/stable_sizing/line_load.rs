//! False duplicates when all cells of an item share a line: lines differ in load, and a full line errs more often than an
//! empty one errs less. The effect is measured on a small filter of the same proportions.

use crate::filter::planning::stationary::ValueShares;
use crate::filter::structure::layout::CellLayout;
use crate::filter::structure::stable::{StableFilter, StableSpec};
use crate::hash::Fingerprint;
use crate::random::{Random, mix};

/// Lines of the measured filter: enough that arrivals and decrements of a line are independent.
const LINES: u64 = 16;
/// Samples of the lines' loads.
const SAMPLES: u64 = 300;

/// The false-duplicate rate to which a filter in lines converges, measured on a few lines; the same figure every time.
pub fn false_duplicate_rate(spec: &StableSpec, values: &ValueShares) -> f64 {
    let small =
        |layout| StableSpec::new(layout, spec.hasher().hashes(), spec.decrements(), spec.max_value(), spec.rule());
    let Ok(small) = small(CellLayout::Lines(LINES)) else { return 1.0 };
    let (mut filter, mut random) = (StableFilter::new(small), Random::new(0x5EED));
    let cells_per_line = small.hasher().cells() / LINES;
    // After this many arrivals every cell has been emptied about once.
    let relaxation = (u64::from(small.max_value()) * small.hasher().cells()).div_ceil(u64::from(small.decrements()));
    let interval = relaxation.div_ceil(4).max(1);
    let mut sum = 0.0;
    for sample in 0..SAMPLES + 20 {
        for _ in 0..interval {
            let item = random.next_u64();
            let item = Fingerprint(u128::from(mix(item)) << 64 | u128::from(mix(!item)));
            let value = drawn_value(values, random.unit());
            filter.observe(item, value, &mut random);
        }
        if sample >= 20 {
            let set = |line: u64| {
                let cells = line * cells_per_line..(line + 1) * cells_per_line;
                cells.filter(|cell| filter.value(*cell) > 0).count() as f64 / cells_per_line as f64
            };
            sum += (0..LINES).map(|line| libm::pow(set(line), f64::from(small.hasher().hashes()))).sum::<f64>();
        }
    }
    sum / (SAMPLES * LINES) as f64
}

fn drawn_value(values: &ValueShares, mut unit: f64) -> u8 {
    for (value, share) in (1u8..).zip(values.shares()) {
        unit -= share;
        if unit < 0.0 {
            return value;
        }
    }
    values.shares().len() as u8
}
