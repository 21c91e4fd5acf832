//! Durations and sizes in text: `24h`, `1h30m`, `250ms`, `64MiB`, `1.5GB`.
//!
//! ```
//! use ebb_sketch::units::{Bytes, DurationMs, parse_bytes, parse_duration_ms};
//!
//! assert_eq!(parse_duration_ms("1h30m"), Ok(5_400_000));
//! assert_eq!(DurationMs(5_400_000).to_string(), "1h30m");
//! assert_eq!(parse_bytes("64MiB").map(Bytes), Ok(Bytes(64 << 20)));
//! ```

use std::fmt;

/// A text that is no duration or size, with the expected form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what}; {expected}")]
pub struct UnitError {
    text: String,
    what: &'static str,
    expected: &'static str,
}

const DURATIONS: [(&str, u64); 6] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];

const SIZES: [(&str, u64); 9] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
];

/// Parses `24h`, `1h30m`, `0.5s` or `250ms` into milliseconds: one or more numbers with units, largest unit first.
pub fn parse_duration_ms(text: &str) -> Result<u64, UnitError> {
    let error = || UnitError {
        text: text.into(),
        what: "a duration",
        expected: "write a number and ms, s, m, h, d or w, such as 24h or 1h30m",
    };
    let mut rest = text.trim();
    let (mut total, mut last_unit) = (0u64, u64::MAX);
    while !rest.is_empty() {
        let (amount, unit, after) = split_amount(rest, &DURATIONS).ok_or_else(error)?;
        if unit >= last_unit {
            return Err(error());
        }
        total = multiply(amount, unit).and_then(|part| total.checked_add(part)).ok_or_else(error)?;
        (rest, last_unit) = (after, unit);
    }
    if last_unit == u64::MAX { Err(error()) } else { Ok(total) }
}

/// Parses `64MiB`, `1.5GB` or `512B` into bytes.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let error = || UnitError {
        text: text.into(),
        what: "a size",
        expected: "write a number and B, kB, MB, GB, KiB, MiB or GiB, such as 64MiB",
    };
    let (amount, unit, rest) = split_amount(text.trim(), &SIZES).ok_or_else(error)?;
    if !rest.is_empty() {
        return Err(error());
    }
    multiply(amount, unit).ok_or_else(error)
}

/// Splits `24h…` into its number, the size of its unit, and the rest.
fn split_amount<'a>(text: &'a str, units: &[(&str, u64)]) -> Option<(&'a str, u64, &'a str)> {
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(number_end);
    let rest = rest.trim_start();
    let unit_end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let (_, size) = units.iter().find(|(name, _)| *name == unit)?;
    Some((number, *size, rest.trim_start()))
}

/// `amount` times `unit`, if `amount` has at most nine decimals and the product is an integer.
fn multiply(amount: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = amount.split_once('.').unwrap_or((amount, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let parts_per_one = 10u64.pow(fraction.len() as u32);
    let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(unit);
    if part % u128::from(parts_per_one) != 0 {
        return None;
    }
    let part = u64::try_from(part / u128::from(parts_per_one)).ok()?;
    whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(part)
}

/// Milliseconds, displayed in the form that [`parse_duration_ms`] reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurationMs(pub u64);

impl fmt::Display for DurationMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0;
        if left == 0 {
            return f.write_str("0ms");
        }
        for (name, unit) in DURATIONS.iter().rev().filter(|(name, _)| *name != "w") {
            if left >= *unit {
                write!(f, "{}{name}", left / unit)?;
                left %= unit;
            }
        }
        Ok(())
    }
}

/// Bytes, displayed in the largest binary unit that leaves no remainder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        match units.iter().find(|(_, unit)| self.0 >= *unit && self.0.is_multiple_of(*unit)) {
            Some((name, unit)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed() {
        for (text, ms) in
            [("24h", 86_400_000), ("1h30m", 5_400_000), ("0.5s", 500), ("250ms", 250), ("7d", 604_800_000)]
        {
            assert_eq!(parse_duration_ms(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_rejected_with_the_expected_form() {
        for text in
            ["", "24", "h", "1m1h", "1h1h", "-1s", "1.0001ms", "1 year", "99999999999999999999h", "1..5s", ".5s"]
        {
            let error = parse_duration_ms(text).unwrap_err().to_string();
            assert!(error.contains("24h or 1h30m"), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_are_parsed() {
        for (text, bytes) in [("64MiB", 64 << 20), ("1.5GB", 1_500_000_000), ("512B", 512), ("9Gi", 9 << 30)] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["64", "MiB", "-1B", "1.5B", "1MiBs", "64 MiB 1B"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn displayed_values_are_parsed_back() {
        for ms in [0, 1, 999, 61_000, 5_400_000, 86_400_000, 694_861_001] {
            assert_eq!(parse_duration_ms(&DurationMs(ms).to_string()), Ok(ms));
        }
        for bytes in [0, 1, 1024, 64 << 20, (1 << 30) + 1] {
            assert_eq!(parse_bytes(&Bytes(bytes).to_string()), Ok(bytes));
        }
    }
}
