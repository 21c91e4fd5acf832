//! Decay functions: the weight of an observation that is `age` milliseconds old.
//!
//! Every function satisfies g(0) = 1, is finite and never increases. A [`Decay`] that exists is valid. A window of width w
//! contains the ages *below* w, here and everywhere else.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::str::FromStr;

use crate::units::{DurationMs, parse_duration_ms};

/// A decay function g of the age in milliseconds.
///
/// ```
/// use ebb_sketch::decay::Decay;
///
/// let decay: Decay = "exponential:half_life=10m".parse().unwrap();
/// assert!((decay.weight(20 * 60_000) - 0.25).abs() < 1e-12);
/// let window: Decay = "window:1h".parse().unwrap();
/// assert_eq!((window.weight(3_599_999), window.weight(3_600_000)), (1.0, 0.0));
/// assert!("window:0ms".parse::<Decay>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Decay(DecayForm);

#[derive(Debug, Clone, PartialEq)]
enum DecayForm {
    Window { width: u64 },
    Exponential { rate: f64 },
    Polynomial { alpha: f64, unit: f64 },
    Gaussian { sigma: u64 },
    Logarithmic { unit: u64 },
    Table { points: Vec<(u64, f64)> },
}

/// Why a decay function was rejected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DecayError {
    /// A window of width 0.
    #[error("a window must be at least 1ms wide")]
    EmptyWindow,
    /// A rate, half-life, power or unit that is not positive.
    #[error("{0} must be a finite number above 0")]
    NotPositive(&'static str),
    /// A table with too few or too many points, or with ages that do not rise.
    #[error("a table needs at least two points, at most {max}, with rising ages")]
    TableShape {
        /// The largest number of points.
        max: usize,
    },
    /// A table that does not start at (0, 1).
    #[error("a table must begin with age 0 and weight 1")]
    TableStart,
    /// A weight above its predecessor or below 0.
    #[error("the weights of a table must fall from 1 towards 0 and never rise (see age {0}ms)")]
    TableRises(u64),
    /// Text in no known form.
    #[error(
        "{0:?} is not a decay; write window:1h, exponential:half_life=10m, exponential:rate=0.01 (per second), \
         polynomial:alpha=1.5,unit=1s, gaussian:sigma=10m, logarithmic:unit=1m or table:0s=1,1m=0.5,1h=0"
    )]
    Unknown(String),
}

const MAX_TABLE_POINTS: usize = 4096;

fn positive(name: &'static str, value: f64) -> Result<f64, DecayError> {
    if value.is_finite() && value > 0.0 { Ok(value) } else { Err(DecayError::NotPositive(name)) }
}

impl Decay {
    /// Weight 1 for ages below `width_ms`, then 0.
    pub fn window(width_ms: u64) -> Result<Self, DecayError> {
        if width_ms == 0 { Err(DecayError::EmptyWindow) } else { Ok(Self(DecayForm::Window { width: width_ms })) }
    }

    /// exp(-rate · age), with the rate per millisecond.
    pub fn exponential(rate_per_ms: f64) -> Result<Self, DecayError> {
        Ok(Self(DecayForm::Exponential { rate: positive("rate", rate_per_ms)? }))
    }

    /// Halves every `half_life_ms`.
    pub fn half_life(half_life_ms: f64) -> Result<Self, DecayError> {
        Self::exponential(std::f64::consts::LN_2 / positive("half_life", half_life_ms)?)
    }

    /// (1 + age / unit)^-alpha.
    pub fn polynomial(alpha: f64, unit_ms: f64) -> Result<Self, DecayError> {
        Ok(Self(DecayForm::Polynomial { alpha: positive("alpha", alpha)?, unit: positive("unit", unit_ms)? }))
    }

    /// exp(-(age / sigma)² / 2): flat at first, then falls faster than any exponential.
    pub fn gaussian(sigma_ms: u64) -> Result<Self, DecayError> {
        if sigma_ms == 0 {
            Err(DecayError::NotPositive("sigma"))
        } else {
            Ok(Self(DecayForm::Gaussian { sigma: sigma_ms }))
        }
    }

    /// 1 / (1 + ln(1 + age / unit)): falls more slowly than any power.
    pub fn logarithmic(unit_ms: u64) -> Result<Self, DecayError> {
        if unit_ms == 0 {
            Err(DecayError::NotPositive("unit"))
        } else {
            Ok(Self(DecayForm::Logarithmic { unit: unit_ms }))
        }
    }

    /// Linear interpolation between (age, weight) points; the last weight holds beyond the last point.
    pub fn table(points: Vec<(u64, f64)>) -> Result<Self, DecayError> {
        if points.len() < 2 || points.len() > MAX_TABLE_POINTS || points.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err(DecayError::TableShape { max: MAX_TABLE_POINTS });
        }
        if points[0] != (0, 1.0) {
            return Err(DecayError::TableStart);
        }
        let falls = |from: f64, to: f64| (0.0..=from).contains(&to);
        match points.windows(2).find(|pair| !falls(pair[0].1, pair[1].1)) {
            Some(pair) => Err(DecayError::TableRises(pair[1].0)),
            None => Ok(Self(DecayForm::Table { points })),
        }
    }

    /// g(age): the weight at this age.
    pub fn weight(&self, age_ms: u64) -> f64 {
        match &self.0 {
            DecayForm::Window { width } => f64::from(u8::from(age_ms < *width)),
            DecayForm::Exponential { rate } => libm::exp(-rate * age_ms as f64),
            DecayForm::Polynomial { alpha, unit } => libm::exp(-alpha * libm::log1p(age_ms as f64 / unit)),
            DecayForm::Gaussian { sigma } => {
                let deviations = age_ms as f64 / *sigma as f64;
                libm::exp(-0.5 * deviations * deviations)
            }
            DecayForm::Logarithmic { unit } => 1.0 / (1.0 + libm::log1p(age_ms as f64 / *unit as f64)),
            DecayForm::Table { points } => interpolate(points, age_ms),
        }
    }

    /// The rate per millisecond of an exponential decay.
    pub fn rate(&self) -> Option<f64> {
        if let DecayForm::Exponential { rate } = self.0 { Some(rate) } else { None }
    }

    /// The width in milliseconds of a window.
    pub fn width(&self) -> Option<u64> {
        if let DecayForm::Window { width } = self.0 { Some(width) } else { None }
    }

    /// The power and the unit in milliseconds of a polynomial decay.
    pub fn power(&self) -> Option<(f64, f64)> {
        if let DecayForm::Polynomial { alpha, unit } = self.0 { Some((alpha, unit)) } else { None }
    }

    /// Whether g(a) / g(a + d) never rises with a (log-convex, "smooth") for ages below `horizon_ms`. Value division requires
    /// it. Exponential, polynomial and logarithmic decays are smooth, windows and Gaussians are not, tables are checked piece
    /// by piece.
    pub fn is_smooth(&self, horizon_ms: u64) -> bool {
        match &self.0 {
            DecayForm::Window { width } => *width >= horizon_ms,
            DecayForm::Exponential { .. } | DecayForm::Polynomial { .. } | DecayForm::Logarithmic { .. } => true,
            DecayForm::Gaussian { .. } => false,
            DecayForm::Table { points } => table_is_smooth(points, horizon_ms),
        }
    }
}

fn interpolate(points: &[(u64, f64)], age: u64) -> f64 {
    let after = points.partition_point(|(at, _)| *at <= age);
    let (from, high) = points[after - 1];
    match points.get(after) {
        None => high,
        Some((to, low)) => high + (low - high) * ((age - from) as f64 / (to - from) as f64),
    }
}

/// A falling straight line is log-concave: within it the ratio of neighbouring weights rises. So a table is smooth only if
/// every falling piece is one millisecond long and the ratios at the points never rise.
fn table_is_smooth(points: &[(u64, f64)], horizon: u64) -> bool {
    points.windows(2).take_while(|pair| pair[0].0 < horizon).all(|pair| {
        let steps = pair[1].0 - pair[0].0;
        pair[0].1 == pair[1].1 || steps == 1
    }) && points.last().is_some_and(|(_, weight)| *weight > 0.0)
        && ratios_fall(points, horizon)
}

/// Whether g(a) / g(a + 1) around the points, left to right, never rises.
fn ratios_fall(points: &[(u64, f64)], horizon: u64) -> bool {
    let ages = points.iter().map(|(age, _)| *age).take_while(|age| *age < horizon);
    let ratios: Vec<f64> = ages
        .flat_map(|age| [age.saturating_sub(1), age])
        .map(|age| interpolate(points, age) / interpolate(points, age + 1))
        .collect();
    ratios.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-12))
}

impl fmt::Display for Decay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            DecayForm::Window { width } => write!(f, "window:{}", DurationMs(*width)),
            DecayForm::Exponential { rate } => write!(f, "exponential:rate={}", rate * 1e3),
            DecayForm::Polynomial { alpha, unit } => write!(f, "polynomial:alpha={alpha},unit={}ms", unit),
            DecayForm::Gaussian { sigma } => write!(f, "gaussian:sigma={}", DurationMs(*sigma)),
            DecayForm::Logarithmic { unit } => write!(f, "logarithmic:unit={}", DurationMs(*unit)),
            DecayForm::Table { points } => {
                let points: Vec<String> = points.iter().map(|(age, g)| format!("{}={g}", DurationMs(*age))).collect();
                write!(f, "table:{}", points.join(","))
            }
        }
    }
}

impl FromStr for Decay {
    type Err = DecayError;

    /// `window:1h`, `exponential:half_life=10m`, `exponential:rate=0.01` (per second), `polynomial:alpha=1.5,unit=1s`,
    /// `gaussian:sigma=10m`, `logarithmic:unit=1m`, `table:0s=1,1m=0.5,1h=0`.
    fn from_str(text: &str) -> Result<Self, DecayError> {
        let unknown = || DecayError::Unknown(text.into());
        let (form, rest) = text.split_once(':').ok_or_else(unknown)?;
        let ms = |text: &str| parse_duration_ms(text).map_err(|_| unknown());
        let number = |text: &str| text.parse::<f64>().map_err(|_| unknown());
        let pairs: Vec<(&str, &str)> = rest.split(',').filter_map(|pair| pair.split_once('=')).collect();
        match (form, pairs.as_slice()) {
            ("window", []) => Self::window(ms(rest)?),
            ("exponential", [("half_life", value)]) => Self::half_life(ms(value)? as f64),
            ("exponential", [("rate", value)]) => Self::exponential(number(value)? / 1e3),
            ("polynomial", [("alpha", alpha), ("unit", unit)]) => Self::polynomial(number(alpha)?, ms(unit)? as f64),
            ("gaussian", [("sigma", sigma)]) => Self::gaussian(ms(sigma)?),
            ("logarithmic", [("unit", unit)]) => Self::logarithmic(ms(unit)?),
            ("table", pairs) if !pairs.is_empty() && pairs.len() == rest.split(',').count() => {
                Self::table(pairs.iter().map(|(age, g)| Ok((ms(age)?, number(g)?))).collect::<Result<_, DecayError>>()?)
            }
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decay(text: &str) -> Decay {
        text.parse().unwrap()
    }

    #[test]
    fn weights_follow_the_formulas() {
        assert_eq!([0, 999, 1000].map(|age| decay("window:1s").weight(age)), [1.0, 1.0, 0.0]);
        assert!((decay("exponential:half_life=10m").weight(1_200_000) - 0.25).abs() < 1e-15);
        assert!((decay("exponential:rate=0.01").weight(100_000) - libm::exp(-1.0)).abs() < 1e-15);
        assert!((decay("polynomial:alpha=2,unit=1s").weight(3_000) - 1.0 / 16.0).abs() < 1e-15);
        assert!((decay("gaussian:sigma=10s").weight(20_000) - libm::exp(-2.0)).abs() < 1e-15);
        assert!((decay("logarithmic:unit=1s").weight(1_000) - 1.0 / (1.0 + std::f64::consts::LN_2)).abs() < 1e-15);
        assert_eq!([decay("gaussian:sigma=1ms"), decay("logarithmic:unit=1ms")].map(|g| g.weight(0)), [1.0, 1.0]);
        assert!(
            decay("gaussian:sigma=1ms").weight(u64::MAX) == 0.0 && decay("logarithmic:unit=1ms").weight(u64::MAX) > 0.0
        );
        let table = decay("table:0s=1,1s=0.5,2s=0");
        assert_eq!([0, 500, 1000, 1500, 2000, 9999].map(|age| table.weight(age)), [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]);
    }

    #[test]
    fn displayed_decays_are_parsed_back() {
        for text in [
            "window:1h",
            "exponential:rate=0.01",
            "polynomial:alpha=1.5,unit=1ms",
            "gaussian:sigma=10m",
            "logarithmic:unit=90s",
            "table:0ms=1,1m=0.5,1h=0",
        ] {
            let shown = decay(text).to_string();
            assert_eq!(decay(&shown), decay(text), "{shown}");
        }
    }

    #[test]
    fn invalid_decays_are_rejected() {
        for text in [
            "window:0ms",
            "window",
            "window:1h,2h",
            "exponential:rate=0",
            "exponential:rate=-1",
            "exponential:rate=NaN",
            "exponential:half_life=0s",
            "polynomial:alpha=inf,unit=1s",
            "polynomial:alpha=1",
            "table:0s=1",
            "table:0s=1,1s",
            "table:0s=0.5,1s=0.1",
            "table:0s=1,1s=0.5,1s=0.4",
            "table:0s=1,1s=0.5,2s=0.6",
            "table:0s=1,1s=-1",
            "table:0s=1,1s=NaN",
            "gaussian:1h",
            "gaussian:sigma=0s",
            "gaussian:unit=1s",
            "logarithmic:unit=0s",
            "logarithmic:1s",
            "",
        ] {
            assert!(text.parse::<Decay>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_log_convex_decays_are_smooth() {
        assert!(decay("exponential:half_life=1s").is_smooth(u64::MAX));
        assert!(decay("polynomial:alpha=0.5,unit=1s").is_smooth(u64::MAX));
        assert!(decay("logarithmic:unit=1s").is_smooth(u64::MAX));
        assert!(!decay("gaussian:sigma=1s").is_smooth(10_000));
        let ratio = |g: &Decay, age: u64| g.weight(age) / g.weight(age + 1);
        let slow = decay("logarithmic:unit=1s");
        assert!((0..5_000).step_by(50).all(|age| ratio(&slow, age + 50) <= ratio(&slow, age) * (1.0 + 1e-12)));
        assert!(!decay("window:1s").is_smooth(10_000));
        assert!(!decay("table:0s=1,1s=0.5,2s=0.25").is_smooth(10_000));
        assert!(decay("table:0ms=1,1ms=0.5,2ms=0.25,3ms=0.2").is_smooth(10_000));
        assert!(!decay("table:0ms=1,1ms=0.9,2ms=0.25,3ms=0.2").is_smooth(10_000));
    }
}
