//! Kafka: the only module that names rdkafka, and no type of it leaves.
//!
//! - [`properties`]: whether librdkafka knows a property that the configuration passes through.
//! - [`Settings`]: how clients are configured; [`Fault`]: what went wrong, by what is to be done.
//! - [`Admin`]: topics. [`Consumer`], [`Group`]: membership, records, positions. [`Producer`]: outputs, transactions.
//! - [`GroupInspector`]: which member owns which partition, seen from outside the group.
//!
//! It knows topics, positions and bytes; when to begin, what to emit and when to commit is for the workers to know.

mod admin;
mod connection_errors;
mod consumer;
mod context;
mod event;
mod fault;
mod group;
mod group_inspector;
mod producer;
pub mod properties;
mod raw;
mod reader;
mod settings;

pub use admin::{Admin, TopicCreation, TopicDescription, TopicRequirement};
pub use consumer::Consumer;
pub use event::{ConsumerEvent, Fetched, TopicPartition};
pub use fault::{Fault, Remedy};
pub use group::{CommittedOffset, Group, LogRange, OffsetCommit, TopicId};
pub use group_inspector::{GroupInspector, Member};
pub use producer::{CommitOutcome, DeliveryReport, Producer, SendOutcome};
pub use raw::{Message, Output};
pub use reader::{LogEnds, TailReader, TopicRecord, committed_offset_ignoring_pending, read_partition};
pub use settings::{Settings, TRANSACTION_TIMEOUT};
