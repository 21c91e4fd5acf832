//! The keys of the dedup view: which filter, how large, over which window, and what a wrong answer costs.

use super::kinds::{Count, Duration, Fraction, List, Maybe, Positive, Size, Text, scalar};
use super::read::{Kind, Reader, choice, excerpt, section};
use super::stream::{Event, Path};
use super::tree::Node;
use crate::units::{Bytes, DurationMs, parse_duration_ms};

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
        /// How far an event may lie behind the newest one and still be judged by its own window (time windows only).
        lateness: Duration<0, LONGEST> = "0s";
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
    rules check_dedup
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

/// A span of time or of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    Time(DurationMs),
    Events(u64),
}

impl Kind for Window {
    type Out = Self;

    fn form() -> String {
        format!(
            "a duration from 1ms to {} such as 24h, or a number of events such as 1000000 events",
            DurationMs(LONGEST)
        )
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<Self> {
        scalar(node, reader, &Self::form(), |text| {
            let refused = || format!("{} is not a window; write {}", excerpt(text), Self::form());
            match text.trim().strip_suffix("events") {
                Some(count) => {
                    let count = count.trim().parse().ok().filter(|count| (1..=MOST_EVENTS).contains(count));
                    count.map(Self::Events).ok_or_else(refused)
                }
                None => {
                    let ms = parse_duration_ms(text).ok().filter(|ms| (1..=LONGEST).contains(ms));
                    ms.map(|ms| Self::Time(DurationMs(ms))).ok_or_else(refused)
                }
            }
        })
    }

    fn show(out: &Self) -> Option<Node> {
        Some(match out {
            Self::Time(ms) => Node::scalar(ms),
            Self::Events(count) => Node::scalar(format_args!("{count} events")),
        })
    }
}

/// What one wrong answer costs.
#[derive(Debug, Clone, PartialEq)]
pub enum Cost {
    Constant(f64),
    Field(Path),
}

/// A number of at least 0, or a path to a field that holds one.
#[derive(Debug)]
pub struct CostForm;

impl Kind for CostForm {
    type Out = Cost;

    fn form() -> String {
        "a number of at least 0, or the path of a field that holds one".into()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<Cost> {
        scalar(node, reader, &Self::form(), |text| match text.parse::<f64>() {
            Ok(cost) if cost.is_finite() && cost >= 0.0 => Ok(Cost::Constant(cost)),
            Ok(_) => Err(format!("{} is not a cost; write {}", excerpt(text), Self::form())),
            Err(_) => Path::parse(text).map(Cost::Field),
        })
    }

    fn show(out: &Cost) -> Option<Node> {
        Some(match out {
            Cost::Constant(cost) => Node::scalar(cost),
            Cost::Field(path) => Node::scalar(path),
        })
    }
}

/// How likely a repeat is before looking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Prior {
    /// Learnt from a sample of the stream.
    Auto,
    /// Learnt apart for rare and frequent items.
    AutoFrequency,
    /// The chance that the next event is a given item.
    Given(f64),
}

/// `auto`, `auto-frequency` or a number.
#[derive(Debug)]
pub struct PriorForm;

impl Kind for PriorForm {
    type Out = Prior;

    fn form() -> String {
        "auto, auto-frequency, or a number above 0 and below 1".into()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<Prior> {
        scalar(node, reader, &Self::form(), |text| match (text, Fraction::parse(text)) {
            ("auto", _) => Ok(Prior::Auto),
            ("auto-frequency", _) => Ok(Prior::AutoFrequency),
            (_, Some(p)) => Ok(Prior::Given(p)),
            _ => Err(format!("{} is not a prior; write {}", excerpt(text), Self::form())),
        })
    }

    fn show(out: &Prior) -> Option<Node> {
        Some(match out {
            Prior::Auto => Node::scalar("auto"),
            Prior::AutoFrequency => Node::scalar("auto-frequency"),
            Prior::Given(p) => Node::scalar(p),
        })
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

fn check_dedup(dedup: &mut Dedup, node: &Node, reader: &mut Reader) {
    match (dedup.memory, dedup.error) {
        (Some(_), Some(_)) => reader.rule(node, "error", "stands beside memory; keep one of the two"),
        (None, Some(_)) if dedup.expected_items().is_none() => {
            reader.rule(node, "error", "needs to know how much is expected; add rate: (events a second) or items:");
        }
        (None, None) => dedup.memory = Some(DEFAULT_MEMORY),
        _ => {}
    }
    check_window(dedup, node, reader);
    check_layout(dedup, node, reader);
    check_rules(dedup, node, reader);
}

fn check_window(dedup: &Dedup, node: &Node, reader: &mut Reader) {
    match dedup.window {
        Window::Events(_) if dedup.lateness.0 > 0 => {
            reader.rule(node, "lateness", "has no meaning in a window of events; remove it");
        }
        Window::Time(window) if dedup.lateness.0 > window.0 => {
            let message = format!("{} is longer than the window; write at most {window}", dedup.lateness);
            reader.rule(node, "lateness", message);
        }
        _ => {}
    }
}

fn check_layout(dedup: &Dedup, node: &Node, reader: &mut Reader) {
    let is_timing = dedup.filter == Filter::Timing;
    let is_random = !matches!(dedup.filter, Filter::Timing | Filter::Classic);
    // A timer of b bits has 2^b - 2 stamps beside "expired"; one is the current block.
    let most_blocks =
        (1u64 << dedup.bits.unwrap_or(if dedup.blocks.is_some_and(|blocks| blocks > 13) { 8 } else { 4 })) - 3;
    if dedup.blocks.is_some_and(|blocks| is_timing && blocks > most_blocks) {
        reader.rule(node, "blocks", format_args!("is more than its bits can tell apart; write at most {most_blocks}"));
    }
    let filter = dedup.filter.word();
    if dedup.blocks.is_some() && !is_timing {
        reader.rule(
            node,
            "blocks",
            format_args!("has no meaning for filter {filter}; remove it, or write filter: timing"),
        );
    }
    if dedup.decrements.is_some() && !is_random {
        reader.rule(node, "decrements", format_args!("has no meaning for filter {filter}; remove it"));
    }
    if dedup.bits.is_some() && dedup.filter == Filter::Classic {
        reader.rule(node, "bits", "has no meaning for filter classic, whose cells are single bits; remove it");
    }
    if is_random && (dedup.penalty.is_some() || dedup.rules.iter().any(|rule| rule.penalty.is_some())) {
        reader.rule(
            node,
            "penalty",
            format_args!("needs a likelihood, and filter {filter} has none; write filter: timing"),
        );
    }
}

fn check_rules(dedup: &Dedup, node: &Node, reader: &mut Reader) {
    for (index, rule) in dedup.rules.iter().enumerate() {
        let at = |key: &str| format!("rules.{index}{key}");
        if rule.keys.is_empty() {
            reader.rule(node, &at(".keys"), "is an empty list; name at least one key");
        }
        if let Some(twice) =
            rule.keys.iter().find(|key| dedup.rules[..index].iter().any(|before| before.keys.contains(key)))
        {
            reader.rule(node, &at(".keys"), format_args!("{} has a rule already; name each key once", excerpt(twice)));
        }
        if rule.window.is_none() && rule.penalty.is_none() {
            reader.rule(node, &at(""), "changes nothing; give it a window or a penalty");
        }
        let Some(window) = rule.window else { continue };
        let fits = match (window, dedup.window) {
            (Window::Time(own), Window::Time(whole)) => own.0 <= whole.0,
            (Window::Events(own), Window::Events(whole)) => own <= whole,
            _ => false,
        };
        if !fits || dedup.filter != Filter::Timing {
            let whole = Window::show(&dedup.window).map(|node| super::tree::plain(&node)).unwrap_or_default();
            let message =
                format!("must be of the same kind as the view's window, at most {whole}, with filter: timing");
            reader.rule(node, &at(".window"), message);
        }
    }
}

/// Rules between the view and the event it sees. `stream` is the section of the stream.
pub(super) fn check_with_event(dedup: &Dedup, event: &Event, stream: &Node, reader: &mut Reader) {
    if dedup.filter.needs_importance() && event.importance.is_none() {
        let message = format!("{} needs an importance; add event: {{importance: PATH}}", dedup.filter.word());
        reader.rule(stream, "dedup.filter", message);
    }
    if event.key.is_none() && !dedup.rules.is_empty() {
        reader.rule(stream, "dedup.rules", "need keys; add event: {key: PATH}");
    }
    if event.key.is_none() && dedup.isolate > 0 {
        reader.rule(stream, "dedup.isolate", "needs keys; add event: {key: PATH}");
    }
}
