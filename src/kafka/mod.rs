//! Kafka: the only module that names rdkafka, and no type of it leaves.
//!
//! - [`properties`]: whether librdkafka knows a property that the configuration passes through.
//! - [`Settings`]: how clients are configured; [`Fault`]: what went wrong, by what is to be done.
//! - [`Admin`]: topics. [`Consumer`], [`Group`]: membership, records, positions. [`Producer`]: outputs, transactions.
//! - [`Roll`]: who has what.
//!
//! It knows topics, positions and bytes; when to begin, what to emit and when to commit is for the workers to know.

mod admin;
mod consumer;
mod context;
mod event;
mod fault;
mod group;
mod overheard;
mod producer;
pub mod properties;
mod raw;
mod reader;
mod roll;
mod settings;

pub use admin::{Admin, Make, Topic, Wanted};
pub use consumer::Consumer;
pub use event::{Event, Taken, TopicPartition};
pub use fault::{Fault, Remedy};
pub use group::{CommittedOffset, Extent, Group, Position, TopicId};
pub use producer::{Committed, Placed, Producer, Sent};
pub use raw::{Message, Output};
pub use reader::{Ends, Read, Tail, committed_so_far, read_all};
pub use roll::{Member, Roll};
pub use settings::{Settings, TRANSACTION_TIMEOUT};
