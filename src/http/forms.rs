//! Bodies of requests as the description of the API shows them. What is really read, and how, stands in
//! [`super::question`] and [`super::frequency`]; `tests/http/openapi.rs` sends every example of these.
#![expect(dead_code, reason = "these are only described, never made")]

use serde::Deserialize;
use utoipa::ToSchema;

/// One event or a batch, asked about or recorded.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum DecideBody {
    Ask(AskBody),
    AskBatch(AskBatchBody),
    ExplainBatch(ExplainBatchBody),
    Record(RecordBody),
    RecordBatch(RecordBatchBody),
}

/// Asks about one event; remembers nothing.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AskBody {
    /// The event, as its writers write it. A question needs only the item's fields and the key.
    #[schema(value_type = AnyEvent)]
    event: serde_json::Value,
    #[schema(value_type = No, required = false)]
    record: Option<bool>,
    /// Up to the configured one, which counts when this is absent: a time or a number of events.
    #[schema(format = "ebb-span", example = "10m")]
    window: Option<String>,
    /// Instead of the configured penalties.
    penalty: Option<PenaltyBody>,
    /// The item's own share of the events, instead of the configured or learned one.
    #[schema(exclusive_minimum = 0.0, exclusive_maximum = 1.0)]
    prior: Option<f64>,
    at_least: Option<AtLeastBody>,
    /// The only partition to be asked.
    #[schema(maximum = 2147483647)]
    partition: Option<u32>,
    /// Adds how likely each age is.
    #[schema(value_type = bool, required = false)]
    explain: Option<bool>,
}

/// Asks about up to 10,000 events; remembers nothing.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AskBatchBody {
    #[schema(max_items = 10000)]
    events: Vec<serde_json::Value>,
    #[schema(value_type = No, required = false)]
    record: Option<bool>,
    #[schema(format = "ebb-span", example = "10m")]
    window: Option<String>,
    penalty: Option<PenaltyBody>,
    #[schema(exclusive_minimum = 0.0, exclusive_maximum = 1.0)]
    prior: Option<f64>,
    at_least: Option<AtLeastBody>,
    #[schema(maximum = 2147483647)]
    partition: Option<u32>,
    #[schema(value_type = No, required = false)]
    explain: Option<bool>,
}

/// Asks about up to 1,000 events, with how likely each age is; remembers nothing.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainBatchBody {
    #[schema(max_items = 1000)]
    events: Vec<serde_json::Value>,
    #[schema(value_type = No, required = false)]
    record: Option<bool>,
    #[schema(format = "ebb-span", example = "10m")]
    window: Option<String>,
    penalty: Option<PenaltyBody>,
    #[schema(exclusive_minimum = 0.0, exclusive_maximum = 1.0)]
    prior: Option<f64>,
    at_least: Option<AtLeastBody>,
    #[schema(maximum = 2147483647)]
    partition: Option<u32>,
    #[schema(value_type = Yes)]
    explain: bool,
}

/// Decides about one event as configured, and remembers it.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordBody {
    /// The event with every configured field.
    #[schema(value_type = AnyEvent)]
    event: serde_json::Value,
    #[schema(value_type = Yes)]
    record: bool,
    /// Where to write it; otherwise one is chosen by the item.
    #[schema(maximum = 2147483647)]
    partition: Option<u32>,
    #[schema(value_type = No, required = false)]
    explain: Option<bool>,
}

/// Decides about up to 10,000 events in order, and remembers them.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordBatchBody {
    #[schema(max_items = 10000)]
    events: Vec<serde_json::Value>,
    #[schema(value_type = Yes)]
    record: bool,
    #[schema(maximum = 2147483647)]
    partition: Option<u32>,
    #[schema(value_type = No, required = false)]
    explain: Option<bool>,
}

/// What wrong answers cost.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PenaltyBody {
    /// A good event thrown away.
    #[schema(minimum = 0.0)]
    false_duplicate: f64,
    /// A repeat let through.
    #[schema(minimum = 0.0)]
    missed_duplicate: f64,
}

/// Waits until the log is folded up to and with an offset.
#[derive(Debug, Deserialize)]
pub(super) struct AtLeastBody;

impl utoipa::PartialSchema for AtLeastBody {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::schema::{OneOfBuilder, SchemaFormat, Type};
        let object = utoipa::openapi::ObjectBuilder::new;
        let offset = object().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(i64::MAX));
        let offset = offset.description(Some("Of each partition that is asked."));
        let places = object().schema_type(Type::String).format(Some(SchemaFormat::Custom("ebb-at-least".into())));
        let places = places.description(Some("By partition: 0:17,3:5."));
        OneOfBuilder::new().item(offset).item(places).into()
    }
}

impl ToSchema for AtLeastBody {}

/// Asks how often items came of late.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FrequencyBody {
    /// Events, of which the item's fields and the key are read.
    #[schema(max_items = 10000)]
    items: Vec<serde_json::Value>,
    at_least: Option<AtLeastBody>,
    #[schema(maximum = 2147483647)]
    partition: Option<u32>,
}

/// Anything but null. What is no event of the stream is answered as rejected.
#[derive(Debug)]
pub(super) struct AnyEvent;

impl utoipa::PartialSchema for AnyEvent {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::schema::{SchemaType, Type};
        let types = [Type::Object, Type::Array, Type::String, Type::Number, Type::Boolean];
        utoipa::openapi::ObjectBuilder::new().schema_type(SchemaType::from_iter(types)).build().into()
    }
}

impl ToSchema for AnyEvent {}

/// Nothing but `true`.
#[derive(Debug)]
pub(super) struct Yes;
/// Nothing but `false`.
#[derive(Debug)]
pub(super) struct No;

fn only(value: bool) -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
    utoipa::openapi::ObjectBuilder::new()
        .schema_type(utoipa::openapi::schema::Type::Boolean)
        .enum_values(Some([value]))
        .build()
        .into()
}

impl utoipa::PartialSchema for Yes {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        only(true)
    }
}

impl ToSchema for Yes {}

impl utoipa::PartialSchema for No {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        only(false)
    }
}

impl ToSchema for No {}
