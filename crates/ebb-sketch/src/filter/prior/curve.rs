//! A distribution of ages in quarter octaves, ready to be looked up.

/// Quarter octaves from one unit to 2^20 units, and the last one: never, or beyond the horizon.
pub(super) const BINS: usize = 81;
pub(super) const NEVER: usize = BINS - 1;
/// 2^(i/4).
const QUARTERS: [f64; 4] = [1.0, 1.189_207_115_002_721, std::f64::consts::SQRT_2, 1.681_792_830_507_429];

/// For each bin the share of sightings below its begin, and how fast it rises within the bin.
pub(super) type Cumulative = [(f64, f64); BINS];

/// The quarter octave of an age in units, which is not negative; ages beyond the last lie in [`NEVER`].
#[inline]
pub(super) fn bin_of(age: f64) -> usize {
    let bits = (age + 1.0).to_bits();
    let octave = (bits >> 52) as usize - 1023;
    let mantissa = bits & ((1 << 52) - 1) | 1023 << 52;
    let quarter = QUARTERS.iter().skip(1).filter(|least| mantissa >= least.to_bits()).count();
    (4 * octave + quarter).min(NEVER)
}

/// The youngest age of each bin, plus 1, in units.
pub(super) const BEGINS: [f64; BINS] = {
    let mut begins = [0.0; BINS];
    let mut bin = 0;
    while bin < BINS {
        begins[bin] = (1u64 << (bin / 4)) as f64 * QUARTERS[bin % 4];
        bin += 1;
    }
    begins
};

/// A distribution of ages: straight lines within the bins, the rest beyond the horizon or never.
#[derive(Debug, Clone, Copy)]
pub struct AgeCurve<'a> {
    curve: &'a Cumulative,
    unit: f64,
    per_unit: f64,
}

impl<'a> AgeCurve<'a> {
    pub(super) fn new(curve: &'a Cumulative, unit: f64) -> Self {
        Self { curve, unit, per_unit: 1.0 / unit }
    }

    /// Share of the ages below `age`.
    #[inline]
    pub fn below(&self, age: f64) -> f64 {
        let scaled = age.max(0.0) * self.per_unit;
        let bin = bin_of(scaled);
        let (below, slope) = self.curve[bin];
        below + slope * (scaled + 1.0 - BEGINS[bin])
    }

    /// Share of the ages in `from..to`; an infinite `to` includes "never".
    pub fn between(&self, from: f64, to: f64) -> f64 {
        let end = if to == f64::INFINITY { 1.0 } else { self.below(to) };
        (end - self.below(from)).max(0.0)
    }

    /// Beyond this there are no ages, only "never".
    pub fn horizon(&self) -> f64 {
        (BEGINS[NEVER] - 1.0) * self.unit
    }

    /// Share of the ages in `from..to`, and their sum weighted by it.
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
