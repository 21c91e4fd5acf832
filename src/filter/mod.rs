//! Membership and frequency over time: structures that forget.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod cells;
pub mod classic;
pub mod frequency;
pub mod importance;
pub mod importance_buckets;
pub mod limiting;
pub mod places;
pub mod spec_error;
pub mod stable;
pub mod tuning;
