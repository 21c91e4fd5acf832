//! Encodings that several methods share. Each method seals its own block; these are the fields within.

use super::error::ShapeError;
use super::observation::{MAX_TIME_MS, Observation, WeightLimits, check_time};
use super::qdigest::{DigestShape, QDigest};
use super::spacesaving::SpaceSaving;
use super::summary::{Summary, SummaryShape, Tally};
use super::timeline::TimelineShape;
use crate::codec::{CodecError, Reader, Writer};
use crate::decay::{Decay, DecayError};

/// Whole weights below this are written as varints.
const MAX_WHOLE: f64 = (1u64 << 53) as f64;

/// Writes a positive weight: one varint if it is whole, otherwise a marker and its bits.
pub(crate) fn write_weight(w: &mut Writer, weight: f64) {
    if is_whole(weight) {
        w.varint((weight as u64) << 1);
    } else {
        w.varint(1);
        w.f64(weight);
    }
}

fn is_whole(weight: f64) -> bool {
    (1.0..MAX_WHOLE).contains(&weight) && weight.fract() == 0.0
}

pub(crate) fn read_weight(r: &mut Reader<'_>) -> Result<f64, CodecError> {
    let tag = r.varint()?;
    let weight = if tag == 1 { r.f64()? } else { (tag >> 1) as f64 };
    // The encoding is canonical: each weight has exactly one.
    if (tag == 1) == is_whole(weight) || (tag != 1 && tag & 1 == 1) {
        return Err(CodecError::invalid("weight", "not in its shortest form"));
    }
    positive("weight", weight)
}

pub(crate) fn positive(what: &'static str, value: f64) -> Result<f64, CodecError> {
    if value.is_finite() && value > 0.0 { Ok(value) } else { Err(CodecError::invalid(what, "not a number above 0")) }
}

pub(crate) fn not_negative(what: &'static str, value: f64) -> Result<f64, CodecError> {
    if value.is_finite() && value >= 0.0 && value.is_sign_positive() {
        Ok(value)
    } else {
        Err(CodecError::invalid(what, "negative or not a number"))
    }
}

/// Turns the rejection of a decoded shape into a codec error.
pub(crate) fn invalid(what: &'static str) -> impl Fn(ShapeError) -> CodecError {
    move |error| CodecError::invalid(what, error.to_string())
}

/// Maps signed to unsigned numbers such that small magnitudes stay small.
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

pub(crate) fn read_time(r: &mut Reader<'_>) -> Result<i64, CodecError> {
    let time_ms = unzigzag(r.varint()?);
    check_time(time_ms).map_err(|error| CodecError::invalid("time", error.to_string()))?;
    Ok(time_ms)
}

/// Writes an optional time: 0, or one more than its zigzag.
pub(crate) fn write_clock(w: &mut Writer, clock_ms: Option<i64>) {
    w.varint(clock_ms.map_or(0, |clock| zigzag(clock) + 1));
}

pub(crate) fn read_clock(r: &mut Reader<'_>) -> Result<Option<i64>, CodecError> {
    let Some(code) = r.varint()?.checked_sub(1) else { return Ok(None) };
    let clock_ms = unzigzag(code);
    // The end of a range may exceed the accepted times by less than a block.
    if clock_ms.unsigned_abs() > 2 * MAX_TIME_MS.unsigned_abs() {
        return Err(CodecError::invalid("clock", "too far from the epoch"));
    }
    Ok(Some(clock_ms))
}

/// The oldest and the newest time, or neither.
pub(crate) fn write_span(w: &mut Writer, span_ms: Option<(i64, i64)>) {
    write_clock(w, span_ms.map(|(oldest, _)| oldest));
    write_clock(w, span_ms.map(|(_, newest)| newest));
}

pub(crate) fn read_span(r: &mut Reader<'_>) -> Result<Option<(i64, i64)>, CodecError> {
    match (read_clock(r)?, read_clock(r)?) {
        (None, None) => Ok(None),
        (Some(oldest), Some(newest)) if oldest <= newest => Ok(Some((oldest, newest))),
        _ => Err(CodecError::invalid("span", "one end is missing, or the ends are out of order")),
    }
}

pub(crate) fn write_decay(w: &mut Writer, decay: &Decay) {
    match (decay.width(), decay.rate(), decay.power()) {
        (Some(width), _, _) => {
            w.u8(1);
            w.u64(width);
        }
        (_, Some(rate), _) => {
            w.u8(2);
            w.f64(rate);
        }
        (_, _, Some((alpha, unit))) => {
            w.u8(3);
            w.f64(alpha);
            w.f64(unit);
        }
        (None, None, None) => {
            w.u8(4);
            w.bytes(decay.to_string().as_bytes());
        }
    }
}

pub(crate) fn read_decay(r: &mut Reader<'_>) -> Result<Decay, CodecError> {
    let rejected = |error: DecayError| CodecError::invalid("decay", error.to_string());
    match r.u8()? {
        1 => Decay::window(r.u64()?).map_err(rejected),
        2 => Decay::exponential(r.f64()?).map_err(rejected),
        3 => Decay::polynomial(r.f64()?, r.f64()?).map_err(rejected),
        4 => {
            let text = std::str::from_utf8(r.bytes()?).map_err(|_| CodecError::invalid("decay", "not UTF-8"))?;
            let decay: Decay = text.parse().map_err(rejected)?;
            if decay.to_string() == text { Ok(decay) } else { Err(CodecError::invalid("decay", "not canonical")) }
        }
        _ => Err(CodecError::invalid("decay", "unknown form")),
    }
}

impl SummaryShape {
    pub(crate) fn write(self, w: &mut Writer) {
        w.u8(self.values().map_or(0, DigestShape::bits));
        w.f64(self.values().map_or(0.0, DigestShape::beta));
        w.u32(self.counters().unwrap_or(0));
        w.f64(self.weights().min());
        w.f64(self.weights().max());
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, CodecError> {
        let (bits, beta, counters) = (r.u8()?, r.f64()?, r.u32()?);
        let weights = WeightLimits::new(r.f64()?, r.f64()?).map_err(invalid("weight limits"))?;
        let mut shape = Self::totals().with_weights(weights);
        if bits > 0 {
            shape = shape.with_values(DigestShape::new(bits, beta).map_err(invalid("digest"))?);
        } else if beta.to_bits() != 0 {
            return Err(CodecError::invalid("digest", "an error bound without bits"));
        }
        if counters > 0 {
            shape = shape.with_labels(counters).map_err(invalid("counters"))?;
        }
        Ok(shape)
    }
}

impl TimelineShape {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.f64(self.epsilon);
        w.u64(self.horizon_ms);
        self.summary.write(w);
        w.varint(if self.is_guaranteed { 0 } else { u64::from(self.capacity) });
    }

    /// `ranges` is that of [`TimelineShape::new`]: a capacity that follows from the other fields is not written.
    pub(crate) fn read(ranges: f64, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        let (epsilon, horizon_ms) = (r.f64()?, r.u64()?);
        let shape = Self::new(epsilon, horizon_ms, SummaryShape::read(r)?, ranges).map_err(invalid("timeline"))?;
        match r.varint()? {
            0 => Ok(shape),
            capacity @ 4..=0xFFFF_FFFF => Ok(shape.with_capacity(capacity as u32)),
            _ => Err(CodecError::invalid("capacity", "not within 4 and 2^32 - 1")),
        }
    }
}

impl Tally {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.f64(self.weight);
        w.f64(self.sum);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, CodecError> {
        Ok(Self { weight: positive("weight", r.f64()?)?, sum: not_negative("sum", r.f64()?)? })
    }
}

impl Summary {
    pub(crate) fn write(&self, w: &mut Writer) {
        self.tally.write(w);
        self.values.iter().for_each(|digest| digest.write_fields(w));
        self.labels.iter().for_each(|labels| labels.write_fields(w));
    }

    pub(crate) fn read(shape: SummaryShape, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            tally: Tally::read(r)?,
            values: shape.values().map(|values| QDigest::read_fields(values, r)).transpose()?,
            labels: shape.counters().map(|counters| SpaceSaving::read_fields(counters, r)).transpose()?,
        })
    }
}

impl Observation {
    /// Writes the label only where labels are kept.
    pub(crate) fn write(&self, shape: SummaryShape, w: &mut Writer) {
        w.varint(zigzag(self.time_ms));
        w.varint(self.value);
        write_weight(w, self.weight);
        if shape.counters().is_some() {
            w.u128(self.label);
        }
    }

    pub(crate) fn read(shape: SummaryShape, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        let (time_ms, value, weight) = (read_time(r)?, r.varint()?, read_weight(r)?);
        let label = if shape.counters().is_some() { r.u128()? } else { 0 };
        let observation = Self { time_ms, value, label, weight };
        shape.check(&observation).map_err(|error| CodecError::invalid("observation", error.to_string()))?;
        Ok(observation)
    }
}
