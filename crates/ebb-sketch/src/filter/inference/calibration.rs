//! Do stated probabilities come true? Checked on the sampled items, whose history is known exactly.
//!
//! Predictions are sorted into ten bins; a bin with enough predictions is evaluated by the difference between its mean
//! prediction and the observed frequency. The record fades with a half-life of half a window, so that it describes the
//! present. It is reported; the policy is chosen by costs ([`super::policy`]).

use crate::codec::{CodecError, Kind, Reader, Writer};

const BINS: usize = 10;
/// Predictions in a bin before it is evaluated.
const MIN_PREDICTIONS: u64 = 256;
/// Weight of one prediction; halving keeps fractions.
const UNIT: u64 = 256;
/// Probabilities are summed as integers in these units, so that the order does not matter.
const RESOLUTION: f64 = (1u64 << 20) as f64;

const KIND: Kind = *b"cali";
const VERSION: u16 = 1;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct BinCounts {
    predictions: u64,
    /// Sum of the probabilities.
    predicted: u64,
    came_true: u64,
}

impl BinCounts {
    fn error(&self) -> f64 {
        let predictions = (self.predictions as f64).max(1.0);
        (self.predicted as f64 / RESOLUTION - self.came_true as f64) / predictions
    }

    fn is_evaluated(&self) -> bool {
        self.predictions >= MIN_PREDICTIONS * UNIT
    }
}

/// The record of predictions.
///
/// ```
/// use ebb_sketch::filter::inference::calibration::{Calibration, Outcome};
///
/// let mut calibration = Calibration::default();
/// (0..300).for_each(|_| calibration.record(0.9, Outcome::Outside, 1.0)); // stated 90 %, never true
/// assert!(calibration.error() > 0.8);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calibration {
    bins: [BinCounts; BINS],
}

/// One bin of the record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CalibrationBin {
    /// Decayed number of predictions.
    pub predictions: f64,
    /// Mean of the stated probabilities.
    pub mean_prediction: f64,
    /// Observed frequency.
    pub came_true: f64,
}

impl Calibration {
    /// The largest difference between mean prediction and observed frequency over all evaluated bins.
    pub fn error(&self) -> f64 {
        self.bins.iter().filter(|bin| bin.is_evaluated()).map(|bin| bin.error().abs()).fold(0.0, f64::max)
    }

    /// Records a stated probability and its outcome, with a weight of at most 1.
    pub fn record(&mut self, probability: f64, outcome: Outcome, weight: f64) {
        let unit = (weight.clamp(0.0, 1.0) * UNIT as f64) as u64;
        let bin = &mut self.bins[((probability * BINS as f64) as usize).min(BINS - 1)];
        bin.predictions += unit;
        bin.predicted += (probability.clamp(0.0, 1.0) * RESOLUTION) as u64 * unit;
        bin.came_true += if outcome == Outcome::Inside { unit } else { 0 };
    }

    /// Fades the record by half for every half of a window; `quarters` of a window ended.
    pub fn fade(&mut self, quarters: u32) {
        for bin in &mut self.bins {
            for count in [&mut bin.predictions, &mut bin.predicted, &mut bin.came_true] {
                let halved = count.checked_shr(quarters / 2).unwrap_or(0);
                let half_step = ((u128::from(halved) * 46_341) >> 16) as u64;
                *count = if quarters.is_multiple_of(2) { halved } else { half_step };
            }
        }
    }

    /// The bins, from probability 0 to 1.
    pub fn bins(&self) -> [CalibrationBin; BINS] {
        self.bins.map(|bin| {
            let predictions = (bin.predictions as f64).max(1.0);
            CalibrationBin {
                predictions: bin.predictions as f64 / UNIT as f64,
                mean_prediction: bin.predicted as f64 / RESOLUTION / predictions,
                came_true: bin.came_true as f64 / predictions,
            }
        })
    }

    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        for bin in &self.bins {
            [bin.predictions, bin.predicted, bin.came_true].iter().for_each(|&count| writer.varint(count));
        }
        writer.seal()
    }

    /// Reads what [`Calibration::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        let mut calibration = Self::default();
        for bin in &mut calibration.bins {
            *bin =
                BinCounts { predictions: reader.varint()?, predicted: reader.varint()?, came_true: reader.varint()? };
            if bin.came_true > bin.predictions || bin.predictions > u64::MAX >> 24 || bin.predicted > u64::MAX >> 2 {
                return Err(CodecError::invalid("calibration", format!("{bin:?}")));
            }
        }
        reader.finish()?;
        Ok(calibration)
    }
}

/// The truth about a prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The item had been seen within the window.
    Inside,
    /// It had not.
    Outside,
}
