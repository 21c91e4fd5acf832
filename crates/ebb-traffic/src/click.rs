//! One click of the stream, and the ground truth about it.

use super::json::Defect;

/// One record of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Click {
    /// Arrival time.
    pub at_ms: i64,
    /// The payload.
    pub json: Vec<u8>,
    /// What is known about the click beyond its payload.
    pub truth: GroundTruth,
}

/// The ground truth about a click, for evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroundTruth {
    /// Who clicked.
    pub source: Source,
    /// Why it repeats an earlier click. Replays of the farm and people who return by chance are not marked.
    pub repeat: Option<Repeat>,
    /// How the payload is damaged.
    pub defect: Option<Defect>,
    /// The time of the click: `ts`, unless damaged.
    pub time_ms: i64,
    /// Equal if and only if `ip`, `ad` and `user` are equal; the ad determines the campaign.
    pub item: u128,
    /// Equal if and only if `click_id` is equal.
    pub id: u64,
}

/// Who clicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A person in a session.
    Person,
    /// The click farm.
    Farm,
    /// The crawler.
    Crawler,
    /// A person in a flash crowd.
    Burst,
}

/// Why a click repeats an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Repeat {
    /// The same item with another `click_id`, within [`super::targets::DOUBLE_CLICK_MS`].
    DoubleClick,
    /// The same bytes again, within [`super::targets::RETRY_MS`].
    Retry,
}
