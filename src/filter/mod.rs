//! Membership and frequency over time: structures that forget.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod timing;
