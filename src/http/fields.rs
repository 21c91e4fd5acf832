//! Fields that several requests share, with the schema that describes them.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, IgnoredAny, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use utoipa::openapi::schema::{ArrayBuilder, OneOfBuilder, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::problem::{Problem, ProblemKind};
use crate::workers::AtLeast;

/// Maximum number of events of one batch.
pub const MAX_EVENTS: usize = 10_000;
/// Maximum number of partitions in one `at_least`.
const MAX_AT_LEAST_PARTITIONS: usize = 1024;

const AT_LEAST_FORM: &str = "at_least is an offset such as 17, or partition:offset pairs such as 0:17,3:5";
const PARTITION_FORM: &str = "a partition is a whole number below 2^32, such as 3";

/// The minimum position of an answer: a number or a text in bodies, a text in queries.
#[derive(Debug)]
pub(super) struct AtLeastField(AtLeast);

impl AtLeastField {
    /// Without the field any position is accepted.
    pub(super) fn or_anywhere(field: Option<Self>) -> AtLeast {
        field.map_or(AtLeast::Anywhere, |field| field.0)
    }
}

impl<'de> Deserialize<'de> for AtLeastField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AtLeastVisitor;

        impl Visitor<'_> for AtLeastVisitor {
            type Value = AtLeastField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an offset, or a text such as 0:17")
            }

            fn visit_u64<E>(self, offset: u64) -> Result<AtLeastField, E> {
                Ok(AtLeastField(AtLeast::Offset(offset)))
            }

            fn visit_f64<E: Error>(self, offset: f64) -> Result<AtLeastField, E> {
                let offset = whole(offset).ok_or_else(|| E::invalid_type(Unexpected::Float(offset), &self))?;
                self.visit_u64(offset)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<AtLeastField, E> {
                parse_at_least(text).map(AtLeastField).map_err(E::custom)
            }
        }

        deserializer.deserialize_any(AtLeastVisitor)
    }
}

impl PartialSchema for AtLeastField {
    fn schema() -> RefOr<Schema> {
        let offset = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(i64::MAX));
        let offset = offset.description(Some("An offset that applies to every partition."));
        let offsets = ObjectBuilder::new().schema_type(Type::String);
        let offsets = offsets.format(Some(SchemaFormat::Custom("ebb-at-least".into())));
        let offsets = offsets.description(Some("Offsets by partition: `0:17,3:5`."));
        let description = "Delays the answer until the log is processed up to and including an offset.";
        OneOfBuilder::new().item(offset).item(offsets).description(Some(description)).into()
    }
}

impl ToSchema for AtLeastField {}

/// `17` for every partition, or `0:17,3:5` by partition.
pub(super) fn parse_at_least(text: &str) -> Result<AtLeast, &'static str> {
    if let Some(offset) = parse_digits(text) {
        return Ok(AtLeast::Offset(offset));
    }
    let mut offsets = BTreeMap::new();
    for pair in text.split(',') {
        let (partition, offset) = pair.split_once(':').ok_or(AT_LEAST_FORM)?;
        let partition = parse_partition(partition).ok_or(AT_LEAST_FORM)?;
        let is_repeated = offsets.insert(partition, parse_digits(offset).ok_or(AT_LEAST_FORM)?).is_some();
        if is_repeated || offsets.len() > MAX_AT_LEAST_PARTITIONS {
            return Err("at_least may name each partition once, and at most 1024 partitions");
        }
    }
    Ok(AtLeast::Offsets(offsets))
}

/// Digits only: Rust's integer parser also accepts a plus sign.
fn parse_digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn parse_partition(text: &str) -> Option<u32> {
    parse_digits(text).and_then(|partition| u32::try_from(partition).ok())
}

/// JSON numbers without a fraction are whole, however they are written: `3.0` is 3.
fn whole(number: f64) -> Option<u64> {
    (number >= 0.0 && number < u64::MAX as f64 && number.trunc() == number).then_some(number as u64)
}

/// Reads the optional `partition` of a body: a JSON number.
pub(super) fn body_partition<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    Ok(Option::<PartitionNumber>::deserialize(deserializer)?.map(|number| number.0))
}

/// Reads the optional `partition` of a query.
pub(super) fn query_partition<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse_partition(&text).ok_or_else(|| D::Error::custom(PARTITION_FORM))).transpose()
}

struct PartitionNumber(u32);

impl<'de> Deserialize<'de> for PartitionNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PartitionVisitor;

        impl Visitor<'_> for PartitionVisitor {
            type Value = PartitionNumber;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a partition, which is a whole number below 2^32")
            }

            fn visit_u64<E: Error>(self, partition: u64) -> Result<PartitionNumber, E> {
                let invalid = |_| E::invalid_value(Unexpected::Unsigned(partition), &self);
                u32::try_from(partition).map(PartitionNumber).map_err(invalid)
            }

            fn visit_f64<E: Error>(self, partition: f64) -> Result<PartitionNumber, E> {
                let whole = whole(partition).ok_or_else(|| E::invalid_value(Unexpected::Float(partition), &self))?;
                self.visit_u64(whole)
            }
        }

        deserializer.deserialize_any(PartitionVisitor)
    }
}

/// A number with the exact value of its text. serde_json's own number parser may be off by one unit in the last place,
/// which turns the largest number below 1 into 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExactNumber(pub(super) f64);

impl<'de> Deserialize<'de> for ExactNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?.get();
        // Only JSON numbers parse as f64. 1e999 becomes infinite, which the validation of the field refuses.
        text.parse().map(Self).map_err(|_| D::Error::custom("expected a number"))
    }
}

/// The schema of an event: any JSON but null. An event that the stream cannot read is answered as rejected.
#[derive(Debug)]
pub(super) struct AnyEvent;

impl PartialSchema for AnyEvent {
    fn schema() -> RefOr<Schema> {
        let types = [Type::Object, Type::Array, Type::String, Type::Number, Type::Boolean];
        ObjectBuilder::new().schema_type(SchemaType::from_iter(types)).build().into()
    }
}

impl ToSchema for AnyEvent {}

/// The events of a batch, as the text they were sent as. Events beyond the limit are counted, not kept.
#[derive(Debug)]
pub(super) struct EventBatch<'a> {
    events: Vec<&'a RawValue>,
    count: usize,
}

impl<'a> EventBatch<'a> {
    /// The schema of a batch with a limit of its own.
    pub(super) fn schema_of_up_to(max_events: usize) -> RefOr<Schema> {
        let any = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
        ArrayBuilder::new().items(any).max_items(Some(max_events)).into()
    }

    /// All events, unless there are too many.
    pub(super) fn into_events(self) -> Result<Vec<&'a RawValue>, Problem> {
        if self.count <= MAX_EVENTS {
            return Ok(self.events);
        }
        let detail = format!("the batch has {} events, the limit is {MAX_EVENTS}; send several batches", self.count);
        Err(Problem::new(ProblemKind::BatchTooLarge, detail))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for EventBatch<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BatchVisitor;

        impl<'de> Visitor<'de> for BatchVisitor {
            type Value = EventBatch<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of events")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<EventBatch<'de>, S::Error> {
                let mut events = Vec::new();
                while events.len() < MAX_EVENTS
                    && let Some(event) = list.next_element::<&'de RawValue>()?
                {
                    events.push(event);
                }
                let mut count = events.len();
                while count >= MAX_EVENTS && list.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(EventBatch { events, count })
            }
        }

        deserializer.deserialize_seq(BatchVisitor)
    }
}

impl PartialSchema for EventBatch<'_> {
    fn schema() -> RefOr<Schema> {
        Self::schema_of_up_to(MAX_EVENTS)
    }
}

impl ToSchema for EventBatch<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_is_one_offset_or_offsets_by_partition() {
        assert_eq!(parse_at_least("17"), Ok(AtLeast::Offset(17)));
        assert_eq!(parse_at_least("0:17,3:5"), Ok(AtLeast::Offsets(BTreeMap::from([(0, 17), (3, 5)]))));
        for text in ["", ":", "a:1", "1:", "-1:2", "+1:2", "1:2,", "1:2,1:3", "4294967296:1", "1:2:3", "+5"] {
            assert!(parse_at_least(text).is_err(), "{text}");
        }
    }
}
