//! What an aggregate measures, over which events, and by which method.

/// The number that is aggregated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Nothing but the (weighted) number of events.
    Count,
    /// The event's value, weighted.
    Value,
    /// The event's weight.
    Weight,
    /// A number of the event, weighted, by its index in [`crate::EventSpec::numbers`].
    Number(usize),
    /// The number of different texts of a label, by its index in [`crate::EventSpec::labels`].
    Distinct(usize),
}

/// The events that are aggregated. Rejected events never are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// Every event.
    All,
    /// Events whose verdict is unique.
    Unique,
}

impl Selection {
    /// All selections.
    pub const ALL: [Selection; 2] = [Selection::All, Selection::Unique];

    /// The name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Selection::All => "all",
            Selection::Unique => "unique",
        }
    }
}

/// The sketch that keeps the aggregate; see [`ebb_sketch::aggregate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Ignores duplicates and order; any decay at query time; bounds hold with a probability.
    Robust,
    /// Like `robust`, for one integral decay.
    Integral,
    /// Exponential decay: exact sums, cheapest.
    Forward,
    /// Smooth decays: aligned cells, deterministic bounds.
    Division,
    /// Any window or decay at query time; deterministic bounds.
    Cascade,
    /// Replicated levels, as published; for comparison.
    Levels,
}

impl Method {
    /// All methods.
    pub const ALL: [Method; 6] =
        [Method::Robust, Method::Integral, Method::Forward, Method::Division, Method::Cascade, Method::Levels];

    /// The name in configurations and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Method::Robust => "robust",
            Method::Integral => "integral",
            Method::Forward => "forward",
            Method::Division => "division",
            Method::Cascade => "cascade",
            Method::Levels => "levels",
        }
    }

    /// Whether two sketches merge into one. Sketches of other methods are combined when they are read.
    pub fn merges(self) -> bool {
        !matches!(self, Method::Cascade | Method::Levels)
    }

    /// Whether an event that is added twice counts once.
    pub fn ignores_repeats(self) -> bool {
        matches!(self, Method::Robust | Method::Integral)
    }

    /// Whether events older than the horizon are dropped. The other methods drop events by their decay.
    pub(super) fn has_horizon(self) -> bool {
        !matches!(self, Method::Forward | Method::Integral)
    }

    /// Whether the decay is fixed by the configuration, so that state depends on it.
    pub(super) fn has_fixed_decay(self) -> bool {
        matches!(self, Method::Integral | Method::Forward | Method::Division)
    }
}

/// How often an event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weighting {
    /// Once.
    Unit,
    /// As often as its weight says.
    ByEvent,
}
