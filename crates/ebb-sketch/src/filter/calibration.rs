//! Do stated chances come true? Checked on the sampled items, whose past is known exactly.
//!
//! Predictions are sorted into ten bins; where the mean prediction and the rate at which it came true differ by more
//! than [`TOLERANCE`], chances are not to be trusted and the standard answer is given instead. The record fades, so that
//! trust returns when predictions come true again.

use crate::codec::{CodecError, Kind, Reader, Writer};

/// The difference between prediction and truth that is still believed.
pub const TOLERANCE: f64 = 0.1;
const BINS: usize = 10;
/// Predictions in a bin before it is judged.
const LEAST: u64 = 256;
/// One prediction, so that halving keeps fractions.
const UNIT: u64 = 256;
/// Chances are summed in these parts of a prediction: sums of integers do not depend on their order.
const PARTS: f64 = (1u64 << 20) as f64;

const KIND: Kind = *b"cali";
const VERSION: u16 = 1;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Bin {
    predictions: u64,
    /// Sum of the chances, in parts of `UNIT`.
    predicted: u64,
    came_true: u64,
}

impl Bin {
    fn error(&self) -> f64 {
        let predictions = (self.predictions as f64).max(1.0);
        (self.predicted as f64 / PARTS - self.came_true as f64) / predictions
    }

    fn is_judged(&self) -> bool {
        self.predictions >= LEAST * UNIT
    }

    fn is_off(&self) -> bool {
        self.is_judged() && self.error().abs() > TOLERANCE
    }
}

/// The record of predictions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calibration {
    bins: [Bin; BINS],
    /// Derived: some bin is off.
    off: bool,
}

/// What one bin shows: how often it was used, what was predicted and what came true.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibrated {
    pub predictions: f64,
    pub mean_prediction: f64,
    pub came_true: f64,
}

impl Calibration {
    /// Whether stated chances are to be believed.
    pub fn is_trusted(&self) -> bool {
        !self.off
    }

    /// The greatest difference between prediction and truth among the bins that are judged.
    pub fn error(&self) -> f64 {
        self.bins.iter().filter(|bin| bin.is_judged()).map(|bin| bin.error().abs()).fold(0.0, f64::max)
    }

    pub fn record(&mut self, chance: f64, came_true: Outcome) {
        let bin = &mut self.bins[((chance * BINS as f64) as usize).min(BINS - 1)];
        bin.predictions += UNIT;
        bin.predicted += (chance.clamp(0.0, 1.0) * PARTS) as u64 * UNIT;
        bin.came_true += if came_true == Outcome::Inside { UNIT } else { 0 };
        self.judge();
    }

    /// Halves the record `times` times.
    pub fn fade(&mut self, times: u32) {
        for bin in &mut self.bins {
            for count in [&mut bin.predictions, &mut bin.predicted, &mut bin.came_true] {
                *count = count.checked_shr(times).unwrap_or(0);
            }
        }
        self.judge();
    }

    fn judge(&mut self) {
        self.off = self.bins.iter().any(Bin::is_off);
    }

    /// The bins, from chance 0 to 1.
    pub fn bins(&self) -> [Calibrated; BINS] {
        self.bins.map(|bin| {
            let predictions = (bin.predictions as f64).max(1.0);
            Calibrated {
                predictions: bin.predictions as f64 / UNIT as f64,
                mean_prediction: bin.predicted as f64 / PARTS / predictions,
                came_true: bin.came_true as f64 / predictions,
            }
        })
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        for bin in &self.bins {
            [bin.predictions, bin.predicted, bin.came_true].iter().for_each(|&count| writer.varint(count));
        }
        writer.seal()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        let mut calibration = Self::default();
        for bin in &mut calibration.bins {
            *bin = Bin { predictions: reader.varint()?, predicted: reader.varint()?, came_true: reader.varint()? };
            if bin.came_true > bin.predictions || bin.predictions > u64::MAX >> 24 || bin.predicted > u64::MAX >> 2 {
                return Err(CodecError::invalid("calibration", format!("{bin:?}")));
            }
        }
        reader.finish()?;
        calibration.judge();
        Ok(calibration)
    }
}

/// What a prediction turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Inside,
    Outside,
}
