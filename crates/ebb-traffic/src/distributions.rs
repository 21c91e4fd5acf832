//! Random distributions. They use `libm`, so that the same seed gives the same bytes on every platform.

use ebb_sketch::random::Random;

pub(super) fn exponential(random: &mut Random, mean: f64) -> f64 {
    -mean * libm::log(1.0 - random.unit())
}

/// True with this probability.
pub(super) fn chance(random: &mut Random, probability: f64) -> bool {
    random.unit() < probability
}

/// Approximately standard normal, from one draw: the sum of four uniform 16-bit numbers. Always within ±3.5.
pub(super) fn approximate_normal(random: &mut Random) -> f64 {
    let drawn = random.next_u64();
    let sum: u64 = (0..4).map(|index| (drawn >> (16 * index)) & 0xFFFF).sum();
    // Four uniforms in [0, 1) have mean 2 and variance 1/3.
    (sum as f64 / 65_536.0 - 2.0) * 1.732_050_807_568_877_2
}

/// Zipf distribution of ranks `0..n`: rank r has a probability proportional to `1 / (r + 1)^skew`.
#[derive(Debug, Clone)]
pub(super) struct Zipf {
    /// Cumulative weights.
    cumulative: Vec<f64>,
}

impl Zipf {
    pub(super) fn new(ranks: u32, skew: f64) -> Self {
        let weights = (1..=ranks).map(|rank| libm::pow(f64::from(rank), -skew));
        let running = weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self { cumulative: running.collect() }
    }

    pub(super) fn draw(&self, random: &mut Random) -> u32 {
        let total = self.cumulative.last().copied().unwrap_or(0.0);
        let target = random.unit() * total;
        let rank = self.cumulative.partition_point(|sum| *sum <= target);
        rank.min(self.cumulative.len().saturating_sub(1)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_frequencies_match_the_distribution() {
        let (zipf, draws) = (Zipf::new(50, 1.1), 400_000);
        let mut random = Random::new(1);
        let mut counts = [0u32; 50];
        (0..draws).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1);
        let total: f64 = (1..=50).map(|rank| libm::pow(f64::from(rank), -1.1)).sum();
        for (rank, count) in (1..=50).zip(counts) {
            let expected = f64::from(draws) * libm::pow(f64::from(rank), -1.1) / total;
            assert!((f64::from(count) - expected).abs() < 5.0 * expected.sqrt(), "rank {rank}: {count} of {expected}");
        }
    }

    #[test]
    fn normal_and_exponential_have_the_expected_moments() {
        let mut random = Random::new(2);
        let draws = 200_000;
        let (mut sum, mut squares, mut waits) = (0.0, 0.0, 0.0);
        for _ in 0..draws {
            let drawn = approximate_normal(&mut random);
            assert!(drawn.abs() < 3.5);
            sum += drawn;
            squares += drawn * drawn;
            waits += exponential(&mut random, 4.0);
        }
        let n = f64::from(draws);
        assert!((sum / n).abs() < 0.02 && (squares / n - 1.0).abs() < 0.02, "{} {}", sum / n, squares / n);
        assert!((waits / n - 4.0).abs() < 0.05, "{}", waits / n);
    }
}
