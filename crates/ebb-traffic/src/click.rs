//! What the stream is made of.

use super::json::Defect;

/// One record of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Click {
    /// When it arrives.
    pub at_ms: i64,
    pub json: Vec<u8>,
    pub truth: Truth,
}

/// What a judge of clicks would like to know and must not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truth {
    pub source: Source,
    /// Why it was made to repeat an earlier click. The farm's replays and people who return by chance are not marked.
    pub repeat: Option<Repeat>,
    pub defect: Option<Defect>,
    /// When it happened: `ts`, unless damaged.
    pub time_ms: i64,
    /// Equal exactly when `ip`, `ad` and `user` are equal; the ad determines the campaign.
    pub item: u128,
    /// Equal exactly when `click_id` is equal.
    pub id: u64,
}

/// Who clicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Person,
    Farm,
    Crawler,
    Burst,
}

/// Why a click repeats an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Repeat {
    /// Same item, another `click_id`, within [`super::aim::DOUBLE_CLICK_MS`].
    DoubleClick,
    /// The same bytes, arriving within [`super::aim::RETRY_MS`].
    Retry,
}
