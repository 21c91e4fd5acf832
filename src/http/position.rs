//! Positions in the log that responses report, and the partitions they cover.

use serde::Serialize;
use utoipa::ToSchema;

use super::problem::{Problem, ProblemKind};
use crate::workers::{AtLeast, Stream};

/// The position of a partition at which an answer holds.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AsOfResponse {
    partition: u32,
    /// The next offset: every record before it is processed.
    next: u64,
    /// The largest accepted event time; absent before the first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ms: Option<i64>,
}

impl From<ebb_core::AsOf> for AsOfResponse {
    fn from(as_of: ebb_core::AsOf) -> Self {
        Self { partition: as_of.partition, next: as_of.next.0, time_ms: as_of.time_ms }
    }
}

/// The partitions that an answer covers: on Kafka an instance answers for its assigned partitions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PartitionCoverage {
    answered: Vec<u32>,
    /// The number of partitions of the stream.
    of: u32,
}

impl PartitionCoverage {
    pub(super) fn new(mut answered: Vec<u32>, stream: &Stream) -> Self {
        answered.sort_unstable();
        Self { answered, of: stream.partitions() as u32 }
    }

    pub(super) fn of_positions(positions: &[ebb_core::AsOf], stream: &Stream) -> Self {
        Self::new(positions.iter().map(|as_of| as_of.partition).collect(), stream)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.answered.len() >= self.of as usize
    }
}

/// The problem of a question that was not answered before its deadline.
pub(super) fn answer_timeout(at_least: &AtLeast) -> Problem {
    match at_least {
        AtLeast::Anywhere => overloaded(),
        AtLeast::Offset(_) | AtLeast::Offsets(_) => Problem::new(
            ProblemKind::NotReached,
            "the log did not reach `at_least` before the request timeout; use the offset from the response to a recorded \
             event",
        ),
    }
}

pub(super) fn overloaded() -> Problem {
    Problem::new(ProblemKind::AnswerTimeout, "the service is overloaded; retry later")
}
