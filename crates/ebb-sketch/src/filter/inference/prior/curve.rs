//! A cumulative distribution of ages in quarter octaves.

/// Quarter octaves from one unit to 2^20 units, plus one bin for "never, or beyond the horizon".
pub(super) const BINS: usize = 81;
pub(super) const NEVER: usize = BINS - 1;
/// 2^(i/4).
const QUARTERS: [f64; 4] = [1.0, 1.189_207_115_002_721, std::f64::consts::SQRT_2, 1.681_792_830_507_429];

/// For each bin, the fraction of ages below its start and the slope within it.
pub(super) type CumulativeBins = [(f64, f64); BINS];

/// The bin of a non-negative age in units; ages beyond the last quarter octave map to [`NEVER`].
#[inline]
pub(super) fn bin_of(age: f64) -> usize {
    let bits = (age + 1.0).to_bits();
    let octave = (bits >> 52) as usize - 1023;
    let mantissa = bits & ((1 << 52) - 1) | 1023 << 52;
    let quarter = QUARTERS.iter().skip(1).filter(|min| mantissa >= min.to_bits()).count();
    (4 * octave + quarter).min(NEVER)
}

/// The smallest age of each bin, plus 1, in units.
pub(super) const BEGINS: [f64; BINS] = {
    let mut begins = [0.0; BINS];
    let mut bin = 0;
    while bin < BINS {
        begins[bin] = (1u64 << (bin / 4)) as f64 * QUARTERS[bin % 4];
        bin += 1;
    }
    begins
};

/// The fraction of ages below `scaled` units.
#[inline]
pub(super) fn below(curve: &CumulativeBins, scaled: f64) -> f64 {
    let bin = bin_of(scaled);
    let (below, slope) = curve[bin];
    below + slope * (scaled + 1.0 - BEGINS[bin])
}

/// Multiplies the odds of a repeat: ages below `pivot` gain what the others lose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tilt {
    /// The age that separates repeats from first sightings, in units.
    pub(super) pivot: f64,
    /// Factor of the odds.
    pub(super) odds: f64,
}

/// A distribution of ages: linear within the bins; the remaining mass is "never, or beyond the horizon".
#[derive(Debug, Clone, Copy)]
pub struct AgeCurve<'a> {
    curve: &'a CumulativeBins,
    unit: f64,
    per_unit: f64,
    /// In units.
    pivot: f64,
    below_pivot: f64,
    scale_inside: f64,
    scale_outside: f64,
}

impl<'a> AgeCurve<'a> {
    #[inline]
    pub(super) fn new(curve: &'a CumulativeBins, unit: f64, tilt: Tilt) -> Self {
        let below_pivot = below(curve, tilt.pivot);
        let scale_outside = 1.0 / (tilt.odds * below_pivot + 1.0 - below_pivot);
        Self {
            curve,
            unit,
            per_unit: 1.0 / unit,
            pivot: tilt.pivot,
            below_pivot,
            scale_inside: tilt.odds * scale_outside,
            scale_outside,
        }
    }

    /// The fraction of ages below `age`.
    #[inline]
    pub fn below(&self, age: f64) -> f64 {
        let scaled = age.max(0.0) * self.per_unit;
        let below = below(self.curve, scaled);
        if scaled <= self.pivot {
            self.scale_inside * below
        } else {
            self.scale_inside * self.below_pivot + self.scale_outside * (below - self.below_pivot)
        }
    }

    /// The fraction of ages in `from..to`; an infinite `to` includes "never".
    pub fn between(&self, from: f64, to: f64) -> f64 {
        let end = if to == f64::INFINITY { 1.0 } else { self.below(to) };
        (end - self.below(from)).max(0.0)
    }

    /// The largest age that is distinguished from "never".
    pub fn horizon(&self) -> f64 {
        (BEGINS[NEVER] - 1.0) * self.unit
    }

    /// The fraction of ages in `from..to`, and its first moment.
    pub(in crate::filter) fn moment(&self, from: f64, to: f64) -> (f64, f64) {
        let (mut share, mut sum) = (0.0, 0.0);
        for bin in 0..NEVER {
            let begin = ((BEGINS[bin] - 1.0) * self.unit).max(from);
            let end = ((BEGINS[bin + 1] - 1.0) * self.unit).min(to);
            if begin < end {
                let part = self.between(begin, end);
                share += part;
                sum += part * (begin + end) / 2.0;
            }
        }
        (share, sum)
    }
}
