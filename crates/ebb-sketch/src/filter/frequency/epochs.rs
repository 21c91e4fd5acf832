//! Event time cut into epochs, at whose ends whole-number counters fade.
//!
//! An observation in epoch e stands, after the clock has reached epoch E, at λ^(E − e) of itself: as if it had happened
//! at the end of its epoch. Answers therefore scale by λ^(now − end of E): never below the true decay of any observation,
//! above it by at most 1/λ.

use super::fade::{Keep, power_up};
use crate::codec::{CodecError, Reader, Writer};
use crate::filter::spec_error::{SpecError, within};

const MOST_MS: u64 = 1 << 53;

/// How fast counters fade, and in which steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EpochSpec {
    epoch_ms: u64,
    half_life_ms: f64,
    keep: Keep,
}

impl EpochSpec {
    /// Halving every `half_life_ms`, in `steps` steps.
    pub fn halving(half_life_ms: u64, steps: u32) -> Result<Self, SpecError> {
        within("half_life", half_life_ms, 1..=MOST_MS, "it is in milliseconds, at least one")?;
        let most = half_life_ms.min(1 << 16) as u32;
        within("steps", steps, 1..=most, "an epoch lasts a millisecond at least")?;
        let epoch_ms = half_life_ms / u64::from(steps);
        let share = power_up(-(epoch_ms as f64) / half_life_ms as f64);
        Ok(Self { epoch_ms, half_life_ms: half_life_ms as f64, keep: Keep::new(share)? })
    }

    /// The paper's form: the share λ is kept over each epoch.
    pub fn keeping(epoch_ms: u64, share: f64) -> Result<Self, SpecError> {
        within("epoch", epoch_ms, 1..=MOST_MS, "it is in milliseconds, at least one")?;
        let keep = Keep::new(share)?;
        Ok(Self { epoch_ms, half_life_ms: epoch_ms as f64 / -libm::log2(share), keep })
    }

    /// Rounded up.
    pub fn half_life_ms(&self) -> u64 {
        libm::ceil(self.half_life_ms) as u64
    }

    pub fn epoch_ms(&self) -> u64 {
        self.epoch_ms
    }

    fn epoch_of(&self, time_ms: i64) -> i64 {
        time_ms.div_euclid(self.epoch_ms as i64)
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.varint(self.epoch_ms);
        writer.f64(self.half_life_ms);
        writer.u64(self.keep.parts());
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let (epoch_ms, half_life_ms, parts) = (reader.varint()?, reader.f64()?, reader.u64()?);
        let share = parts as f64 / (1u64 << 48) as f64;
        let keep = Keep::new(share).map_err(|error| CodecError::invalid("epochs", error.to_string()))?;
        let valid = (1..=MOST_MS).contains(&epoch_ms) && half_life_ms.is_finite() && half_life_ms > 0.0;
        if !valid || keep.parts() != parts {
            return Err(CodecError::invalid("epochs", "epoch, half-life or share out of range"));
        }
        Ok(Self { epoch_ms, half_life_ms, keep })
    }
}

/// The monotone clock of counters that fade by epochs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Epochs {
    spec: EpochSpec,
    clock_ms: Option<i64>,
}

impl Epochs {
    pub fn new(spec: EpochSpec) -> Self {
        Self { spec, clock_ms: None }
    }

    pub fn spec(&self) -> EpochSpec {
        self.spec
    }

    /// Moves the clock to `now_ms` if that is later; the share to keep when an epoch has ended by it.
    pub fn advance(&mut self, now_ms: i64) -> Option<Keep> {
        let before = self.clock_ms.replace(self.clock_ms.map_or(now_ms, |clock| clock.max(now_ms)))?;
        let ended = self.spec.epoch_of(now_ms.max(before)).abs_diff(self.spec.epoch_of(before));
        (ended > 0).then(|| self.spec.keep.over(ended))
    }

    /// What `units`, observed at `time_ms` (not after the clock), still count.
    pub fn faded(&self, units: u64, time_ms: i64) -> u64 {
        let now = self.clock_ms.map_or(0, |clock| self.spec.epoch_of(clock));
        match now.saturating_sub(self.spec.epoch_of(time_ms)) {
            ..=0 => units,
            age => self.spec.keep.over(age as u64).of(units),
        }
    }

    /// What a count held now is worth as of `as_of_ms`, or as of the clock if that is later.
    pub fn scale(&self, as_of_ms: i64) -> f64 {
        let Some(clock) = self.clock_ms else { return 1.0 };
        let end = (i128::from(self.spec.epoch_of(clock)) + 1) * i128::from(self.spec.epoch_ms);
        let past_end = i128::from(as_of_ms.max(clock)) - end;
        power_up(-(past_end as f64) / self.spec.half_life_ms)
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        self.spec.encode(writer);
        encode_clock(self.clock_ms, writer);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        Ok(Self { spec: EpochSpec::decode(reader)?, clock_ms: decode_clock(reader)? })
    }
}

pub(super) fn encode_clock(clock_ms: Option<i64>, writer: &mut Writer) {
    writer.u8(u8::from(clock_ms.is_some()));
    writer.i64(clock_ms.unwrap_or(0));
}

pub(super) fn decode_clock(reader: &mut Reader<'_>) -> Result<Option<i64>, CodecError> {
    match (reader.u8()?, reader.i64()?) {
        (0, 0) => Ok(None),
        (1, clock) => Ok(Some(clock)),
        (tag, clock) => Err(CodecError::invalid("clock", format!("tag {tag} with {clock}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_only_moves_forward_and_counts_ended_epochs() {
        let mut epochs = Epochs::new(EpochSpec::keeping(100, 0.5).unwrap());
        assert_eq!(epochs.advance(50), None);
        assert_eq!(epochs.advance(99), None);
        assert_eq!(epochs.advance(100), Some(Keep::new(0.5).unwrap()));
        assert_eq!(epochs.advance(20), None);
        assert_eq!(epochs.advance(399), Some(Keep::new(0.25).unwrap()));
        assert_eq!([399, 300, 299, 150, -1].map(|time| epochs.faded(64, time)), [64, 64, 32, 16, 4]);
    }

    #[test]
    fn answers_never_fall_below_the_true_decay_of_any_observation() {
        let mut epochs = Epochs::new(EpochSpec::halving(1_000, 4).unwrap());
        for (observed, asked) in [(0, 0), (1, 249), (249, 250), (100, 1_100), (999, 5_000), (0, 77)] {
            epochs.advance(observed.max(asked) / 2);
            let held = epochs.faded(1 << 40, observed.min(epochs.clock_ms.unwrap_or(0))) as f64 / (1u64 << 40) as f64;
            let age = (asked.max(epochs.clock_ms.unwrap_or(0)) - observed) as f64;
            let exact = libm::exp2(-age / 1_000.0);
            let answer = held * epochs.scale(asked);
            assert!(answer >= exact.min(1.0) && answer <= exact * 1.2, "{observed} {asked}: {answer} {exact}");
        }
    }

    #[test]
    fn hostile_times_saturate() {
        let mut epochs = Epochs::new(EpochSpec::halving(1, 1).unwrap());
        epochs.advance(i64::MIN);
        assert_eq!(epochs.advance(i64::MAX).map(|keep| keep.of(1 << 30)), Some(1));
        assert!(epochs.scale(i64::MAX) > 0.0 && epochs.scale(i64::MIN) > 0.0);
        assert_eq!(epochs.faded(8, i64::MIN), 1);
    }

    #[test]
    fn impossible_epochs_are_refused_with_the_nearest() {
        assert_eq!(EpochSpec::halving(0, 1).unwrap_err().nearest, "1");
        assert_eq!(EpochSpec::halving(10, 11).unwrap_err().nearest, "10");
        assert_eq!(EpochSpec::halving(10, 0).unwrap_err().nearest, "1");
        assert_eq!(EpochSpec::keeping(0, 0.5).unwrap_err().nearest, "1");
        assert!(EpochSpec::keeping(10, 1.0).is_err() && EpochSpec::keeping(10, f64::NAN).is_err());
    }
}
