//! When clicks arrive: the hour of the day and flash crowds, both functions of time alone.

use super::aim;
use super::options::{Day, TrafficOptions};
use ebb_sketch::random::{Random, mix};

const NS_PER_MS: u64 = 1_000_000;
const HOUR_MS: i64 = 3_600_000;

/// Clicks a second, at one moment, of those that are nobody's repeat.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    pub(super) steady: f64,
    pub(super) burst: f64,
}

#[derive(Debug, Clone)]
pub(super) struct Rhythm {
    start_ms: i64,
    rate_per_second: f64,
    day: Day,
    campaigns: u32,
    salt: u64,
    burst: Burst,
}

/// The flash crowd of one span of the stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Burst {
    span: u64,
    begin_ms: u64,
    pub(super) campaign: u32,
}

impl Rhythm {
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

    pub(super) fn rates(&mut self, since_start_ns: u64) -> Rates {
        let since_start_ms = since_start_ns / NS_PER_MS;
        let span = since_start_ms / aim::BURST_EVERY_MS;
        if span != self.burst.span {
            self.burst = burst_of(span, self.salt, self.campaigns);
        }
        let rate = self.rate_per_second * self.hour(since_start_ns);
        let steady = rate * (aim::PEOPLE + aim::FARM + aim::CRAWLER);
        Rates { steady, burst: rate * aim::BURST * self.burst.height(since_start_ms) }
    }

    /// The rate of this moment of the day as a multiple of the mean.
    fn hour(&self, since_start_ns: u64) -> f64 {
        if self.day == Day::Flat {
            return 1.0;
        }
        let of_day_ms = self.at_ms(since_start_ns).rem_euclid(24 * HOUR_MS);
        let (hour, into) = ((of_day_ms / HOUR_MS) as usize, (of_day_ms % HOUR_MS) as f64 / HOUR_MS as f64);
        let (this, next) = (f64::from(aim::HOURS[hour]), f64::from(aim::HOURS[(hour + 1) % 24]));
        (this + (next - this) * into) / 1e3
    }
}

impl Burst {
    /// Jumps up, fades in a straight line; averages 1 over the span.
    fn height(&self, since_start_ms: u64) -> f64 {
        let Some(into) = since_start_ms.checked_sub(self.begin_ms).filter(|into| *into < aim::BURST_LASTS_MS) else {
            return 0.0;
        };
        let (every, lasts) = (aim::BURST_EVERY_MS as f64, aim::BURST_LASTS_MS as f64);
        2.0 * every / lasts * (1.0 - into as f64 / lasts)
    }
}

fn burst_of(span: u64, salt: u64, campaigns: u32) -> Burst {
    let mut random = Random::new(mix(salt ^ span));
    let begin_ms = span.saturating_mul(aim::BURST_EVERY_MS) + random.below(aim::BURST_EVERY_MS - aim::BURST_LASTS_MS);
    Burst { span, begin_ms, campaign: random.below(u64::from(campaigns)) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_average_one() {
        assert_eq!(aim::HOURS.iter().sum::<u32>(), 24_000);
    }

    #[test]
    fn the_mean_rate_over_a_day_is_the_one_asked_for() {
        let options = TrafficOptions { rate_per_second: 500.0, day: Day::Diurnal, ..TrafficOptions::default() };
        let mut rhythm = Rhythm::new(&options, &mut Random::new(3));
        let steps = 24 * 3_600 * 5;
        let all: f64 = (0..steps).map(|step| rhythm.rates(step * 200 * NS_PER_MS)).map(|r| r.steady + r.burst).sum();
        let wanted = 500.0 * (1.0 - aim::DOUBLE_CLICKS - aim::RETRIES);
        assert!((all / steps as f64 / wanted - 1.0).abs() < 0.01, "{} of {wanted}", all / steps as f64);
    }

    #[test]
    fn the_night_is_quieter_than_the_evening() {
        let options = TrafficOptions { day: Day::Diurnal, ..TrafficOptions::default() };
        let mut rhythm = Rhythm::new(&options, &mut Random::new(3));
        let mut steady = |hour: u64| rhythm.rates(hour * 3_600_000 * NS_PER_MS).steady;
        assert!(steady(20) > 3.0 * steady(3));
        assert_eq!(steady(3), steady(27));
    }
}
