//! Options of the click stream.

use thiserror::Error;

/// Options of the click stream. Checked by [`super::Traffic::new`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrafficOptions {
    /// Approximate arrival of the first click.
    pub start_ms: i64,
    /// Mean rate, including flash crowds.
    pub rate_per_second: f64,
    /// How the rate changes through the day.
    pub day: DayProfile,
    /// Share of damaged payloads.
    pub malformed_share: f64,
    /// Number of campaigns.
    pub campaigns: u32,
    /// Number of ads of each campaign.
    pub ads_per_campaign: u32,
    /// Size of the population; most people never click.
    pub people: u32,
    /// Time after which the farm replays a click, at the mean rate.
    pub farm_interval_ms: u64,
}

/// How the rate changes through the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DayProfile {
    /// Constant.
    Flat,
    /// According to [`super::targets::HOURS`].
    Diurnal,
}

impl Default for TrafficOptions {
    fn default() -> Self {
        Self {
            start_ms: 0,
            rate_per_second: 1_000.0,
            day: DayProfile::Flat,
            malformed_share: 0.0,
            campaigns: 200,
            ads_per_campaign: 25,
            people: 2_000_000,
            farm_interval_ms: 60_000,
        }
    }
}

/// An option is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error("{option} must not be {requested}; the nearest valid value is {nearest}")]
pub struct TrafficError {
    /// The name of the option.
    pub option: &'static str,
    /// Its value.
    pub requested: f64,
    /// The nearest valid value.
    pub nearest: f64,
}

impl TrafficError {
    /// Checks that `requested` is within `min..=max`.
    pub(super) fn check(option: &'static str, requested: f64, (min, max): (f64, f64)) -> Result<(), Self> {
        let nearest = if requested.is_nan() { min } else { requested.clamp(min, max) };
        if nearest == requested { Ok(()) } else { Err(Self { option, requested, nearest }) }
    }
}

impl TrafficOptions {
    pub(super) fn check(&self) -> Result<(), TrafficError> {
        TrafficError::check("rate_per_second", self.rate_per_second, (1.0, 1e7))?;
        TrafficError::check("malformed_share", self.malformed_share, (0.0, 1.0))?;
        TrafficError::check("campaigns", f64::from(self.campaigns), (1.0, 1e5))?;
        TrafficError::check("ads_per_campaign", f64::from(self.ads_per_campaign), (1.0, 1e4))?;
        TrafficError::check("people", f64::from(self.people), (1.0, 1e9))?;
        TrafficError::check("farm_interval_ms", self.farm_interval_ms as f64, (1.0, 86_400_000.0))
    }
}
