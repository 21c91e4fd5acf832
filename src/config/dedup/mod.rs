//! The keys of the dedup view: the filter, its size and window, and the penalties of wrong answers.

mod checks;
mod defaults;
mod importance;
mod stable;
mod values;

use super::composite::{ListOf, Optional};
use super::declare::{OneOf, choice, enum_names, section};
use super::scalars::{DurationRange, Fraction, IntegerRange, PositiveNumber, ShortText, SizeRange};
use ebb_core::Seen;
use ebb_sketch::units::Bytes;

pub(super) use checks::check_with_event;
pub use importance::{ClassesConfig, ClassesSyntax, MixSyntax};
pub use stable::StableError;
pub use values::{CostConfig, CostSyntax, PriorConfig, PriorSyntax, WindowConfig};

const DAY_MS: u64 = 86_400_000;
const MAX_WINDOW_MS: u64 = 3660 * DAY_MS;
const MAX_EVENTS: u64 = 1 << 40;

section! {
    /// The dedup view of a stream.
    pub struct DedupConfig {
        /// How long an item is remembered: a duration, or a number of events such as `1000000 events`. `stable` and the
        /// importance filters forget at random, before and after the window: for them it is the age at which `missed` holds
        /// and within which penalties weigh a repeat.
        window: WindowConfig = "24h";
        /// Memory of the filter in each partition.
        memory: Optional<SizeRange<1024, {1 << 40}>>, derived "64MiB; with `error` the size which that requires", eg "64MiB";
        /// Instead of `memory`: the largest acceptable share of unique events that are taken for duplicates. Requires
        /// `rate` or `items`.
        error: Optional<Fraction>, derived "none; 0.01 if `missed` is set and `memory` is not", eg "0.001";
        /// The largest acceptable share of repeats after a whole window that are missed (`stable` and the importance
        /// filters; of the most important class). With `error` it determines the memory, with `memory` the decrements.
        missed: Optional<Fraction>, derived "0.01 if `error` is set", eg "0.01";
        /// Expected events per second in each partition.
        rate: Optional<PositiveNumber<1_000_000_000>>, eg "2000";
        /// Expected number of distinct items within the window in each partition. Without `rate`, `stable` and the importance
        /// filters take it for the number of events.
        items: Optional<IntegerRange<1, MAX_EVENTS>>, eg "10000000";
        /// How far an event may be behind the newest one and still be compared with its whole window (filter `timing`,
        /// time windows). An older event whose item is not remembered is `late`.
        lateness: Optional<DurationRange<0, MAX_WINDOW_MS>>, derived "an eighth of the window", eg "1h";
        /// Where the window of an item starts: at the `first` event, the one that was accepted, or at the `last` event with
        /// that item. `stable` and the importance filters renew an item with every event.
        seen: Optional<OneOf<Seen>>, derived "first; last for `stable` and the importance filters", eg "first";
        /// The filter that remembers items.
        filter: OneOf<FilterKind> = "timing";
        /// Bits of a cell.
        bits: Optional<IntegerRange<3, 8>>,
            derived "4 for `timing`, or planned for the expected traffic if `rate`, `items` or a window of events is \
                     set; 3 for `stable` and the importance filters, or planned if `error` is set",
            eg "4";
        /// Cells per item.
        cells: Optional<IntegerRange<1, 16>>, derived "4, or planned like `bits`; for `classic` planned if `error` is set",
            eg "4";
        /// Blocks that the window is divided into (filter `timing`).
        blocks: Optional<IntegerRange<1, 253>>, derived "2^bits - 4, or planned like `bits`", eg "12";
        /// Cells that are decremented per event (`stable` and the importance filters).
        decrements: Optional<IntegerRange<1, 4096>>,
            derived "with `error` as planned; with `memory` the most that keep `missed`, or the fewest that keep the \
                     share of false duplicates at 0.01 if `missed` is not set",
            eg "10";
        /// The largest importance of an event (importance filters).
        importance_max: Optional<PositiveNumber<1_000_000_000>>,
            derived "10, or the largest of the table `importance_classes`", eg "10";
        /// What the importance of an event is (importance filters): `numbers` up to `importance_max`; `percentiles`,
        /// numbers whose rank among recent events counts; or a table of class names with the importance of each. An event
        /// whose class is not in the table is rejected, unless the table has the class `*` for all others.
        importance_classes: ClassesSyntax = "numbers", eg "{gold: 3, silver: 2, '*': 1}";
        /// The share of each class, or of each importance, among events; only ratios count. It is used for planning and, with
        /// penalties, for the posterior.
        importance_mix: Optional<MixSyntax>,
            derived "equal shares for planning; learned from the stream for the posterior",
            eg "{gold: 0.1, silver: 0.9}";
        /// Penalties of wrong answers. Without them the filter's own answer is the verdict. `classic` also requires a number
        /// as `prior`; `stable` and the importance filters require the window in events, or `rate`.
        penalty: Optional<PenaltyConfig>;
        /// The prior probability of a repeat. `auto` learns it from the stream, separately for keys with enough repeats;
        /// `auto-frequency` also separately for rare and frequent items (requires the `frequency` view). A number, or a field
        /// of the event with a number, is the probability that the next event has this item; questions without the field
        /// use `auto`. A map sets it for classes of the table `importance_classes`; other classes use `auto`.
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

    /// Whether the filter keeps counters that it decrements at random.
    pub fn has_counters(self) -> bool {
        !matches!(self, Self::Timing | Self::Classic)
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

    /// The expected number of events in the window: `rate` over the window, or the events of the window. Without a rate every
    /// event is taken for a new item.
    pub fn expected_events(&self) -> Option<u64> {
        let events = match (self.rate, self.window, self.items) {
            (_, WindowConfig::Events(count), _) => Some(count as f64),
            (Some(rate), WindowConfig::Time(ms), _) => Some(rate * ms.0 as f64 / 1e3),
            (None, WindowConfig::Time(_), items) => items.map(|items| items as f64),
        };
        events.map(|events| libm::ceil(events).clamp(1.0, MAX_EVENTS as f64) as u64)
    }

    /// The event from which the window of an item is measured.
    pub fn seen(&self) -> Seen {
        self.seen.unwrap_or(Seen::First)
    }

    /// Whether any penalty is configured.
    pub fn has_penalty(&self) -> bool {
        self.penalty.is_some() || self.rules.iter().any(|rule| rule.penalty.is_some())
    }

    /// The share of false duplicates that `decrements` is tuned to if it is not set.
    pub fn tuning_error(&self) -> f64 {
        self.error.unwrap_or(defaults::TUNING_ERROR)
    }
}
