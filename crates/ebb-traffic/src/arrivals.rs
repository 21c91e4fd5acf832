//! Arrival rates: the hour of the day and flash crowds, both functions of time alone.

use super::options::{DayProfile, TrafficOptions};
use super::targets;
use ebb_sketch::random::{Random, mix};

const NS_PER_MS: u64 = 1_000_000;
const HOUR_MS: i64 = 3_600_000;

/// Rates of clicks that are not follow-ups, per second.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArrivalRates {
    pub(super) steady: f64,
    pub(super) burst: f64,
}

/// The rates at every time of the stream.
#[derive(Debug, Clone)]
pub(super) struct ArrivalSchedule {
    start_ms: i64,
    rate_per_second: f64,
    day: DayProfile,
    campaigns: u32,
    salt: u64,
    burst: Burst,
}

/// The flash crowd of one interval of the stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Burst {
    interval: u64,
    begin_ms: u64,
    pub(super) campaign: u32,
}

impl ArrivalSchedule {
    pub(super) fn new(options: &TrafficOptions, random: &mut Random) -> Self {
        let salt = random.next_u64();
        Self {
            start_ms: options.start_ms,
            rate_per_second: options.rate_per_second,
            day: options.day,
            campaigns: options.campaigns,
            salt,
            burst: burst_of(0, salt, options.campaigns),
        }
    }

    pub(super) fn at_ms(&self, since_start_ns: u64) -> i64 {
        self.start_ms.saturating_add_unsigned(since_start_ns / NS_PER_MS)
    }

    pub(super) fn burst_campaign(&self) -> u32 {
        self.burst.campaign
    }

    pub(super) fn rates(&mut self, since_start_ns: u64) -> ArrivalRates {
        let since_start_ms = since_start_ns / NS_PER_MS;
        let interval = since_start_ms / targets::BURST_EVERY_MS;
        if interval != self.burst.interval {
            self.burst = burst_of(interval, self.salt, self.campaigns);
        }
        let rate = self.rate_per_second * self.day_factor(since_start_ns);
        let steady = rate * (targets::PEOPLE + targets::FARM + targets::CRAWLER);
        ArrivalRates { steady, burst: rate * targets::BURST * self.burst.height(since_start_ms) }
    }

    /// The rate at this time of the day as a multiple of the mean.
    fn day_factor(&self, since_start_ns: u64) -> f64 {
        if self.day == DayProfile::Flat {
            return 1.0;
        }
        let of_day_ms = self.at_ms(since_start_ns).rem_euclid(24 * HOUR_MS);
        let (hour, into) = ((of_day_ms / HOUR_MS) as usize, (of_day_ms % HOUR_MS) as f64 / HOUR_MS as f64);
        let (this, next) = (f64::from(targets::HOURS[hour]), f64::from(targets::HOURS[(hour + 1) % 24]));
        (this + (next - this) * into) / 1e3
    }
}

impl Burst {
    /// Jumps up, then falls linearly; the average over the interval is 1.
    fn height(&self, since_start_ms: u64) -> f64 {
        let Some(into) = since_start_ms.checked_sub(self.begin_ms).filter(|into| *into < targets::BURST_LASTS_MS)
        else {
            return 0.0;
        };
        let (every, lasts) = (targets::BURST_EVERY_MS as f64, targets::BURST_LASTS_MS as f64);
        2.0 * every / lasts * (1.0 - into as f64 / lasts)
    }
}

fn burst_of(interval: u64, salt: u64, campaigns: u32) -> Burst {
    let mut random = Random::new(mix(salt ^ interval));
    let begin_ms = interval.saturating_mul(targets::BURST_EVERY_MS)
        + random.below(targets::BURST_EVERY_MS - targets::BURST_LASTS_MS);
    Burst { interval, begin_ms, campaign: random.below(u64::from(campaigns)) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hourly_rates_average_to_the_mean_rate() {
        assert_eq!(targets::HOURS.iter().sum::<u32>(), 24_000);
    }

    #[test]
    fn mean_rate_over_a_day_is_the_configured_rate() {
        let options = TrafficOptions { rate_per_second: 500.0, day: DayProfile::Diurnal, ..TrafficOptions::default() };
        let mut schedule = ArrivalSchedule::new(&options, &mut Random::new(3));
        let steps = 24 * 3_600 * 5;
        let all: f64 = (0..steps).map(|step| schedule.rates(step * 200 * NS_PER_MS)).map(|r| r.steady + r.burst).sum();
        let expected = 500.0 * (1.0 - targets::DOUBLE_CLICKS - targets::RETRIES);
        assert!((all / steps as f64 / expected - 1.0).abs() < 0.01, "{} of {expected}", all / steps as f64);
    }

    #[test]
    fn diurnal_rate_is_lower_at_night() {
        let options = TrafficOptions { day: DayProfile::Diurnal, ..TrafficOptions::default() };
        let mut schedule = ArrivalSchedule::new(&options, &mut Random::new(3));
        let mut steady = |hour: u64| schedule.rates(hour * 3_600_000 * NS_PER_MS).steady;
        assert!(steady(20) > 3.0 * steady(3));
        assert_eq!(steady(3), steady(27));
    }
}
