//! Scalars in their source form, and what can be made of them.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::event_spec::TimeUnit;
use crate::verdict::Reason;
use ebb_sketch::hash::Fingerprinting;

/// One scalar of the payload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field<'a> {
    /// A text without escapes, without its quotes.
    Text(&'a str),
    /// A text with its quotes and escapes.
    Quoted(&'a str),
    /// A number, `true` or `false`, to the letter.
    Bare(&'a str),
    /// A number whose spelling does not matter.
    Whole(i64),
    Fraction(f64),
}

/// The fields of one payload, by slot.
#[derive(Debug)]
pub(super) struct Fields<'a>(pub(super) SmallVec<[Option<Field<'a>>; 12]>);

impl<'a> Fields<'a> {
    pub(super) fn get(&self, slot: usize) -> Option<&Field<'a>> {
        self.0[slot].as_ref()
    }

    pub(super) fn required(&self, slot: usize) -> Result<&Field<'a>, Reason> {
        self.get(slot).ok_or(Reason::Schema)
    }
}

impl<'a> Field<'a> {
    /// A JSON scalar to the letter; `null` is no field at all, and what is not a scalar is refused.
    pub(super) fn from_json(raw: &'a str) -> Result<Option<Self>, Reason> {
        match raw.as_bytes().first() {
            Some(b'"') => Ok(Some(Field::Quoted(raw))),
            Some(b'n') => Ok(None),
            Some(b't' | b'f') => Ok(Some(Field::Bare(raw))),
            Some(b'-' | b'0'..=b'9') if is_finite(raw) => Ok(Some(Field::Bare(raw))),
            Some(b'-' | b'0'..=b'9') => Err(Reason::Parse),
            _ => Err(Reason::Schema),
        }
    }

    /// The text, without quotes and escapes.
    pub(super) fn text(&self) -> Result<Cow<'a, str>, Reason> {
        let raw = match self {
            Field::Text(text) | Field::Bare(text) => return Ok(Cow::Borrowed(text)),
            // Where a text is wanted the payload is read to the letter.
            Field::Whole(_) | Field::Fraction(_) => return Err(Reason::Schema),
            Field::Quoted(raw) => raw,
        };
        let inner = &raw[1..raw.len() - 1];
        if !inner.contains('\\') {
            return Ok(Cow::Borrowed(inner));
        }
        // Lone surrogates are found here: they pass as JSON but are no text.
        let text: String = serde_json::from_str(raw).map_err(|_| Reason::Encoding)?;
        if text.contains('\0') { Err(Reason::Encoding) } else { Ok(Cow::Owned(text)) }
    }

    pub(super) fn number(&self) -> Result<f64, Reason> {
        match self {
            Field::Whole(number) => Ok(*number as f64),
            Field::Fraction(number) => Ok(*number),
            Field::Bare(raw) => raw.parse().map_err(|_| Reason::Schema),
            Field::Text(_) | Field::Quoted(_) => Err(Reason::Schema),
        }
    }

    pub(super) fn time_ms(&self, unit: TimeUnit) -> Result<i64, Reason> {
        if unit == TimeUnit::Rfc3339 {
            return match self {
                Field::Text(_) | Field::Quoted(_) => {
                    self.text()?.parse().map(jiff::Timestamp::as_millisecond).map_err(|_| Reason::Schema)
                }
                Field::Bare(_) | Field::Whole(_) | Field::Fraction(_) => Err(Reason::Schema),
            };
        }
        let whole = match self {
            Field::Whole(number) => Some(*number),
            Field::Bare(raw) => raw.parse().ok(),
            Field::Text(_) | Field::Quoted(_) | Field::Fraction(_) => None,
        };
        let Some(whole) = whole else { return Ok(fraction_ms(self.number()?, unit)) };
        Ok(match unit {
            TimeUnit::Seconds => whole.saturating_mul(1_000),
            TimeUnit::Microseconds => whole.div_euclid(1_000),
            TimeUnit::Nanoseconds => whole.div_euclid(1_000_000),
            TimeUnit::Milliseconds | TimeUnit::Rfc3339 => whole,
        })
    }

    /// Adds the field to a fingerprint: its text, and whether it stood in quotes.
    pub(super) fn hash(&self, making: &mut Fingerprinting) -> Result<(), Reason> {
        match self {
            Field::Bare(raw) => making.text(BARE, raw),
            Field::Text(text) => Self::hash_text(text, making),
            Field::Quoted(_) | Field::Whole(_) | Field::Fraction(_) => Self::hash_text(&self.text()?, making),
        }
        Ok(())
    }

    pub(super) fn hash_text(text: &str, making: &mut Fingerprinting) {
        making.text(QUOTED, text);
    }
}

/// Kinds of text in fingerprints: part of all state.
const QUOTED: u8 = 1;
const BARE: u8 = 2;

/// Numbers of up to 300 characters without an exponent are finite without looking further.
fn is_finite(number: &str) -> bool {
    number.len() <= 300 && !number.bytes().any(|byte| byte | 0x20 == b'e') || number.parse().is_ok_and(f64::is_finite)
}

/// Floors towards the past; what is beyond i64 saturates (a float cast does).
fn fraction_ms(time: f64, unit: TimeUnit) -> i64 {
    let ms = match unit {
        // The double of 1.001 stands a little below it.
        TimeUnit::Seconds => (time * 1e6).round() / 1e3,
        TimeUnit::Microseconds => time / 1e3,
        TimeUnit::Nanoseconds => time / 1e6,
        TimeUnit::Milliseconds | TimeUnit::Rfc3339 => time,
    };
    ms.floor() as i64
}
