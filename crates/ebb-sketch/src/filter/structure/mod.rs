//! The data structures: what is stored per item, and how it is forgotten.
//!
//! - [`timing`]: small timers per item; exact window semantics, event time or arrival counts.
//! - [`stable`]: small counters with random decrements; the stable Bloom filter and its importance-aware variants.
//! - [`classic`]: one bit per cell; never forgets.
//! - [`frequency`]: decayed counts per item.
//! - [`layout`] maps a fingerprint to cells (in one cache line, or spread); [`cells`] packs small integers into memory.

pub mod cells;
pub mod classic;
pub mod frequency;
pub mod layout;
pub mod stable;
pub mod timing;
