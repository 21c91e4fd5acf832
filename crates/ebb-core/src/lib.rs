//! The deterministic fold behind Ebb: records in, verdicts out, and questions about what was seen.
//!
//! A [`Shard`] is the state of one partition. [`Shard::apply`] reads a record, decides whether its item is a duplicate,
//! and updates all views; [`Shard::ask`] and [`Shard::aggregate`] answer questions without changing anything. The same log
//! under the same [`Plan`] gives the same bytes, whatever the batches, crashes, restarts and machines in between (F1).
//!
//! The crate is pure, like `ebb-sketch` below it: no clock, no I/O, no hash-map order. It does not know Kafka, files or
//! HTTP; time and positions are arguments.
//!
//! | module | content |
//! |---|---|
//! | [`offset`] | positions in a log |
//! | [`event_spec`], [`reader`] | which fields form an event; JSON payload to event |
//! | [`event`], [`verdict`] | records, events, verdicts, reasons of rejection |
//! | [`plan`] | how events are read and which views are kept |
//! | [`shard`] | the fold itself, snapshots, status |
//! | [`dedup`] | the dedup view: filters, penalties, rules and isolated filters of keys |
//! | [`aggregate`] | named aggregates: sums, quantiles, top items; merging across shards and instances |
//! | [`question`] | questions about an item, and their answers |
//! | [`partition`] | the state machine of a partition's ownership |
//! | [`partitioner`] | mapping of items to partitions |
//!
//! All types that a caller needs are re-exported here.
#![deny(missing_docs)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod aggregate;
pub mod dedup;
pub mod event;
pub mod event_spec;
pub mod frequency;
mod key_rotation;
pub mod offset;
pub mod partition;
pub mod partitioner;
pub mod plan;
pub mod question;
pub mod reader;
pub mod shard;
pub mod verdict;

pub use aggregate::{
    AggregateAnswer, AggregateError, AggregateParameters, AggregateQuestion, AggregateResult, AggregateSpec,
    AggregateSpecError, AggregateStatus, Coverage, ExportError, IncompatibleSketches, KeyCounts, KeyScope, LogDigest,
    MAX_EXPORTS, MAX_INTEGRAL_WEIGHT, MAX_ROBUST_WEIGHT, MAX_TEXT_BYTES, Measure, MergedExports, Method,
    PartialAggregate, QuantileAnswer, QueryTime, Refusal, Selection, Statistic, TopAnswer, TopName, Weighting,
};
pub use dedup::{
    ClassForgetting, ClassScale, Cost, DedupSpec, FilterSpec, Forgetting, IsolationSpec, KeyRule, KeyRules,
    PenaltySpec, PriorStrata, ShareSource, StableViewSpec,
};
pub use ebb_sketch::filter::belief::ArrivalShare;
pub use ebb_sketch::filter::inference::decision::Penalties;
pub use ebb_sketch::filter::inference::prior::ShareEstimate;
pub use ebb_sketch::filter::inference::{Basis, Seen};
pub use event::{Event, Numbers, PreviousKey, Record};
pub use event_spec::{EventSpec, EventSpecError, ImportanceClasses, Path, PayloadLimits, TimeUnit};
pub use frequency::{FrequencyPlan, ItemCount};
pub use offset::{AsOf, NextOffset};
pub use partitioner::partition_of;
pub use plan::Plan;
pub use question::{AgeExplanation, AgeRange, Answer, AnswerDetails, ExpectedAge, Question, QuestionError, Span};
pub use reader::{Reader, Subject};
pub use shard::{HASH_KEY, Outcome, PREFETCH_BATCH, Shard, ShardStatus, ViewError};
pub use verdict::{Reason, Verdict, VerdictCounts};
