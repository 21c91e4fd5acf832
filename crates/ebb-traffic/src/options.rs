//! How much traffic, from when on, and over what.

use thiserror::Error;

/// Valid once [`super::Traffic::new`] took it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrafficOptions {
    /// When the first click arrives, about.
    pub start_ms: i64,
    /// Mean over the day and over bursts.
    pub rate_per_second: f64,
    pub day: Day,
    /// Share of payloads that are damaged on their way.
    pub malformed_share: f64,
    pub campaigns: u32,
    pub ads_per_campaign: u32,
    /// How many people there are; most never come.
    pub people: u32,
    /// How long the farm waits, at the mean rate, before it replays a click.
    pub farm_interval_ms: u64,
}

/// How the rate moves through the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Day {
    /// Not at all.
    Flat,
    /// By [`super::aim::HOURS`].
    Diurnal,
}

impl Default for TrafficOptions {
    fn default() -> Self {
        Self {
            start_ms: 0,
            rate_per_second: 1_000.0,
            day: Day::Flat,
            malformed_share: 0.0,
            campaigns: 200,
            ads_per_campaign: 25,
            people: 2_000_000,
            farm_interval_ms: 60_000,
        }
    }
}

/// Why options were refused.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error("{option} cannot be {given}: the nearest possible value is {nearest}")]
pub struct TrafficError {
    pub option: &'static str,
    pub given: f64,
    pub nearest: f64,
}

impl TrafficOptions {
    pub(super) fn check(&self) -> Result<(), TrafficError> {
        let within = |option, given: f64, least: f64, most: f64| {
            let nearest = if given.is_nan() { least } else { given.clamp(least, most) };
            if nearest == given { Ok(()) } else { Err(TrafficError { option, given, nearest }) }
        };
        within("rate_per_second", self.rate_per_second, 1.0, 1e7)?;
        within("malformed_share", self.malformed_share, 0.0, 1.0)?;
        within("campaigns", f64::from(self.campaigns), 1.0, 1e5)?;
        within("ads_per_campaign", f64::from(self.ads_per_campaign), 1.0, 1e4)?;
        within("people", f64::from(self.people), 1.0, 1e9)?;
        within("farm_interval_ms", self.farm_interval_ms as f64, 1.0, 86_400_000.0)
    }
}
