//! Event time divided into epochs, at whose ends integer counters decay.
//!
//! An observation of epoch e counts λ^(E − e) once the clock has reached epoch E, as if it had happened at the end of its
//! epoch. Answers are scaled by λ^(now − end of E): never below the true decay of any observation, and above it by at most
//! a factor 1/λ.

use super::rounding::{EpochFactor, power_up};
use crate::codec::{CodecError, Reader, Writer};
use crate::filter::parameter::{ParameterError, check_range};

const MAX_MS: u64 = 1 << 53;
/// The longest epoch, in half-lives.
pub const MAX_EPOCH_HALF_LIVES: u64 = 19;

/// How fast counters decay, and in which steps.
///
/// ```
/// use ebb_sketch::filter::structure::frequency::epochs::EpochSpec;
///
/// let epochs = EpochSpec::halving(60_000, 4).unwrap();
/// assert_eq!((epochs.epoch_ms(), epochs.half_life_ms()), (15_000, 60_000));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EpochSpec {
    epoch_ms: u64,
    half_life_ms: f64,
    factor: EpochFactor,
}

impl EpochSpec {
    /// Halves counts every `half_life_ms`, in `steps` steps.
    pub fn halving(half_life_ms: u64, steps: u32) -> Result<Self, ParameterError> {
        check_range("half_life", half_life_ms, 1..=MAX_MS, "it is in milliseconds, at least one")?;
        let max = half_life_ms.min(1 << 16) as u32;
        check_range("steps", steps, 1..=max, "an epoch is at least one millisecond long")?;
        let epoch_ms = half_life_ms / u64::from(steps);
        let share = power_up(-(epoch_ms as f64) / half_life_ms as f64);
        Ok(Self { epoch_ms, half_life_ms: half_life_ms as f64, factor: EpochFactor::new(share)? })
    }

    /// Halves counts every `half_life_ms`, in epochs of `epoch_ms`, which may be longer than a half-life.
    ///
    /// ```
    /// use ebb_sketch::filter::structure::frequency::epochs::EpochSpec;
    ///
    /// let epochs = EpochSpec::in_epochs(60_000, 120_000).unwrap(); // a quarter is left after each epoch
    /// assert!((epochs.factor() - 0.25).abs() < 1e-9 && epochs.half_life_ms() == 60_000);
    /// ```
    pub fn in_epochs(half_life_ms: u64, epoch_ms: u64) -> Result<Self, ParameterError> {
        check_range("half_life", half_life_ms, 1..=MAX_MS, "it is in milliseconds, at least one")?;
        let max = half_life_ms.saturating_mul(MAX_EPOCH_HALF_LIVES).min(MAX_MS);
        let reason = "it is at least one millisecond and at most 19 half-lives, more would leave less than a millionth";
        check_range("epoch", epoch_ms, 1..=max, reason)?;
        let share = power_up(-(epoch_ms as f64) / half_life_ms as f64);
        Ok(Self { epoch_ms, half_life_ms: half_life_ms as f64, factor: EpochFactor::new(share)? })
    }

    /// The paper's form: counts are multiplied by `share` (λ) at the end of each epoch.
    pub fn keeping(epoch_ms: u64, share: f64) -> Result<Self, ParameterError> {
        check_range("epoch", epoch_ms, 1..=MAX_MS, "it is in milliseconds, at least one")?;
        let factor = EpochFactor::new(share)?;
        Ok(Self { epoch_ms, half_life_ms: epoch_ms as f64 / -libm::log2(share), factor })
    }

    /// The half-life, rounded up.
    pub fn half_life_ms(&self) -> u64 {
        libm::ceil(self.half_life_ms) as u64
    }

    /// The length of an epoch.
    pub fn epoch_ms(&self) -> u64 {
        self.epoch_ms
    }

    /// The factor λ by which counts decay in an epoch.
    pub fn factor(&self) -> f64 {
        self.factor.share()
    }

    /// By how much rounding up at every epoch may raise a count with `fraction_bits` fractional bits, at most: a count
    /// that is not raised again stays at this value.
    pub fn rounding_excess(&self, fraction_bits: u8) -> f64 {
        1.0 / ((1.0 - self.factor()) * f64::from(1u32 << fraction_bits))
    }

    fn epoch_of(&self, time_ms: i64) -> i64 {
        time_ms.div_euclid(self.epoch_ms as i64)
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.varint(self.epoch_ms);
        writer.f64(self.half_life_ms);
        writer.u64(self.factor.parts());
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let (epoch_ms, half_life_ms, parts) = (reader.varint()?, reader.f64()?, reader.u64()?);
        let share = parts as f64 / (1u64 << 48) as f64;
        let factor = EpochFactor::new(share).map_err(|error| CodecError::invalid("epochs", error.to_string()))?;
        let valid = (1..=MAX_MS).contains(&epoch_ms) && half_life_ms.is_finite() && half_life_ms > 0.0;
        if !valid || factor.parts() != parts {
            return Err(CodecError::invalid("epochs", "epoch, half-life or share out of range"));
        }
        Ok(Self { epoch_ms, half_life_ms, factor })
    }
}

/// The monotone clock of counters that decay by epochs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct EpochClock {
    spec: EpochSpec,
    clock_ms: Option<i64>,
}

impl EpochClock {
    pub fn new(spec: EpochSpec) -> Self {
        Self { spec, clock_ms: None }
    }

    pub fn spec(&self) -> EpochSpec {
        self.spec
    }

    /// Advances the clock to `now_ms` if that is later. Returns the factor to apply if epochs have ended.
    pub fn advance(&mut self, now_ms: i64) -> Option<EpochFactor> {
        let before = self.clock_ms.replace(self.clock_ms.map_or(now_ms, |clock| clock.max(now_ms)))?;
        let ended = self.spec.epoch_of(now_ms.max(before)).abs_diff(self.spec.epoch_of(before));
        (ended > 0).then(|| self.spec.factor.power(ended))
    }

    /// The present value of `units` observed at `time_ms`, which is not after the clock.
    pub fn decayed(&self, units: u64, time_ms: i64) -> u64 {
        let now = self.clock_ms.map_or(0, |clock| self.spec.epoch_of(clock));
        match now.saturating_sub(self.spec.epoch_of(time_ms)) {
            ..=0 => units,
            age => self.spec.factor.power(age as u64).apply(units),
        }
    }

    /// The factor from a stored count to its value at `as_of_ms`, or at the clock if that is later.
    pub fn scale(&self, as_of_ms: i64) -> f64 {
        let Some(clock) = self.clock_ms else { return 1.0 };
        let end = (i128::from(self.spec.epoch_of(clock)) + 1) * i128::from(self.spec.epoch_ms);
        let past_end = i128::from(as_of_ms.max(clock)) - end;
        power_up(-(past_end as f64) / self.spec.half_life_ms)
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        self.spec.encode(writer);
        writer.option_i64(self.clock_ms);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        Ok(Self { spec: EpochSpec::decode(reader)?, clock_ms: reader.option_i64("clock")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_monotone_and_counts_ended_epochs() {
        let mut epochs = EpochClock::new(EpochSpec::keeping(100, 0.5).unwrap());
        assert_eq!(epochs.advance(50), None);
        assert_eq!(epochs.advance(99), None);
        assert_eq!(epochs.advance(100), Some(EpochFactor::new(0.5).unwrap()));
        assert_eq!(epochs.advance(20), None);
        assert_eq!(epochs.advance(399), Some(EpochFactor::new(0.25).unwrap()));
        assert_eq!([399, 300, 299, 150, -1].map(|time| epochs.decayed(64, time)), [64, 64, 32, 16, 4]);
    }

    #[test]
    fn answers_are_never_below_the_true_decay() {
        let mut epochs = EpochClock::new(EpochSpec::halving(1_000, 4).unwrap());
        for (observed, queried) in [(0, 0), (1, 249), (249, 250), (100, 1_100), (999, 5_000), (0, 77)] {
            epochs.advance(observed.max(queried) / 2);
            let stored =
                epochs.decayed(1 << 40, observed.min(epochs.clock_ms.unwrap_or(0))) as f64 / (1u64 << 40) as f64;
            let age = (queried.max(epochs.clock_ms.unwrap_or(0)) - observed) as f64;
            let exact = libm::exp2(-age / 1_000.0);
            let answer = stored * epochs.scale(queried);
            assert!(answer >= exact.min(1.0) && answer <= exact * 1.2, "{observed} {queried}: {answer} {exact}");
        }
    }

    #[test]
    fn extreme_times_saturate() {
        let mut epochs = EpochClock::new(EpochSpec::halving(1, 1).unwrap());
        epochs.advance(i64::MIN);
        assert_eq!(epochs.advance(i64::MAX).map(|factor| factor.apply(1 << 30)), Some(1));
        assert!(epochs.scale(i64::MAX) > 0.0 && epochs.scale(i64::MIN) > 0.0);
        assert_eq!(epochs.decayed(8, i64::MIN), 1);
    }

    #[test]
    fn invalid_epochs_report_the_nearest_valid_value() {
        assert_eq!(EpochSpec::halving(0, 1).unwrap_err().nearest, "1");
        assert_eq!(EpochSpec::halving(10, 11).unwrap_err().nearest, "10");
        assert_eq!(EpochSpec::halving(10, 0).unwrap_err().nearest, "1");
        assert_eq!(EpochSpec::keeping(0, 0.5).unwrap_err().nearest, "1");
        assert!(EpochSpec::keeping(10, 1.0).is_err() && EpochSpec::keeping(10, f64::NAN).is_err());
    }
}
