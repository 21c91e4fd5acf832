//! The keys of the dedup view: the filter, its size and window, and the penalties of wrong answers.

mod checks;
mod defaults;
mod values;

use super::composite::{ListOf, Optional};
use super::declare::{OneOf, choice, enum_names, section};
use super::scalars::{DurationRange, Fraction, IntegerRange, PositiveNumber, ShortText, SizeRange};
use ebb_core::Seen;
use ebb_sketch::units::Bytes;

pub(super) use checks::check_with_event;
pub use values::{CostConfig, CostSyntax, PriorConfig, PriorSyntax, WindowConfig};

const DAY_MS: u64 = 86_400_000;
const MAX_WINDOW_MS: u64 = 3660 * DAY_MS;
const MAX_EVENTS: u64 = 1 << 40;

section! {
    /// The dedup view of a stream.
    pub struct DedupConfig {
        /// How long an item is remembered: a duration, or a number of events such as `1000000 events`.
        window: WindowConfig = "24h";
        /// Memory of the filter in each partition.
        memory: Optional<SizeRange<1024, {1 << 40}>>, derived "64MiB; with `error` the size which that requires", eg "64MiB";
        /// Instead of `memory`: the largest acceptable share of unique events that are taken for duplicates. Requires
        /// `rate` or `items`.
        error: Optional<Fraction>, eg "0.001";
        /// Expected events per second in each partition.
        rate: Optional<PositiveNumber<1_000_000_000>>, eg "2000";
        /// Expected number of distinct items within the window in each partition.
        items: Optional<IntegerRange<1, MAX_EVENTS>>, eg "10000000";
        /// How far an event may be behind the newest one and still be compared with its whole window (filter `timing`,
        /// time windows). An older event whose item is not remembered is `late`.
        lateness: Optional<DurationRange<0, MAX_WINDOW_MS>>, derived "an eighth of the window", eg "1h";
        /// Where the window of an item starts: at the `first` event, the one that was accepted, or at the `last` event with
        /// that item.
        seen: OneOf<Seen> = "first";
        /// The filter that remembers items.
        filter: OneOf<FilterKind> = "timing";
        /// Bits of a cell.
        bits: Optional<IntegerRange<3, 8>>,
            derived "4 for `timing`, or planned for the expected traffic if `rate`, `items` or a window of events is \
                     set; 3 for `stable` and the importance filters",
            eg "4";
        /// Cells per item.
        cells: Optional<IntegerRange<1, 16>>, derived "4, or planned like `bits`", eg "4";
        /// Blocks that the window is divided into (filter `timing`).
        blocks: Optional<IntegerRange<1, 253>>, derived "2^bits - 4, or planned like `bits`", eg "12";
        /// Cells that are decremented per event (`stable` and the importance filters).
        decrements: Optional<IntegerRange<1, 4096>>,
            derived "the fewest that keep the share of false duplicates at `error`, which is 0.01 for this purpose if it \
                     is not set",
            eg "10";
        /// The largest importance of an event (importance filters).
        importance_max: PositiveNumber<1_000_000_000> = "10";
        /// Penalties of wrong answers. Without them the filter's own answer is the verdict.
        penalty: Optional<PenaltyConfig>;
        /// The prior probability of a repeat. `auto` learns it from the stream, separately for keys with enough repeats;
        /// `auto-frequency` also separately for rare and frequent items (requires the `frequency` view). A number, or a field
        /// of the event with a number, is the probability that the next event has this item; questions without the field
        /// use `auto`.
        prior: PriorSyntax = "auto";
        /// How many of the keys with the most events get a filter of their own, so that a burst on one key does not cause
        /// false duplicates on others (filter `timing`, time windows). These filters share half of `memory`.
        isolate: IntegerRange<0, 4096> = "0";
        /// Keys with a window, penalty or prior of their own.
        rules: ListOf<KeyRuleConfig, 256> = "[]", eg "[{keys: [vip], window: 1h}]";
    }
    check checks::check_dedup
}

section! {
    /// Penalties of wrong answers: numbers in one unit, or fields of the event.
    pub struct PenaltyConfig {
        /// The penalty of discarding a unique event as a duplicate.
        false_duplicate: CostSyntax, eg "cost";
        /// The penalty of accepting a duplicate.
        missed_duplicate: CostSyntax, eg "0.05";
    }
}

section! {
    /// Keys with a window, penalty or prior of their own.
    pub struct KeyRuleConfig {
        /// The keys that the rule applies to.
        keys: ListOf<ShortText, 10_000>, eg "[vip]";
        /// Their window, at most that of the view.
        window: Optional<WindowConfig>, eg "1h";
        /// Their penalties.
        penalty: Optional<PenaltyConfig>;
        /// Their prior: a number, or a field of the event with a number, as in `prior` of the view.
        prior: Optional<PriorSyntax>, eg "0.000001";
    }
}

enum_names! {
    Seen {
        First = "first",
        Last = "last",
    }
}

choice! {
    /// The filter that remembers items.
    pub enum FilterKind {
        /// Block timing Bloom filter.
        Timing = "timing",
        /// Stable Bloom filter.
        Stable = "stable",
        /// Importance-aware, two classes.
        Importance2c = "importance-2c",
        /// Importance-aware, many classes.
        ImportanceMc = "importance-mc",
        /// Importance-aware, harmonic.
        ImportanceH = "importance-h",
        /// Classical Bloom filter, which never forgets.
        Classic = "classic",
    }
}

impl FilterKind {
    fn needs_importance(self) -> bool {
        matches!(self, Self::Importance2c | Self::ImportanceMc | Self::ImportanceH)
    }
}

/// How the size of the filter is determined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FilterSizing {
    /// A given amount of memory.
    Memory(Bytes),
    /// As much memory as this error requires with this many distinct items in the window.
    Error { error: f64, items: f64 },
}

impl DedupConfig {
    /// How the size of the filter is determined.
    pub fn sizing(&self) -> FilterSizing {
        match (self.memory, self.error, self.expected_items()) {
            (None, Some(error), Some(items)) => FilterSizing::Error { error, items },
            (memory, _, _) => FilterSizing::Memory(memory.unwrap_or(defaults::MEMORY)),
        }
    }

    /// The expected number of distinct items in the window: `items`, or `rate` over the window, or the events of the
    /// window.
    pub fn expected_items(&self) -> Option<f64> {
        match (self.items, self.rate, self.window) {
            (Some(items), _, _) => Some(items as f64),
            (None, _, WindowConfig::Events(count)) => Some(count as f64),
            (None, Some(rate), WindowConfig::Time(ms)) => Some((rate * ms.0 as f64 / 1e3).max(1.0)),
            (None, None, WindowConfig::Time(_)) => None,
        }
    }

    /// The share of false duplicates that `decrements` is tuned to if it is not set.
    pub fn tuning_error(&self) -> f64 {
        self.error.unwrap_or(defaults::TUNING_ERROR)
    }
}
