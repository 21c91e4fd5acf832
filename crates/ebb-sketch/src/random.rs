//! Reproducible randomness: SplitMix64, keyed by the position in the log.
//!
//! Replayed state must not depend on batch sizes, so there is no long-lived generator: [`Random::for_record`] starts a new
//! one for every record, keyed by (seed, partition, offset), and the n-th draw of a record is the same on every replay.
//!
//! ```
//! use ebb_sketch::random::Random;
//!
//! let draw = |offset| Random::for_record(42, 0, offset).below(100);
//! assert_eq!(draw(7), draw(7));
//! assert!((0..1000).all(|offset| draw(offset) < 100));
//! ```

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The SplitMix64 finaliser of `z` plus the golden gamma: a bijection of u64 that mixes every bit.
pub fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(GOLDEN);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A sequential SplitMix64 generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let drawn = mix(self.0);
        self.0 = self.0.wrapping_add(GOLDEN);
        drawn
    }

    /// The generator of one record of the log.
    pub fn for_record(seed: u64, partition: u32, offset: u64) -> Self {
        Self(mix(mix(seed ^ mix(u64::from(partition))) ^ mix(offset)))
    }

    /// Uniform in `0..n` (bias below n / 2^64); 0 when `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_is_the_published_splitmix64() {
        assert_eq!(mix(0), 16_294_208_416_658_607_535);
        assert_eq!(mix(1), 10_451_216_379_200_822_465);
        assert_eq!(mix(u64::MAX), 16_490_336_266_968_443_936);
    }

    #[test]
    fn a_record_generator_depends_on_seed_partition_and_offset_only() {
        let first = |seed, partition, offset| Random::for_record(seed, partition, offset).next_u64();
        assert_eq!(first(1, 2, 3), first(1, 2, 3));
        assert_ne!(first(1, 2, 3), first(1, 2, 4));
        assert_ne!(first(1, 2, 3), first(1, 3, 3));
        assert_ne!(first(1, 2, 3), first(2, 2, 3));
    }

    #[test]
    fn below_and_unit_stay_in_range() {
        let mut random = Random::new(9);
        assert!((0..10_000).all(|_| random.below(7) < 7));
        assert!((0..10_000).all(|_| (0.0..1.0).contains(&random.unit())));
        assert_eq!(random.below(0), 0);
    }
}
