//! Importance by rank: the cell value of an importance is its percentile among recent ones.

use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"pctl";
const VERSION: u16 = 1;

/// Recent importances that are kept.
const SAMPLE: usize = 1024;
/// Importances after which the first cuts are made.
const MIN_SAMPLE: u64 = 32;

/// Maps importances to the values 1..=M so that recent importances have all values equally often.
///
/// ```
/// use ebb_sketch::filter::structure::stable::percentiles::PercentileScale;
///
/// let mut scale = PercentileScale::new(4);
/// assert_eq!(scale.value(3.0), 4); // nothing is known yet: nothing is forgotten early
/// (0..1_000).for_each(|n| scale.observe(f64::from(n % 100)));
/// assert_eq!([10.0, 30.0, 60.0, 90.0].map(|importance| scale.value(importance)), [1, 2, 3, 4]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PercentileScale {
    max_value: u8,
    observed: u64,
    /// The last importances, as a ring.
    sample: Vec<f64>,
    /// The least importance above each value but the last.
    cuts: Vec<f64>,
}

impl PercentileScale {
    /// Nothing observed yet. `max_value` is the value of the most important.
    pub fn new(max_value: u8) -> Self {
        Self { max_value: max_value.max(1), observed: 0, sample: Vec::new(), cuts: Vec::new() }
    }

    /// The value of an importance: M until enough importances were observed.
    pub fn value(&self, importance: f64) -> u8 {
        if self.cuts.is_empty() {
            return self.max_value;
        }
        1 + self.cuts.partition_point(|cut| *cut <= importance) as u8
    }

    /// Adds the importance of one arrival.
    pub fn observe(&mut self, importance: f64) {
        let at = (self.observed % SAMPLE as u64) as usize;
        match self.sample.get_mut(at) {
            Some(oldest) => *oldest = importance,
            None => self.sample.push(importance),
        }
        self.observed += 1;
        let is_due = if self.observed <= SAMPLE as u64 {
            self.observed >= MIN_SAMPLE && self.observed.is_power_of_two()
        } else {
            self.observed.is_multiple_of(SAMPLE as u64)
        };
        if is_due {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let mut sorted = self.sample.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let classes = usize::from(self.max_value);
        self.cuts = (1..classes).map(|class| sorted[class * sorted.len() / classes]).collect();
    }

    /// Encodes sample and cuts.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        writer.u8(self.max_value);
        writer.varint(self.observed);
        for numbers in [&self.sample, &self.cuts] {
            writer.varint(numbers.len() as u64);
            numbers.iter().for_each(|number| writer.f64(*number));
        }
        writer.seal()
    }

    /// Reads what [`PercentileScale::encode`] wrote for the same largest value.
    pub fn decode(expected: u8, bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        let (max_value, observed) = (reader.u8()?, reader.varint()?);
        let mut numbers = || (0..reader.count(8)?).map(|_| reader.f64()).collect::<Result<Vec<_>, _>>();
        let (sample, cuts) = (numbers()?, numbers()?);
        reader.finish()?;
        let is_valid = max_value > 0
            && max_value == expected
            && observed < 1 << 62
            && sample.iter().chain(&cuts).all(|number| number.is_finite())
            && sample.len() as u64 == observed.min(SAMPLE as u64)
            && (cuts.is_empty() || cuts.len() + 1 == usize::from(max_value))
            && cuts.is_sorted();
        if !is_valid {
            return Err(CodecError::invalid("percentiles", "sample and cuts do not belong together"));
        }
        Ok(Self { max_value, observed, sample, cuts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn values_are_equally_frequent_whatever_the_distribution() {
        let (mut scale, mut random, mut counts) = (PercentileScale::new(5), Random::new(3), [0u32; 6]);
        for arrival in 0..50_000 {
            let importance = 1.0 / (1e-6 + random.unit());
            scale.observe(importance);
            if arrival > 2_000 {
                counts[usize::from(scale.value(importance))] += 1;
            }
        }
        assert!(counts[1..].iter().all(|count| (8_500..10_700).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_decoded_scale_continues_alike() {
        for observed in [0u64, 5, 40, 1_500, 3_000] {
            let mut scale = PercentileScale::new(7);
            (0..observed).for_each(|n| scale.observe((n * 7 % 113) as f64));
            let mut back = PercentileScale::decode(7, &scale.encode()).unwrap();
            for n in 0..1_100 {
                scale.observe(f64::from(n));
                back.observe(f64::from(n));
            }
            assert_eq!(back.encode(), scale.encode());
        }
    }

    #[test]
    fn damaged_bytes_are_rejected() {
        let mut scale = PercentileScale::new(7);
        (0..100).for_each(|n| scale.observe(f64::from(n)));
        assert!(PercentileScale::decode(6, &scale.encode()).is_err());
        scale.cuts.reverse();
        assert!(PercentileScale::decode(7, &scale.encode()).is_err());
        scale.cuts.truncate(2);
        assert!(PercentileScale::decode(7, &scale.encode()).is_err());
    }
}
