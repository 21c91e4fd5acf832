//! The class mix of a stream, counted.

use crate::codec::{CodecError, Reader, Writer};
use crate::filter::planning::stationary::ValueShares;

/// The counts are halved when they reach this sum.
const MAX_COUNT: u64 = 1 << 20;

/// Recent arrivals by cell value.
///
/// ```
/// use ebb_sketch::filter::stable_posterior::classes::ClassCounts;
///
/// let mut counts = ClassCounts::new(3);
/// [1, 3, 3].into_iter().for_each(|value| counts.add(value));
/// assert_eq!(counts.values().shares(), [2.0 / 6.0, 1.0 / 6.0, 3.0 / 6.0]); // one pseudo-arrival of each
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassCounts {
    counts: Vec<u64>,
    total: u64,
}

impl ClassCounts {
    /// No arrivals yet, for the values 1..=M.
    pub fn new(max_value: u8) -> Self {
        Self { counts: vec![0; usize::from(max_value.max(1))], total: 0 }
    }

    /// Counts one arrival. Older arrivals fade.
    #[inline]
    pub fn add(&mut self, value: u8) {
        let Some(count) = self.counts.get_mut(usize::from(value).saturating_sub(1)) else { return };
        *count += 1;
        self.total += 1;
        if self.total >= MAX_COUNT {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().sum();
        }
    }

    /// The shares of the values among the counted arrivals; `None` if nothing was counted.
    pub fn observed(&self) -> Option<ValueShares> {
        let weights: Vec<f64> = self.counts.iter().map(|count| *count as f64).collect();
        ValueShares::new(&weights).ok()
    }

    /// The shares of the values, with one pseudo-arrival of each, so that no class is impossible.
    pub fn values(&self) -> ValueShares {
        let weights: Vec<f64> = self.counts.iter().map(|count| *count as f64 + 1.0).collect();
        ValueShares::new(&weights).unwrap_or_else(|_| ValueShares::uniform(self.counts.len() as u8))
    }

    /// Appends the counts.
    pub fn encode(&self, writer: &mut Writer) {
        self.counts.iter().for_each(|count| writer.varint(*count));
    }

    /// Reads what [`ClassCounts::encode`] wrote for the same largest value.
    pub fn decode(max_value: u8, reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let mut counts = Self::new(max_value);
        for count in &mut counts.counts {
            *count = reader.varint()?;
        }
        let total = counts.counts.iter().try_fold(0u64, |sum, count| sum.checked_add(*count));
        counts.total = total
            .filter(|total| *total < MAX_COUNT)
            .ok_or_else(|| CodecError::invalid("class counts", format!("their sum is not below {MAX_COUNT}")))?;
        Ok(counts)
    }
}
