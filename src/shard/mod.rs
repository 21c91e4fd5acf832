//! The state of one partition of one stream: a deterministic fold over its log.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod event;
mod reader;
mod spec;

pub use event::{Counts, Event, NextOffset, PenaltyFields, Reason, Record, Verdict};
pub use reader::{Reader, Subject};
pub use spec::{EventSpec, Limits, Path, SpecError, TimeUnit};
