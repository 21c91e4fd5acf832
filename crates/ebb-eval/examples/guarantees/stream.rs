//! Streams of events with values of several distributions.

use ebb_core::Event;
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::Random;

/// The time of the first event.
const START_MS: i64 = 1_794_700_000_123;
/// The length of a stream.
pub const SPAN_MS: u64 = 60_000;
/// The largest value.
pub const MAX_VALUE: f64 = 1e7;

/// How values, weights and times are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    Constant,
    Uniform,
    /// Pareto with the shape 1.1: infinite variance, and nearly infinite mean.
    Pareto,
    /// The logarithm is normal with a standard deviation of 2.
    Lognormal,
    /// Two large values among many of 0.01.
    RareLarge,
    /// Nine tenths are 0; the others are between 0 and 1000.
    MostlyZero,
    /// Old events are large and new events small, so that every window has another distribution.
    Shrinking,
    /// A third each of tiny, medium and huge values; the huge ones come in bursts of the same millisecond.
    Mixture,
    /// Values between two steps.
    Fractions,
    /// Uniform values; one event in a hundred has a weight of 1000, the others 1 to 4.
    Weighted,
}

impl Distribution {
    pub const ALL: [Self; 10] = [
        Self::Constant,
        Self::Uniform,
        Self::Pareto,
        Self::Lognormal,
        Self::RareLarge,
        Self::MostlyZero,
        Self::Shrinking,
        Self::Mixture,
        Self::Fractions,
        Self::Weighted,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Uniform => "uniform",
            Self::Pareto => "pareto 1.1",
            Self::Lognormal => "lognormal 2",
            Self::RareLarge => "rare large",
            Self::MostlyZero => "mostly zero",
            Self::Shrinking => "shrinking",
            Self::Mixture => "mixture",
            Self::Fractions => "fractions",
            Self::Weighted => "weighted",
        }
    }

    fn value(self, index: u64, count: u64, random: &mut Random) -> f64 {
        let unit = random.unit();
        let value = match self {
            Self::Constant => 3.0,
            Self::Uniform | Self::Weighted => (unit * 10_000.0).floor() / 100.0,
            Self::Pareto => libm::pow(1.0 - unit, -1.0 / 1.1),
            Self::Lognormal => libm::exp(2.0 * normal(unit, random.unit())),
            Self::RareLarge if index == count / 3 || index == count / 2 => 9_500.0,
            Self::RareLarge => 0.01,
            Self::MostlyZero if random.below(10) < 9 => 0.0,
            Self::MostlyZero => (unit * 1_000.0).floor(),
            Self::Shrinking => libm::exp(9.0 * (1.0 - index as f64 / count as f64)),
            Self::Mixture => match index % 3 {
                0 => 0.01,
                1 => 5.0,
                _ => 100_000.0 * (1.0 + (unit * 9.0).floor()),
            },
            Self::Fractions => unit * 0.1 + 0.001,
        };
        value.min(MAX_VALUE)
    }

    fn weight(self, random: &mut Random) -> f64 {
        match self {
            Self::Weighted if random.below(100) == 0 => 1_000.0,
            Self::Weighted => 1.0 + random.below(4) as f64,
            _ => 1.0,
        }
    }

    fn offset_ms(self, index: u64, count: u64, random: &mut Random) -> u64 {
        let at_ms = index * SPAN_MS / count;
        match self {
            Self::Mixture if index % 3 == 2 => at_ms - at_ms % 5_000,
            _ => (at_ms + random.below(500)).min(SPAN_MS),
        }
    }
}

fn normal(unit: f64, other: f64) -> f64 {
    libm::sqrt(-2.0 * libm::log(1.0 - unit)) * libm::cos(2.0 * std::f64::consts::PI * other)
}

/// `count` events with ids of their own; one in twelve is delivered twice.
pub fn events(distribution: Distribution, count: u64, random: &mut Random) -> Vec<Event> {
    let mut all: Vec<Event> = Vec::with_capacity(count as usize + count as usize / 12);
    for index in 0..count {
        let id = Fingerprint(u128::from(random.next_u64()) << 64 | u128::from(random.next_u64()));
        let label = (random.unit() * random.unit() * 12.0) as u64;
        let event = Event {
            item: id,
            key: None,
            time_ms: Some(START_MS + distribution.offset_ms(index, count, random) as i64),
            id: Some(id),
            value: Some(distribution.value(index, count, random)),
            weight: Some(distribution.weight(random)),
            importance: None,
            numbers: Default::default(),
            labels: vec![format!("label-{label}").into()],
            previous_key: None,
            route: id,
        };
        if index % 12 == 5 {
            all.push(event.clone());
        }
        all.push(event);
    }
    all
}
