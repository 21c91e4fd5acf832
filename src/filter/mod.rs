//! Membership and frequency over time: structures that forget.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod calibration;
pub mod decision;
pub mod distinct;
pub mod inference;
pub mod posterior;
pub mod prior;
pub mod sizing;
pub mod timing;
