//! The deterministic fold of one partition: events, views, shards, questions and answers.
//!
//! Pure, as `ebb-sketch` below it: no clock, no I/O, no hash-map order. A [`Shard`] is `apply(record) -> verdict`; the same
//! log under the same [`Plan`] gives the same bytes, whatever the batches, crashes, restarts and machines in between.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod aggregate;
mod dedup;
mod event;
pub mod partition;
mod partitioner;
mod plan;
mod question;
mod reader;
mod shard;
mod spec;
mod turn;

pub use aggregate::{
    AggregateAnswer, AggregateError, AggregateParameters, AggregatePart, AggregateQuestion, AggregateResult,
    AggregateSpec, AggregateSpecError, AggregateStatus, ExportError, INTEGRAL_WEIGHT_MOST, KeyCounts, LogPrint,
    MOST_EXPORTS, Measure, Merged, Method, MixedParts, Over, Part, QuantileAnswer, ROBUST_WEIGHT_MOST, Refusal,
    Statistic, TEXT_BYTES_MOST, TopAnswer, TopName, Weights,
};
pub use dedup::{Cost, DedupSpec, FilterSpec, IsolationSpec, PenaltySpec, Rule, Rules};
pub use ebb_sketch::filter::decision::Penalties;
pub use ebb_sketch::filter::inference::{Basis, Seen};
pub use ebb_sketch::filter::posterior::Share;
pub use event::{Counts, Event, Former, NextOffset, Numbers, Reason, Record, Verdict};
pub use partitioner::partition_of;
pub use plan::Plan;
pub use question::{AgeRange, Answer, AsOf, Details, ExpectedAge, Question, QuestionError, Span};
pub use reader::{Reader, Subject};
pub use shard::{HASH_KEY, Outcome, Shard, Status, TOUCH_AHEAD, ViewError};
pub use spec::{EventSpec, Limits, Path, SpecError, TimeUnit};
