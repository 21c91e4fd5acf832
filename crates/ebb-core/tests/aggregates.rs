//! Named aggregates end to end: events through shards, answers compared with an exact oracle.

#[path = "aggregates/amounts.rs"]
mod amounts;
#[path = "aggregates/budget.rs"]
mod budget;
#[path = "aggregates/by_key.rs"]
mod by_key;
#[path = "aggregates/fixture.rs"]
mod fixture;
#[path = "aggregates/oracle.rs"]
mod oracle;
#[path = "aggregates/refusals.rs"]
mod refusals;
#[path = "aggregates/shards.rs"]
mod shards;
#[path = "aggregates/statistics.rs"]
mod statistics;
#[path = "aggregates/times.rs"]
mod times;
