//! Why parameters are refused, and what would have been accepted.

use std::fmt::Display;
use std::ops::RangeInclusive;

use thiserror::Error;

/// Whoever meets one shows it to the person who wrote the parameter: nothing else can be done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what} cannot be {given}: {why}; the nearest valid value is {nearest}")]
pub struct SpecError {
    pub what: &'static str,
    pub given: String,
    pub why: String,
    pub nearest: String,
}

impl SpecError {
    pub fn new(what: &'static str, given: impl Display, why: impl Into<String>, nearest: impl Display) -> Self {
        Self { what, given: given.to_string(), why: why.into(), nearest: nearest.to_string() }
    }
}

/// `given` when it lies in `range`. What compares with nothing (NaN) is nearest to the lower end.
pub fn within<T: PartialOrd + Display + Copy>(
    what: &'static str,
    given: T,
    range: RangeInclusive<T>,
    why: &str,
) -> Result<T, SpecError> {
    if range.contains(&given) {
        return Ok(given);
    }
    let nearest = if given > *range.end() { *range.end() } else { *range.start() };
    Err(SpecError::new(what, given, why, nearest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_nearest_valid_value() {
        assert_eq!(within("hashes", 3, 1..=16, "").unwrap(), 3);
        assert_eq!(within("hashes", 0, 1..=16, "an item needs a cell").unwrap_err().nearest, "1");
        assert_eq!(within("hashes", 99, 1..=16, "").unwrap_err().nearest, "16");
        assert_eq!(within("share", f64::NAN, 0.5..=1.0, "").unwrap_err().nearest, "0.5");
        let shown = within("hashes", 0, 1..=16, "an item needs a cell").unwrap_err().to_string();
        assert_eq!(shown, "hashes cannot be 0: an item needs a cell; the nearest valid value is 1");
    }
}
