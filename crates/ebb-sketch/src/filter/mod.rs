//! Membership and frequency over time: structures that forget.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod calibration;
pub mod cells;
pub mod classic;
pub mod decision;
pub mod distinct;
pub mod forecast;
pub mod frequency;
pub mod importance;
pub mod importance_buckets;
pub mod inference;
pub mod limiting;
pub mod places;
pub mod posterior;
pub mod prior;
pub mod sizing;
pub mod spec_error;
pub mod stable;
pub mod timing;
pub mod tuning;
