//! The keys of the dedup view: which filter, how large, over which window, and what a wrong answer costs.

mod kinds;
mod rules;

use super::declare::{choice, section};
use super::kinds::{List, Maybe};
use super::scalars::{Count, Duration, Fraction, Positive, Size, Text};
use ebb_sketch::units::Bytes;

pub use kinds::{Cost, CostForm, Prior, PriorForm, Window};
pub(super) use rules::check_with_event;

const DAY: u64 = 86_400_000;
const LONGEST: u64 = 3660 * DAY;
const MOST_EVENTS: u64 = 1 << 40;
const DEFAULT_MEMORY: Bytes = Bytes(64 << 20);

section! {
    /// Which events are duplicates.
    pub struct Dedup {
        /// How long an item is remembered: a time, or a number of events such as `1000000 events`.
        window: Window = "24h";
        /// Memory of the filter, for each partition. `64MiB` unless `error` is given.
        memory: Maybe<Size<1024, {1 << 40}>>, eg "64MiB";
        /// Instead of `memory`: the share of unique events that may be called duplicates. Needs `rate` or `items`.
        error: Maybe<Fraction>, eg "0.001";
        /// Events a second that are expected in each partition.
        rate: Maybe<Positive<1_000_000_000>>, eg "2000";
        /// Distinct items that are expected within the window, in each partition.
        items: Maybe<Count<1, MOST_EVENTS>>, eg "10000000";
        /// How far an event may lie behind the newest one and still be judged by its own whole window (time windows
        /// only). An older one that is not remembered is `late`. An eighth of the window unless given.
        lateness: Maybe<Duration<0, LONGEST>>, eg "1h";
        /// From when the window counts: `first` = from the accepted event (one charge a window), `last` = from the
        /// latest sighting.
        seen: Seen = "first";
        /// The structure that remembers.
        filter: Filter = "timing";
        /// Bits of a cell. Chosen from the window and the memory when absent.
        bits: Maybe<Count<3, 8>>, eg "4";
        /// Cells that each item touches. Chosen from the window and the memory when absent.
        cells: Maybe<Count<1, 16>>, eg "4";
        /// Blocks that the window is cut into (filter `timing`).
        blocks: Maybe<Count<1, 253>>, eg "12";
        /// Cells that are counted down for each event (`stable` and importance filters). Tuned to `error` when absent.
        decrements: Maybe<Count<1, 4096>>, eg "10";
        /// The largest importance (importance filters).
        importance_max: Positive<1_000_000_000> = "10";
        /// What wrong answers cost. Without it the filter's own answer stands.
        penalty: Maybe<Penalty>;
        /// How likely a repeat is before looking: `auto` learns it, `auto-frequency` learns it for rare and frequent
        /// items apart (needs the `frequency` view), a number gives it.
        prior: PriorForm = "auto";
        /// How many of the heaviest keys get a filter of their own, so that a flood on one leaves others alone.
        isolate: Count<0, 4096> = "0";
        /// Keys with their own window and penalty.
        rules: List<Rule, 256> = "[]", eg "[{keys: [vip], window: 1h}]";
    }
    rules rules::check_dedup
}

section! {
    /// What wrong answers cost: numbers of one unit, or fields of the event.
    pub struct Penalty {
        /// A good event thrown away.
        false_duplicate: CostForm, eg "cost";
        /// A repeat let through.
        missed_duplicate: CostForm, eg "0.05";
    }
}

section! {
    /// Keys with their own window and penalty.
    pub struct Rule {
        /// The keys it holds for.
        keys: List<Text, 10_000>, eg "[vip]";
        /// Their window, at most that of the view.
        window: Maybe<Window>, eg "1h";
        /// Their penalty.
        penalty: Maybe<Penalty>;
    }
}

choice! {
    /// From when the window counts.
    pub enum Seen {
        First = "first",
        Last = "last",
    }
}

choice! {
    /// The structure that remembers.
    pub enum Filter {
        /// Block timing Bloom filter.
        Timing = "timing",
        /// Stable Bloom filter.
        Stable = "stable",
        /// Importance-aware, two classes.
        Importance2c = "importance-2c",
        /// Importance-aware, many classes.
        ImportanceMc = "importance-mc",
        /// Importance-aware, hyperbolic decrements.
        ImportanceH = "importance-h",
        /// Classical Bloom filter: never forgets.
        Classic = "classic",
    }
}

impl Filter {
    fn needs_importance(self) -> bool {
        matches!(self, Self::Importance2c | Self::ImportanceMc | Self::ImportanceH)
    }
}

/// How the filter gets its size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sizing {
    /// This much memory.
    Memory(Bytes),
    /// As much as this error needs with so many distinct items in the window.
    Error { error: f64, items: f64 },
}

impl Dedup {
    /// How the filter gets its size.
    pub fn sizing(&self) -> Sizing {
        match (self.memory, self.error, self.expected_items()) {
            (None, Some(error), Some(items)) => Sizing::Error { error, items },
            (memory, _, _) => Sizing::Memory(memory.unwrap_or(DEFAULT_MEMORY)),
        }
    }

    /// How many distinct items the window is expected to hold: `items`, or `rate` over the window, or the window's count.
    pub fn expected_items(&self) -> Option<f64> {
        match (self.items, self.rate, self.window) {
            (Some(items), _, _) => Some(items as f64),
            (None, _, Window::Events(count)) => Some(count as f64),
            (None, Some(rate), Window::Time(ms)) => Some((rate * ms.0 as f64 / 1e3).max(1.0)),
            (None, None, Window::Time(_)) => None,
        }
    }
}
