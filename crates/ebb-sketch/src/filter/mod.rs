//! Filters that forget: membership and frequency of items over time.
//!
//! # Which filter to choose
//!
//! | you want | take |
//! |---|---|
//! | "was this item seen within the last 24 h / 1 M events?" with a probability and a cost-aware decision | [`InferentialFilter`](inference::InferentialFilter) over a timing filter: the default |
//! | the same question, yes or no only, never a false negative inside the window | [`TimingFilter`](structure::timing::TimingFilter) |
//! | fixed memory, no notion of time, the oldest items fade at random | [`StableFilter`](structure::stable::StableFilter) with [`ImportanceRule::Stable`](structure::stable::importance::ImportanceRule::Stable) |
//! | as above, but important items are remembered longer | [`StableFilter`](structure::stable::StableFilter) with `TwoClass`, `MultiClass` or `Harmonic` |
//! | a bounded stream, nothing is ever forgotten | [`ClassicFilter`](structure::classic::ClassicFilter) |
//! | "how often was this item seen lately?", never an undercount | [`FrequencyFilter`](structure::frequency::FrequencyFilter), method `forward` |
//!
//! # Map
//!
//! - [`structure`]: the data structures. They store and look up; they know neither priors nor penalties.
//! - [`inference`]: from what a structure reports to a probability and a decision: likelihood, prior, posterior,
//!   calibration, penalties.
//! - [`planning`]: from a workload and a budget to parameters, and the errors to expect before anything runs.
//!
//! - [`stable_posterior`]: the same inference for stable filters, whose likelihood comes from their limiting law.
//!
//! Dependencies point one way: stable posterior → planning → inference → structure. [`belief`] and [`parameter`] are shared
//! by all.
//!
//! Every structure encodes to the sealed blocks of [`crate::codec`]: the same calls give the same bytes, and a decoded
//! filter continues exactly like the one that was encoded.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod belief;
pub mod inference;
pub mod parameter;
pub mod planning;
pub mod stable_posterior;
pub mod structure;
