//! Decayed aggregates: counts, sums, means, quantiles, shares and heavy hitters in which old observations lose weight.
//!
//! All methods implement [`DecayedSketch`]. Choose one:
//!
//! | method | decays at query time | guarantee | cost of an observation | choose it when |
//! |---|---|---|---|---|
//! | [`robust`] | any window or decay | within epsilon, except with probability delta | one hash and a few table steps | sources may repeat or reorder events, or partitions overlap |
//! | [`forward`] | the exponential it was built for | counts and sums exact, summaries within epsilon | one `exp` | one half-life is enough: exact and cheapest |
//! | [`division`] | the smooth decay it was built for, and slower ones | within epsilon, always | one cell update | a polynomial decay, or an exponential with a horizon |
//! | [`cascade`] | any window or decay | within epsilon, always | amortised sort and compression | the window is chosen by the query and repeats are removed upstream |
//! | [`distinct`] | any window or decay | windows within epsilon, except with probability delta | one hash | how many different values there were, not how many events |
//! | [`paper::levels`] | any window or decay | as `cascade` | a copy in every level | comparing with the published structure |
//! | [`paper::integral`] | one integral decay | as `robust` | one walk per level | comparing with the published structure |
//!
//! `robust`, `distinct`, `forward`, `division` and `integral` merge: the merged sketch answers as if it had seen both streams.
//! `cascade` and `levels` do not; merge their readings ([`Totals::merge`] and so on) instead.
//!
//! Building blocks: [`qdigest`] (distribution of values) and [`spacesaving`] (heavy labels) summarise without time;
//! [`summary`] combines them into the content of a time range, [`reading`] turns ranges and samples into answers,
//! [`answer`] and [`predicate`] are the vocabulary of answers and share queries.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![deny(missing_docs)]

pub mod answer;
pub mod cascade;
pub(crate) mod codec;
pub mod distinct;
pub mod division;
pub mod error;
pub mod forward;
pub mod observation;
pub mod paper;
pub mod predicate;
pub mod qdigest;
pub mod reading;
pub mod robust;
mod sketch;
pub mod spacesaving;
pub mod summary;
pub mod timeline;

pub use error::{MergeError, ObservationError, QueryError, ShapeError};
pub use observation::{MAX_TIME_MS, Observation, WeightLimits};
pub use reading::{Labels, Totals, Values};
pub use sketch::{DecayedSketch, SpecEncoding};
pub use summary::SummaryShape;
