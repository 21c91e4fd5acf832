//! The keys of the frequency view.

use super::composite::Optional;
use super::declare::{ConfigEnum, OneOf, choice, enum_names, section};
use super::parser::ConfigParser;
use super::scalars::{DurationRange, IntegerRange, SizeRange};
use super::tree::Node;
use ebb_sketch::filter::parameter::ParameterError;
use ebb_sketch::filter::structure::frequency::FrequencySpec;
use ebb_sketch::filter::structure::frequency::basic::BasicSpec;
use ebb_sketch::filter::structure::frequency::digit_plan::DigitChoice;
use ebb_sketch::filter::structure::frequency::epochs::{EpochSpec, MAX_EPOCH_HALF_LIVES};
use ebb_sketch::filter::structure::frequency::forward::ForwardSpec;
use ebb_sketch::filter::structure::frequency::optimised::{Carry, OptimisedSpec};
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::units::DurationMs;

const DAY_MS: u64 = 86_400_000;
/// Sweeps per half-life if `epoch` is not set.
const DEFAULT_SWEEPS: u64 = 16;
const MAX_SWEEPS: u64 = 1 << 16;
/// Fractional bits of `basic` if `fraction_bits` is not set.
const BASIC_FRACTION_BITS: u8 = 8;

section! {
    /// The decayed number of events per item, each counted as often as its weight says. It is never an underestimate.
    pub struct FrequencyConfig {
        /// The time in which a count halves.
        half_life: DurationRange<1, {3660 * DAY_MS}> = "1h";
        /// Memory of the counters in each partition. It is never exceeded, except that `basic` takes a thirty-second more
        /// once a counter has overflowed.
        memory: SizeRange<1024, {1 << 40}> = "16MiB";
        /// `forward`: exact decay without sweeps, 8 bytes per counter. `basic`: counters of 4 bytes that are swept every
        /// epoch. `optimised`: the answers of `basic` in half its memory, in digits that share a pool for large counts.
        method: OneOf<FrequencyMethod> = "forward";
        /// Counters per item.
        cells: IntegerRange<1, 16> = "4";
        /// The interval between sweeps of the counters (`basic` and `optimised`), and of normalised counts; at most 19
        /// half-lives. Counts are too high by at most what they lose in one epoch.
        epoch: Optional<DurationRange<1, {3660 * DAY_MS}>>, derived "a sixteenth of the half-life", eg "1m";
        /// When a full digit carries into the pool (`optimised`): `each` on its own, or only when `all` digits of an item
        /// are full. `all` needs less of the pool and never answers higher.
        carry: Optional<OneOf<Carry>>, derived "each", eg "all";
        /// Fractional bits of a count (`basic` and `optimised`). Rounding at every epoch adds at most
        /// 2^-fraction_bits / (1 - λ) to a count, where λ is the share that remains after an epoch.
        fraction_bits: Optional<IntegerRange<0, 16>>, derived "8 for `basic`; for `optimised` the fewest with which rounding adds at most 0.1 to a count", eg "8";
        /// Bits of a digit (`optimised`). A larger count takes further digits from the pool.
        digit_bits: Optional<IntegerRange<1, 16>>, derived "fraction_bits + 6, at most 16", eg "14";
        /// Digits in the pool (`optimised`). When all are in use, counts become lower bounds, which
        /// `ebb_frequency_exhausted_counts` and answers show.
        pool: Optional<IntegerRange<1, {1 << 30}>>, derived "one for every 28 counters, and what is left of the memory", eg "20000";
        /// What an answer contains: `count`, or also the `normalised` count, which is 1 - λ times the count: the decayed
        /// average number of events per epoch.
        answer: OneOf<CountAnswer> = "count";
    }
    check check_frequency
}

choice! {
    /// How counts decay.
    pub enum FrequencyMethod {
        /// Exact decay without sweeps.
        Forward = "forward",
        /// Counters that are swept every epoch.
        Basic = "basic",
        /// Small digits with a shared pool for overflow, swept every epoch.
        Optimised = "optimised",
    }
}

choice! {
    /// What an answer contains.
    pub enum CountAnswer {
        /// The decayed count.
        Count = "count",
        /// The decayed count, and the same per epoch.
        Normalised = "normalised",
    }
}

enum_names! {
    Carry {
        Each = "each",
        All = "all",
    }
}

impl FrequencyConfig {
    /// The counters.
    pub fn spec(&self) -> Result<FrequencySpec, ParameterError> {
        let (memory, hashes) = (self.memory.0, self.cells as u8);
        let bits = |bits: Option<u64>| bits.map(|bits| bits as u8);
        Ok(match self.method {
            FrequencyMethod::Forward => {
                let layout = CellLayout::in_memory(memory)?;
                FrequencySpec::Forward(ForwardSpec::new(layout, hashes, self.half_life.0)?)
            }
            FrequencyMethod::Basic => {
                let fraction_bits = bits(self.fraction_bits).unwrap_or(BASIC_FRACTION_BITS);
                let layout = CellLayout::in_memory(memory)?;
                FrequencySpec::Basic(BasicSpec::new(layout, hashes, self.epochs()?, fraction_bits)?)
            }
            FrequencyMethod::Optimised => {
                let choice = DigitChoice {
                    digit_bits: bits(self.digit_bits),
                    fraction_bits: bits(self.fraction_bits),
                    pool: self.pool.map(|digits| digits as u32),
                    carry: self.carry.unwrap_or(Carry::Each),
                };
                FrequencySpec::Optimised(OptimisedSpec::in_memory(memory, hashes, self.epochs()?, choice)?)
            }
        })
    }

    /// The epoch of normalised counts, if answers contain them.
    pub fn normalised_epoch(&self) -> Option<DurationMs> {
        (self.answer == CountAnswer::Normalised).then(|| self.epoch.unwrap_or(self.default_epoch()))
    }

    /// Epochs up to a half-life divide it evenly, so that they may be shorter than configured.
    fn epochs(&self) -> Result<EpochSpec, ParameterError> {
        let (half_life, epoch) = (self.half_life.0, self.epoch.unwrap_or(self.default_epoch()).0);
        if epoch > half_life {
            return EpochSpec::in_epochs(half_life, epoch);
        }
        let sweeps = half_life.div_ceil(epoch.max(1)).clamp(1, MAX_SWEEPS).min(half_life);
        EpochSpec::halving(half_life, sweeps as u32)
    }

    fn default_epoch(&self) -> DurationMs {
        DurationMs(self.half_life.0.div_ceil(DEFAULT_SWEEPS))
    }

    /// The keys that are set although they do not apply.
    fn inapplicable(&self) -> impl Iterator<Item = &'static str> {
        use FrequencyMethod::{Basic, Forward, Optimised};
        let (method, normalised) = (self.method, self.answer == CountAnswer::Normalised);
        let keys = [
            ("epoch", self.epoch.is_some(), method == Forward && !normalised),
            ("fraction_bits", self.fraction_bits.is_some(), method == Forward),
            ("carry", self.carry.is_some(), matches!(method, Forward | Basic)),
            ("digit_bits", self.digit_bits.is_some(), method != Optimised),
            ("pool", self.pool.is_some(), method != Optimised),
        ];
        keys.into_iter().filter(|(_, is_set, is_inapplicable)| *is_set && *is_inapplicable).map(|(key, ..)| key)
    }
}

fn check_frequency(frequency: &mut FrequencyConfig, node: &Node, parser: &mut ConfigParser) {
    let mut is_valid = true;
    for key in frequency.inapplicable() {
        let reason = match (frequency.method, key) {
            (FrequencyMethod::Forward, "epoch") => "which has no sweeps; remove it, or set answer: normalised",
            (FrequencyMethod::Forward, _) => "which has neither sweeps nor digits; remove it",
            (FrequencyMethod::Basic | FrequencyMethod::Optimised, _) => "which has no digits; remove it",
        };
        let message = format!("does not apply to method {}, {reason}", frequency.method.name());
        parser.key_error(node, key, &["method"], message);
        is_valid = false;
    }
    if frequency.method == FrequencyMethod::Optimised {
        frequency.carry.get_or_insert(Carry::Each);
    }
    if frequency.method != FrequencyMethod::Forward || frequency.answer == CountAnswer::Normalised {
        let epoch = *frequency.epoch.get_or_insert(frequency.default_epoch());
        let max = DurationMs(frequency.half_life.0.saturating_mul(MAX_EPOCH_HALF_LIVES));
        if epoch.0 > max.0 {
            let message = format!("{epoch} is longer than {MAX_EPOCH_HALF_LIVES} half-lives; the maximum is {max}");
            parser.key_error(node, "epoch", &["half_life", "method"], message);
            is_valid = false;
        }
    }
    if let Some(error) = frequency.spec().err().filter(|_| is_valid) {
        report(&error, node, parser);
    }
}

/// Reports an error of the counters at the key that has to change.
fn report(error: &ParameterError, node: &Node, parser: &mut ConfigParser) {
    let (key, nearest) = match (error.name, error.nearest.parse().map(DurationMs)) {
        ("epoch", Ok(ms)) => ("epoch", ms.to_string()),
        ("hashes", _) => ("cells", error.nearest.clone()),
        ("fraction_bits" | "digit_bits" | "pool", _) => (error.name, error.nearest.clone()),
        _ => ("memory", error.nearest.clone()),
    };
    let depends_on = ["half_life", "memory", "method", "cells", "epoch", "fraction_bits", "digit_bits", "pool"];
    let message = format!("{}; set {key}: {nearest}", error.reason);
    parser.key_error(node, key, &depends_on, message);
}
