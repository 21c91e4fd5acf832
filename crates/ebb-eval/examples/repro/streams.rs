//! The three streams of the timing filter's reproductions: uniform, power law, bursts.

use ebb_sketch::filter::inference::distinct::DistinctModel;
use ebb_sketch::random::Random;

/// Items of the uniform and the power-law universe.
pub const UNIVERSE: u64 = 1 << 16;
pub const ARRIVALS: usize = 1 << 20;
/// Arrivals that are observed before the first one is asked about.
pub const WARM: usize = ARRIVALS / 4;
const SEED: u64 = 20_260_101;

/// A stream with its truth.
pub struct Stream {
    pub name: &'static str,
    pub window: u64,
    pub items: Vec<u64>,
    /// Arrivals between an item and its sighting before; `None` for the first.
    pub ages: Vec<Option<u64>>,
    /// The share of the arrivals that the arriving item has, over the whole stream.
    pub shares: Vec<f64>,
    pub distinct: DistinctModel,
    /// What a wrong answer costs at each arrival: (false duplicate, missed duplicate).
    pub penalties: Vec<(f64, f64)>,
}

impl Stream {
    fn new(name: &'static str, window: u64, items: Vec<u64>, shares: Vec<f64>, distinct: DistinctModel) -> Self {
        let mut random = Random::new(5);
        let mut penalty = || 1.0 + 9.0 * random.unit();
        let penalties = (0..items.len()).map(|_| (penalty(), penalty())).collect();
        let mut last = vec![None; items.iter().max().map_or(0, |most| *most as usize + 1)];
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

    /// DistinctModel items among the first arrivals.
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

/// Ranks drawn with chance proportional to 1 / rank.
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

/// Three in ten arrivals follow the power law; the rest come from 1500 items that live for twenty arrivals or so each.
pub fn bursty(window: u64) -> Stream {
    const ALIVE: u64 = 1500;
    let (law, mut random) = (PowerLaw::new(), Random::new(SEED));
    let mut pool: Vec<u64> = (0..ALIVE).map(|slot| UNIVERSE + slot).collect();
    let mut next = UNIVERSE + ALIVE;
    let mut arrive = || {
        if random.unit() < 0.3 {
            return law.draw(&mut random);
        }
        let slot = &mut pool[random.below(ALIVE) as usize];
        let item = *slot;
        if random.unit() < 0.05 {
            *slot = next;
            next += 1;
        }
        item
    };
    let items: Vec<u64> = (0..ARRIVALS).map(|_| arrive()).collect();
    let mut counts = vec![0u32; next as usize];
    items.iter().for_each(|&item| counts[item as usize] += 1);
    let shares = items.iter().map(|&item| f64::from(counts[item as usize]) / ARRIVALS as f64).collect();
    let points = [10, 100, 1000, 10_000, 100_000].map(|length| (length as f64, mean_distinct(&items, length)));
    Stream::new("bursty", window, items, shares, DistinctModel::points(points.to_vec()).unwrap())
}

/// DistinctModel items in a stretch of so many arrivals, in the mean over eight stretches.
fn mean_distinct(items: &[u64], length: usize) -> f64 {
    let starts = (0..8).map(|part| part * (items.len() - length) / 8);
    let distinct = |start: usize| {
        let mut stretch = items[start..start + length].to_vec();
        stretch.sort_unstable();
        stretch.dedup();
        stretch.len() as f64
    };
    starts.map(distinct).sum::<f64>() / 8.0
}
