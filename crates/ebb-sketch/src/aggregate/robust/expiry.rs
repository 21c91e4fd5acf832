//! Integral decay: how many of the w integers of an element are alive at some age, and when a given one dies.
//!
//! Integers only, so that every machine agrees to the bit; floating point merely guesses where an integer test then looks.
//! This is another question than real-valued decay: f(w, age) is a whole number, so small weights vanish early (a weight of 1
//! under exponential decay is 0 at age 1). Scale weights up, or ask the any-window sketch under the real decay instead.

/// One in fixed point: 62 bits after the point.
const ONE: u64 = 1 << 62;
const BLOCK_BITS: u32 = 11;
const BLOCK: usize = 1 << BLOCK_BITS;
const BLOCKS_MOST: usize = 1 << 16;

/// Powers above this are steps.
pub const ALPHA_MOST: u32 = 32;

/// f(w, age): w at age 0, never rising with age, never falling with w. Ages are in ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntegralDecay(Form);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// w below the width, then 0.
    Window { width: u64 },
    /// floor(w · q^age).
    Exponential(Table),
    /// floor(w / (age + 1)^alpha).
    Polynomial { alpha: u32 },
}

/// q^age in fixed point, as a product of two entries: ages within a block, and blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Table {
    q62: u64,
    w_max: u32,
    within: Vec<u64>,
    blocks: Vec<u64>,
    /// Ticks in which the weight falls by a factor e, for guessing: by its bits, since it decides nothing.
    e_fold_bits: u64,
}

/// Why an integral decay was refused, and what would be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IntegralDecayError {
    #[error("a window must be at least 1 tick wide and at most {WIDTH_MOST}")]
    Width,
    #[error("alpha must be a whole number within 1 and {ALPHA_MOST}")]
    Alpha,
    #[error("the factor of one tick must lie strictly between 0 and 1 (as a 62-bit fraction)")]
    Factor,
    #[error("the decay is too slow for its tick: choose a tick at least {times} times as long")]
    TooSlow { times: u64 },
}

/// Windows beyond this many ticks are longer than any clock.
pub const WIDTH_MOST: u64 = 1 << 60;

impl IntegralDecay {
    pub fn window(width: u64) -> Result<Self, IntegralDecayError> {
        if !(1..=WIDTH_MOST).contains(&width) {
            return Err(IntegralDecayError::Width);
        }
        Ok(Self(Form::Window { width }))
    }

    pub fn polynomial(alpha: u32) -> Result<Self, IntegralDecayError> {
        if !(1..=ALPHA_MOST).contains(&alpha) {
            return Err(IntegralDecayError::Alpha);
        }
        Ok(Self(Form::Polynomial { alpha }))
    }

    /// Falls by e^-rate a tick, for weights up to `w_max`.
    pub fn exponential(rate: f64, w_max: u32) -> Result<Self, IntegralDecayError> {
        Self::with_factor(libm::round(libm::exp(-rate) * ONE as f64) as u64, w_max)
    }

    /// Falls by q62 / 2^62 a tick, for weights up to `w_max`: the portable form of an exponential.
    pub fn with_factor(q62: u64, w_max: u32) -> Result<Self, IntegralDecayError> {
        if q62 == 0 || q62 >= ONE {
            return Err(IntegralDecayError::Factor);
        }
        let mut within = vec![ONE];
        (1..BLOCK).for_each(|age| within.push(product(within[age - 1], q62)));
        let block = product(within[BLOCK - 1], q62);
        let rate = -libm::log1p(-((ONE - q62) as f64 / ONE as f64));
        let mut blocks = vec![ONE];
        while let Some(next) = blocks.last().map(|last| product(*last, block)).filter(|next| scaled(w_max, *next) > 0) {
            if blocks.len() == BLOCKS_MOST {
                let ticks = libm::log(f64::from(w_max)) / rate;
                return Err(IntegralDecayError::TooSlow { times: 1 + (ticks / (BLOCKS_MOST * BLOCK) as f64) as u64 });
            }
            blocks.push(next);
        }
        Ok(Self(Form::Exponential(Table { q62, w_max, within, blocks, e_fold_bits: (1.0 / rate).to_bits() })))
    }

    /// What tells one decay from another, for state bytes.
    pub(super) fn constants(&self) -> [u64; 2] {
        match &self.0 {
            Form::Window { width } => [0, *width],
            Form::Exponential(table) => [1, table.q62],
            Form::Polynomial { alpha } => [2, u64::from(*alpha)],
        }
    }

    /// The largest weight that the decay was made for.
    pub fn w_max(&self) -> u32 {
        match &self.0 {
            Form::Exponential(table) => table.w_max,
            Form::Window { .. } | Form::Polynomial { .. } => u32::MAX,
        }
    }

    /// f(w, age).
    #[inline]
    pub fn live(&self, weight: u32, age: u64) -> u32 {
        match &self.0 {
            Form::Window { width } => {
                if age < *width {
                    weight
                } else {
                    0
                }
            }
            Form::Exponential(table) => scaled(weight, table.factor(age)),
            Form::Polynomial { alpha: 1 } => (u64::from(weight) / age.saturating_add(1)) as u32,
            Form::Polynomial { alpha } => {
                let power = age.saturating_add(1).saturating_pow(*alpha);
                (u64::from(weight) / power) as u32
            }
        }
    }

    /// The first age at which at most `first_hit` (below w) integers are alive: when that integer is dead.
    pub fn death(&self, weight: u32, first_hit: u32) -> u64 {
        match &self.0 {
            Form::Window { width } => *width,
            Form::Exponential(table) => table.death(weight, first_hit),
            Form::Polynomial { alpha: 1 } => u64::from(weight / (first_hit + 1)),
            Form::Polynomial { alpha } => root_above(u64::from(weight / (first_hit + 1)), *alpha) - 1,
        }
    }
}

impl Table {
    #[inline]
    fn factor(&self, age: u64) -> u64 {
        match self.blocks.get((age >> BLOCK_BITS) as usize) {
            Some(block) => product(*block, self.within[age as usize % BLOCK]),
            None => 0,
        }
    }

    fn death(&self, weight: u32, first_hit: u32) -> u64 {
        let dead = |age: u64| scaled(weight, self.factor(age)) <= first_hit;
        let folds = libm::log(f64::from(weight) / (f64::from(first_hit) + 1.0));
        let mut age = (folds * f64::from_bits(self.e_fold_bits)) as u64;
        while !dead(age) {
            age += 1;
        }
        while age > 0 && dead(age - 1) {
            age -= 1;
        }
        age
    }
}

#[inline]
fn product(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 62) as u64
}

#[inline]
fn scaled(weight: u32, factor: u64) -> u32 {
    ((u128::from(weight) * u128::from(factor)) >> 62) as u32
}

/// The smallest whole number whose `alpha`-th power is above `x`.
fn root_above(x: u64, alpha: u32) -> u64 {
    let above = |root: u64| root.saturating_pow(alpha) > x;
    let mut root = libm::pow(x as f64, 1.0 / f64::from(alpha)) as u64;
    while !above(root) {
        root += 1;
    }
    while root > 1 && above(root - 1) {
        root -= 1;
    }
    root
}
