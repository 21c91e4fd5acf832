//! Named aggregates end to end: events through shards, answers against the exact ones.

#[path = "aggregates/exact.rs"]
mod exact;
#[path = "aggregates/keys.rs"]
mod keys;
#[path = "aggregates/refusals.rs"]
mod refusals;
#[path = "aggregates/statistics.rs"]
mod statistics;
#[path = "aggregates/stream.rs"]
mod stream;
