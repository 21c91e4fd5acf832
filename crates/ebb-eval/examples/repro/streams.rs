//! The streams of the timing filter's reproductions: uniform, power law, bursty.

use ebb_sketch::filter::inference::distinct::DistinctModel;
use ebb_sketch::random::Random;

/// Number of items of the uniform and the power-law stream.
pub const UNIVERSE: u64 = 1 << 16;
pub const ARRIVALS: usize = 1 << 20;
/// Arrivals before the first one is evaluated.
pub const WARM_UP: usize = ARRIVALS / 4;
const SEED: u64 = 20_260_101;

/// A stream with the exact age of every arrival.
pub struct Stream {
    pub name: &'static str,
    pub window: u64,
    pub items: Vec<u64>,
    /// Arrivals since the previous sighting of the item; `None` for the first.
    pub ages: Vec<Option<u64>>,
    /// The item's share of arrivals, over the whole stream.
    pub shares: Vec<f64>,
    pub distinct: DistinctModel,
    /// Costs of a (false duplicate, missed duplicate) at each arrival.
    pub penalties: Vec<(f64, f64)>,
}

impl Stream {
    fn new(name: &'static str, window: u64, items: Vec<u64>, shares: Vec<f64>, distinct: DistinctModel) -> Self {
        let mut random = Random::new(5);
        let mut penalty = || 1.0 + 9.0 * random.unit();
        let penalties = (0..items.len()).map(|_| (penalty(), penalty())).collect();
        let mut last = vec![None; items.iter().max().map_or(0, |largest| *largest as usize + 1)];
        let age = |(at, item): (usize, &u64)| {
            let before = last[*item as usize].replace(at as u64);
            before.map(|before| at as u64 - 1 - before)
        };
        let ages = items.iter().enumerate().map(age).collect();
        Self { name, window, items, ages, shares, distinct, penalties }
    }

    pub fn is_duplicate(&self, at: usize) -> bool {
        self.ages[at].is_some_and(|age| age < self.window)
    }

    /// Distinct items among the first arrivals.
    pub fn distinct_among(&self, arrivals: usize) -> usize {
        self.ages[..arrivals.min(self.ages.len())].iter().filter(|age| age.is_none()).count()
    }
}

pub fn uniform(window: u64) -> Stream {
    let mut random = Random::new(SEED);
    let items: Vec<u64> = (0..ARRIVALS).map(|_| random.below(UNIVERSE)).collect();
    let shares = vec![1.0 / UNIVERSE as f64; ARRIVALS];
    Stream::new("uniform", window, items, shares, DistinctModel::uniform(UNIVERSE).unwrap())
}

/// Ranks with probability proportional to 1 / rank.
struct PowerLaw {
    below: Vec<f64>,
}

impl PowerLaw {
    fn new() -> Self {
        let mut sum = 0.0;
        let below = (1..=UNIVERSE).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        Self { below: below.collect() }
    }

    fn total(&self) -> f64 {
        self.below[self.below.len() - 1]
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let point = random.unit() * self.total();
        self.below.partition_point(|&below| below < point).min(self.below.len() - 1) as u64
    }
}

pub fn power_law(window: u64) -> Stream {
    let (law, mut random) = (PowerLaw::new(), Random::new(SEED));
    let items: Vec<u64> = (0..ARRIVALS).map(|_| law.draw(&mut random)).collect();
    let shares = items.iter().map(|&item| 1.0 / (law.total() * (item + 1) as f64)).collect();
    Stream::new("power law", window, items, shares, DistinctModel::zipf(UNIVERSE).unwrap())
}

/// Three in ten arrivals follow the power law; the rest are drawn from 1500 items that are replaced after about twenty
/// arrivals each.
pub fn bursty(window: u64) -> Stream {
    const ACTIVE: u64 = 1500;
    let (law, mut random) = (PowerLaw::new(), Random::new(SEED));
    let mut pool: Vec<u64> = (0..ACTIVE).map(|slot| UNIVERSE + slot).collect();
    let mut next = UNIVERSE + ACTIVE;
    let mut next_arrival = || {
        if random.unit() < 0.3 {
            return law.draw(&mut random);
        }
        let slot = &mut pool[random.below(ACTIVE) as usize];
        let item = *slot;
        if random.unit() < 0.05 {
            *slot = next;
            next += 1;
        }
        item
    };
    let items: Vec<u64> = (0..ARRIVALS).map(|_| next_arrival()).collect();
    let mut counts = vec![0u32; next as usize];
    items.iter().for_each(|&item| counts[item as usize] += 1);
    let shares = items.iter().map(|&item| f64::from(counts[item as usize]) / ARRIVALS as f64).collect();
    let points = [10, 100, 1000, 10_000, 100_000].map(|length| (length as f64, mean_distinct(&items, length)));
    Stream::new("bursty", window, items, shares, DistinctModel::points(points.to_vec()).unwrap())
}

/// Mean number of distinct items in `length` consecutive arrivals, over eight samples.
fn mean_distinct(items: &[u64], length: usize) -> f64 {
    let starts = (0..8).map(|part| part * (items.len() - length) / 8);
    let distinct = |start: usize| {
        let mut sample = items[start..start + length].to_vec();
        sample.sort_unstable();
        sample.dedup();
        sample.len() as f64
    };
    starts.map(distinct).sum::<f64>() / 8.0
}
