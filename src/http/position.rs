//! Where in the log an answer stands, and where one is wanted.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::problem::{Kind, Problem};
use crate::workers::{AtLeast, Stream};

/// How many partitions one `at_least` may name.
const MOST_PLACES: usize = 1024;

/// Up to where in the log, and when in event time, an answer holds.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AsOf {
    pub(super) partition: u32,
    /// The offset that comes next: all before it are folded.
    next: u64,
    /// The largest accepted event time; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ms: Option<i64>,
}

impl From<ebb_core::AsOf> for AsOf {
    fn from(as_of: ebb_core::AsOf) -> Self {
        Self { partition: as_of.partition, next: as_of.next.0, time_ms: as_of.time_ms }
    }
}

/// Of how many partitions an answer speaks: on Kafka an instance answers for its own.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Partitions {
    answered: Vec<u32>,
    of: u32,
}

impl Partitions {
    pub(super) fn new(mut answered: Vec<u32>, stream: &Stream) -> Self {
        answered.sort_unstable();
        Self { answered, of: stream.partitions() as u32 }
    }

    pub(super) fn of_places(places: &[ebb_core::AsOf], stream: &Stream) -> Self {
        Self::new(places.iter().map(|as_of| as_of.partition).collect(), stream)
    }

    pub(super) fn is_all(&self) -> bool {
        self.answered.len() >= self.of as usize
    }
}

/// `17` for each partition that is asked, or `0:17,3:5` by partition.
pub(super) fn parse_at_least(text: &str) -> Result<AtLeast, &'static str> {
    const FORM: &str = "at_least: write partition:offset, such as 0:17 or 0:17,3:5";
    if let Some(offset) = number(text) {
        return Ok(AtLeast::Offset(offset));
    }
    let mut places = BTreeMap::new();
    for place in text.split(',') {
        let (partition, offset) = place.split_once(':').ok_or(FORM)?;
        let partition = number(partition).and_then(|partition| u32::try_from(partition).ok()).ok_or(FORM)?;
        let twice = places.insert(partition, number(offset).ok_or(FORM)?).is_some();
        if twice || places.len() > MOST_PLACES {
            return Err("at_least: name each partition once");
        }
    }
    Ok(AtLeast::Offsets(places))
}

/// Digits alone, as Rust's own reading also takes a plus.
pub(super) fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// What to tell who waited in vain.
pub(super) fn late(at_least: &AtLeast) -> Problem {
    match at_least {
        AtLeast::Anywhere => Problem::new(Kind::AnswerTimeout, "the service is overloaded; ask again later"),
        AtLeast::Offset(_) | AtLeast::Offsets(_) => Problem::new(
            Kind::NotReached,
            "the log did not reach `at_least` in time; it is the offset that a record was answered with",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_stands_alone_or_behind_its_partition() {
        assert_eq!(parse_at_least("17"), Ok(AtLeast::Offset(17)));
        assert_eq!(parse_at_least("0:17,3:5"), Ok(AtLeast::Offsets(BTreeMap::from([(0, 17), (3, 5)]))));
        for text in ["", ":", "a:1", "1:", "-1:2", "+1:2", "1:2,", "1:2,1:3", "4294967296:1", "1:2:3", "+5"] {
            assert!(parse_at_least(text).is_err(), "{text}");
        }
    }
}
