//! Sizing of classic filters: from a number of distinct items and a false-duplicate rate to memory and cells per item.
//!
//! All cells of an item share a line of 512 bits, and lines differ in the number of items they hold (Poisson). Both the
//! size and the number of cells per item follow from the rate: with few cells per item no size would reach a small rate.
//!
//! ```
//! use ebb_sketch::filter::planning::classic_sizing::{false_duplicate_rate, size_classic};
//!
//! let (lines, hashes) = size_classic(1e6, 1e-7, None).unwrap();
//! assert!(hashes > 8 && false_duplicate_rate(lines, hashes, 1e6) <= 1e-7);
//! ```

use libm::{exp, lgamma, log, log1p, sqrt};

use crate::filter::parameter::{ParameterError, check_range};
use crate::filter::structure::layout::MAX_HASHES;

/// Bits of a line.
const LINE_BITS: f64 = 512.0;
/// The most lines that are considered: a terabyte.
const MAX_LINES: u64 = 1 << 34;
/// Standard deviations of the load of a line that the sum covers.
const DEVIATIONS: f64 = 12.0;

/// The probability that an item which was never inserted is found, after `items` distinct items were inserted.
pub fn false_duplicate_rate(lines: u64, hashes: u8, items: f64) -> f64 {
    let load = items / lines as f64;
    let from = (load - DEVIATIONS * sqrt(load)).max(0.0) as u64;
    let to = (load + DEVIATIONS * sqrt(load)) as u64 + 40;
    let hashes = f64::from(hashes);
    let term = |items: u64| {
        let log_share = if load > 0.0 { items as f64 * log(load) - load - lgamma(items as f64 + 1.0) } else { 0.0 };
        let fill = -libm::expm1(items as f64 * hashes * log1p(-1.0 / LINE_BITS));
        if fill > 0.0 { exp(log_share + hashes * log(fill)) } else { 0.0 }
    };
    (from..=to).map(term).sum::<f64>().min(1.0)
}

/// The fewest lines with which `items` distinct items have at most the false-duplicate rate `error`, and the number of
/// cells per item to use: `hashes` if given.
pub fn size_classic(items: f64, error: f64, hashes: Option<u8>) -> Result<(u64, u8), ParameterError> {
    check_range("the number of items", items, 1.0..=1e15, "a filter is sized for the items that it will hold")?;
    let error = check_range("the error", error, 1e-15..=0.999_999, "it is a probability, and no filter reaches 0")?;
    let candidates = match hashes {
        Some(hashes) => hashes..=hashes,
        None => 1..=MAX_HASHES,
    };
    let sized = candidates.filter_map(|hashes| Some((fewest_lines(items, error, hashes)?, hashes)));
    let reason = "no filter of up to a terabyte reaches it with this many items";
    sized.min().ok_or_else(|| {
        let hashes = hashes.unwrap_or(MAX_HASHES);
        ParameterError::new("the error", error, reason, false_duplicate_rate(MAX_LINES, hashes, items))
    })
}

fn fewest_lines(items: f64, error: f64, hashes: u8) -> Option<u64> {
    let meets = |lines: u64| false_duplicate_rate(lines, hashes, items) <= error;
    if !meets(MAX_LINES) {
        return None;
    }
    let (mut low, mut high) = (0, MAX_LINES);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if meets(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::structure::classic::ClassicFilter;
    use crate::filter::structure::layout::CellLayout;
    use crate::hash::Fingerprint;
    use crate::random::mix;

    fn item(x: u64) -> Fingerprint {
        Fingerprint(u128::from(mix(x)) << 64 | u128::from(mix(!x)))
    }

    #[test]
    fn cells_per_item_follow_the_error() {
        let hashes = |error| size_classic(1e6, error, None).unwrap().1;
        let chosen = [0.1, 1e-3, 1e-5, 1e-8].map(hashes);
        assert!(chosen.is_sorted() && chosen[0] < 4 && chosen[3] > 10, "{chosen:?}");
    }

    #[test]
    fn a_sized_filter_meets_its_error() {
        for error in [0.02, 1e-3, 1e-5] {
            let items = 20_000u64;
            let (lines, hashes) = size_classic(items as f64, error, None).unwrap();
            let mut filter = ClassicFilter::new(CellLayout::Lines(lines), hashes).unwrap();
            (0..items).for_each(|x| _ = filter.insert(item(x)));
            let probes = (40.0 / error).max(50_000.0) as u64;
            let found = (0..probes).filter(|x| filter.contains(item(u64::MAX - x))).count() as f64;
            let (expected, observed) = (error * probes as f64, found);
            assert!(observed < expected + 5.0 * sqrt(expected), "{error}: {observed} found, {expected} expected");
            assert!(
                observed > expected / 3.0,
                "{error}: {observed} found, {expected} expected: the filter is too large"
            );
        }
    }

    #[test]
    fn an_unreachable_error_reports_the_nearest() {
        let error = size_classic(1e14, 1e-9, Some(1)).unwrap_err();
        assert!(error.nearest.parse::<f64>().unwrap() > 1e-9, "{error}");
        assert!(size_classic(0.0, 0.1, None).is_err() && size_classic(10.0, 0.0, None).is_err());
    }
}
