//! Scalars of a payload in their source form, and their conversions.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::event_spec::TimeUnit;
use crate::verdict::Reason;
use ebb_sketch::hash::FingerprintBuilder;

/// One scalar of the payload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scalar<'a> {
    /// A string without escapes, without its quotes.
    Text(&'a str),
    /// A string with its quotes and escapes.
    Quoted(&'a str),
    /// A number, `true` or `false` as it is spelled in the payload.
    Bare(&'a str),
    /// An integer whose spelling does not matter.
    Integer(i64),
    /// Any other number whose spelling does not matter.
    Float(f64),
}

/// The configured scalars of one payload, by slot.
#[derive(Debug)]
pub(super) struct Fields<'a>(pub(super) SmallVec<[Option<Scalar<'a>>; 12]>);

impl<'a> Fields<'a> {
    pub(super) fn get(&self, slot: usize) -> Option<&Scalar<'a>> {
        self.0[slot].as_ref()
    }

    pub(super) fn required(&self, slot: usize) -> Result<&Scalar<'a>, Reason> {
        self.get(slot).ok_or(Reason::Schema)
    }
}

impl<'a> Scalar<'a> {
    /// A JSON scalar as it is spelled; `None` for `null`, an error for objects and lists.
    pub(super) fn from_json(raw: &'a str) -> Result<Option<Self>, Reason> {
        match raw.as_bytes().first() {
            Some(b'"') => Ok(Some(Scalar::Quoted(raw))),
            Some(b'n') => Ok(None),
            Some(b't' | b'f') => Ok(Some(Scalar::Bare(raw))),
            Some(b'-' | b'0'..=b'9') if is_finite(raw) => Ok(Some(Scalar::Bare(raw))),
            Some(b'-' | b'0'..=b'9') => Err(Reason::Parse),
            _ => Err(Reason::Schema),
        }
    }

    /// The text without quotes and escapes.
    pub(super) fn text(&self) -> Result<Cow<'a, str>, Reason> {
        let raw = match self {
            Scalar::Text(text) | Scalar::Bare(text) => return Ok(Cow::Borrowed(text)),
            // Where a text is needed the second pass has kept the spelling.
            Scalar::Integer(_) | Scalar::Float(_) => return Err(Reason::Schema),
            Scalar::Quoted(raw) => raw,
        };
        let inner = &raw[1..raw.len() - 1];
        if !inner.contains('\\') {
            return Ok(Cow::Borrowed(inner));
        }
        // Lone surrogates are valid JSON but not valid text: they are detected here.
        let text: String = serde_json::from_str(raw).map_err(|_| Reason::Encoding)?;
        if text.contains('\0') { Err(Reason::Encoding) } else { Ok(Cow::Owned(text)) }
    }

    pub(super) fn number(&self) -> Result<f64, Reason> {
        match self {
            Scalar::Integer(number) => Ok(*number as f64),
            Scalar::Float(number) => Ok(*number),
            Scalar::Bare(raw) => raw.parse().map_err(|_| Reason::Schema),
            Scalar::Text(_) | Scalar::Quoted(_) => Err(Reason::Schema),
        }
    }

    pub(super) fn time_ms(&self, unit: TimeUnit) -> Result<i64, Reason> {
        if unit == TimeUnit::Rfc3339 {
            return match self {
                Scalar::Text(_) | Scalar::Quoted(_) => {
                    self.text()?.parse().map(jiff::Timestamp::as_millisecond).map_err(|_| Reason::Schema)
                }
                Scalar::Bare(_) | Scalar::Integer(_) | Scalar::Float(_) => Err(Reason::Schema),
            };
        }
        let integer = match self {
            Scalar::Integer(number) => Some(*number),
            Scalar::Bare(raw) => raw.parse().ok(),
            Scalar::Text(_) | Scalar::Quoted(_) | Scalar::Float(_) => None,
        };
        let Some(integer) = integer else { return Ok(float_ms(self.number()?, unit)) };
        Ok(match unit {
            TimeUnit::Seconds => integer.saturating_mul(1_000),
            TimeUnit::Microseconds => integer.div_euclid(1_000),
            TimeUnit::Nanoseconds => integer.div_euclid(1_000_000),
            TimeUnit::Milliseconds | TimeUnit::Rfc3339 => integer,
        })
    }

    /// Adds the scalar to a fingerprint: its text, and whether it was quoted.
    pub(super) fn hash(&self, hasher: &mut FingerprintBuilder) -> Result<(), Reason> {
        match self {
            Scalar::Bare(raw) => hasher.push(BARE, raw),
            Scalar::Text(text) => Self::hash_text(text, hasher),
            Scalar::Quoted(_) | Scalar::Integer(_) | Scalar::Float(_) => Self::hash_text(&self.text()?, hasher),
        }
        Ok(())
    }

    pub(super) fn hash_text(text: &str, hasher: &mut FingerprintBuilder) {
        hasher.push(QUOTED, text);
    }
}

/// Tags of texts in fingerprints; changing them invalidates all state.
const QUOTED: u8 = 1;
const BARE: u8 = 2;

/// Numbers of up to 300 characters without an exponent are finite; only others need to be parsed.
fn is_finite(number: &str) -> bool {
    number.len() <= 300 && !number.bytes().any(|byte| byte | 0x20 == b'e') || number.parse().is_ok_and(f64::is_finite)
}

/// Rounds towards the past; values beyond `i64` saturate, as float casts do.
fn float_ms(time: f64, unit: TimeUnit) -> i64 {
    let ms = match unit {
        // The double nearest to 1.001 is below 1.001: round to microseconds first.
        TimeUnit::Seconds => (time * 1e6).round() / 1e3,
        TimeUnit::Microseconds => time / 1e3,
        TimeUnit::Nanoseconds => time / 1e6,
        TimeUnit::Milliseconds | TimeUnit::Rfc3339 => time,
    };
    ms.floor() as i64
}
