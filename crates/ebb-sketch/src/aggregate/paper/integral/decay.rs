//! Integral decay: how many of the w integers of an element are alive at an age, and when a given one dies.
//!
//! Only integer arithmetic decides, so results are identical on every machine; floating point only guesses where an integer
//! test starts. An integral decay differs from a real-valued one: f(w, age) is a whole number, so small weights vanish early
//! (a weight of 1 under exponential decay is 0 at age 1). Scale weights up, or query the any-window sketch instead.

/// One, with 62 fractional bits.
const ONE: u64 = 1 << 62;
const BLOCK_BITS: u32 = 11;
const BLOCK: usize = 1 << BLOCK_BITS;
const MAX_BLOCKS: usize = 1 << 16;

/// The largest power.
pub const MAX_ALPHA: u32 = 32;

/// f(w, age): w at age 0, never rising with age, never falling with w. Ages are in ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntegralDecay(IntegralForm);

#[derive(Debug, Clone, PartialEq, Eq)]
enum IntegralForm {
    /// w at ages below the width, then 0.
    Window { width: u64 },
    /// floor(w · q^age).
    Exponential(PowerTable),
    /// floor(w / (age + 1)^alpha).
    Polynomial { alpha: u32 },
}

/// q^age in fixed point, as a product of two entries: the age within a block, and the block.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PowerTable {
    q62: u64,
    max_weight: u32,
    within: Vec<u64>,
    blocks: Vec<u64>,
    /// The ticks in which the weight falls by a factor e, as the bits of a double. Only used to guess.
    e_fold_bits: u64,
}

/// Why an integral decay cannot be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IntegralDecayError {
    /// The window is out of range.
    #[error("window must be within 1 and {MAX_WIDTH} ticks")]
    Width,
    /// The power is out of range.
    #[error("alpha must be a whole number within 1 and {MAX_ALPHA}")]
    Alpha,
    /// The decay of one tick is out of range.
    #[error("the factor of one tick must be above 0 and below 1, as a 62-bit fraction")]
    Factor,
    /// The decay needs too large a table.
    #[error("the decay is too slow for its tick; use a tick at least {times} times as long")]
    TooSlow {
        /// By which factor the tick must be longer.
        times: u64,
    },
}

/// The longest window in ticks.
pub const MAX_WIDTH: u64 = 1 << 60;

impl IntegralDecay {
    /// The full weight for `width` ticks, then nothing.
    pub fn window(width: u64) -> Result<Self, IntegralDecayError> {
        if !(1..=MAX_WIDTH).contains(&width) {
            return Err(IntegralDecayError::Width);
        }
        Ok(Self(IntegralForm::Window { width }))
    }

    /// floor(w / (age + 1)^alpha).
    pub fn polynomial(alpha: u32) -> Result<Self, IntegralDecayError> {
        if !(1..=MAX_ALPHA).contains(&alpha) {
            return Err(IntegralDecayError::Alpha);
        }
        Ok(Self(IntegralForm::Polynomial { alpha }))
    }

    /// Falls by a factor of e^-rate per tick, for weights up to `max_weight`.
    pub fn exponential(rate: f64, max_weight: u32) -> Result<Self, IntegralDecayError> {
        Self::with_factor(libm::round(libm::exp(-rate) * ONE as f64) as u64, max_weight)
    }

    /// Falls by a factor of q62 / 2^62 per tick, for weights up to `max_weight`: the portable form of an exponential.
    pub fn with_factor(q62: u64, max_weight: u32) -> Result<Self, IntegralDecayError> {
        if q62 == 0 || q62 >= ONE {
            return Err(IntegralDecayError::Factor);
        }
        let mut within = vec![ONE];
        (1..BLOCK).for_each(|age| within.push(product(within[age - 1], q62)));
        let block = product(within[BLOCK - 1], q62);
        let rate = -libm::log1p(-((ONE - q62) as f64 / ONE as f64));
        let mut blocks = vec![ONE];
        while let Some(next) =
            blocks.last().map(|last| product(*last, block)).filter(|next| scaled(max_weight, *next) > 0)
        {
            if blocks.len() == MAX_BLOCKS {
                let ticks = libm::log(f64::from(max_weight)) / rate;
                return Err(IntegralDecayError::TooSlow { times: 1 + (ticks / (MAX_BLOCKS * BLOCK) as f64) as u64 });
            }
            blocks.push(next);
        }
        Ok(Self(IntegralForm::Exponential(PowerTable {
            q62,
            max_weight,
            within,
            blocks,
            e_fold_bits: (1.0 / rate).to_bits(),
        })))
    }

    /// Distinguishes decays in state bytes.
    pub(super) fn constants(&self) -> [u64; 2] {
        match &self.0 {
            IntegralForm::Window { width } => [0, *width],
            IntegralForm::Exponential(table) => [1, table.q62],
            IntegralForm::Polynomial { alpha } => [2, u64::from(*alpha)],
        }
    }

    /// The largest weight the decay was built for.
    pub fn max_weight(&self) -> u32 {
        match &self.0 {
            IntegralForm::Exponential(table) => table.max_weight,
            IntegralForm::Window { .. } | IntegralForm::Polynomial { .. } => u32::MAX,
        }
    }

    /// f(w, age): how many integers are alive.
    #[inline]
    pub fn live(&self, weight: u32, age: u64) -> u32 {
        match &self.0 {
            IntegralForm::Window { width } => {
                if age < *width {
                    weight
                } else {
                    0
                }
            }
            IntegralForm::Exponential(table) => scaled(weight, table.factor(age)),
            IntegralForm::Polynomial { alpha: 1 } => (u64::from(weight) / age.saturating_add(1)) as u32,
            IntegralForm::Polynomial { alpha } => {
                let power = age.saturating_add(1).saturating_pow(*alpha);
                (u64::from(weight) / power) as u32
            }
        }
    }

    /// The first age at which integer `first_hit` (below w) is dead: at most `first_hit` integers are alive.
    pub fn death(&self, weight: u32, first_hit: u32) -> u64 {
        match &self.0 {
            IntegralForm::Window { width } => *width,
            IntegralForm::Exponential(table) => table.death(weight, first_hit),
            IntegralForm::Polynomial { alpha: 1 } => u64::from(weight / (first_hit + 1)),
            IntegralForm::Polynomial { alpha } => root_above(u64::from(weight / (first_hit + 1)), *alpha) - 1,
        }
    }
}

impl PowerTable {
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

/// The smallest integer whose `alpha`-th power is above `x`.
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
