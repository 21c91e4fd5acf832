//! Published structures that better methods in this crate replace. Use them to compare, not to deploy.
//!
//! - [`levels`]: replicated levels of q-digests over time; [`cascade`](super::cascade) gives the same guarantee from one copy
//!   of every observation.
//! - [`integral`]: a sample under one integral decay; [`robust`](super::robust) is faster, more accurate, and answers any
//!   decay.
//! - [`fill_tree`]: the published insertion into a q-digest, which `levels` uses.

pub mod fill_tree;
pub mod integral;
pub mod levels;
