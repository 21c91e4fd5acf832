//! Errors about parameters: the rejected value, the reason, and the nearest value that is valid.

use std::fmt::Display;
use std::ops::RangeInclusive;

use thiserror::Error;

/// A parameter out of range. It is meant for the person who wrote the parameter: no code can act on it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{name} cannot be {requested}: {reason}; the nearest valid value is {nearest}")]
pub struct ParameterError {
    /// Name of the parameter.
    pub name: &'static str,
    /// The rejected value.
    pub requested: String,
    /// Why it was rejected.
    pub reason: String,
    /// The closest valid value.
    pub nearest: String,
}

impl ParameterError {
    /// An error about the parameter `name`.
    pub fn new(name: &'static str, requested: impl Display, reason: impl Into<String>, nearest: impl Display) -> Self {
        Self { name, requested: requested.to_string(), reason: reason.into(), nearest: nearest.to_string() }
    }
}

/// Returns `requested` if it lies in `range`. The nearest value to NaN is the lower end.
pub fn check_range<T: PartialOrd + Display + Copy>(
    name: &'static str,
    requested: T,
    range: RangeInclusive<T>,
    reason: &str,
) -> Result<T, ParameterError> {
    if range.contains(&requested) {
        return Ok(requested);
    }
    let nearest = if requested > *range.end() { *range.end() } else { *range.start() };
    Err(ParameterError::new(name, requested, reason, nearest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_nearest_valid_value() {
        assert_eq!(check_range("hashes", 3, 1..=16, "").unwrap(), 3);
        assert_eq!(check_range("hashes", 0, 1..=16, "an item needs a cell").unwrap_err().nearest, "1");
        assert_eq!(check_range("hashes", 99, 1..=16, "").unwrap_err().nearest, "16");
        assert_eq!(check_range("share", f64::NAN, 0.5..=1.0, "").unwrap_err().nearest, "0.5");
        let message = check_range("hashes", 0, 1..=16, "an item needs a cell").unwrap_err().to_string();
        assert_eq!(message, "hashes cannot be 0: an item needs a cell; the nearest valid value is 1");
    }
}
