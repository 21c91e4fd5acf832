//! The OpenAPI schema of a decide request.
//!
//! Some fields of `DecideRequest` exclude each other, which its derived schema does not express. Here that schema becomes a
//! list of alternatives, one for each combination of fields that `DecideRequest::parse` accepts.

use utoipa::openapi::schema::{OneOfBuilder, Type};
use utoipa::openapi::{Object, ObjectBuilder, RefOr, Schema};

use super::decide_request::MAX_EXPLAINED_EVENTS;
use super::fields::EventBatch;

/// A combination of fields that is accepted.
struct FieldCombination {
    description: &'static str,
    required: &'static [&'static str],
    absent: &'static [&'static str],
    /// Fields with only one accepted value.
    constant: &'static [(&'static str, bool)],
    max_events: Option<usize>,
}

const COMBINATIONS: [FieldCombination; 5] = [
    FieldCombination {
        description: "Asks about one event without recording it.",
        required: &["event"],
        absent: &["events"],
        constant: &[("record", false)],
        max_events: None,
    },
    FieldCombination {
        description: "Asks about a batch of events without recording them.",
        required: &["events"],
        absent: &["event"],
        constant: &[("record", false), ("explain", false)],
        max_events: None,
    },
    FieldCombination {
        description: "Asks about a batch of events, with explanations, without recording them.",
        required: &["events", "explain"],
        absent: &["event"],
        constant: &[("record", false), ("explain", true)],
        max_events: Some(MAX_EXPLAINED_EVENTS),
    },
    FieldCombination {
        description: "Decides about one event as configured, and records it.",
        required: &["event", "record"],
        absent: &["events", "window", "penalty", "prior", "at_least"],
        constant: &[("record", true), ("explain", false)],
        max_events: None,
    },
    FieldCombination {
        description: "Decides about a batch of events in order as configured, and records them.",
        required: &["events", "record"],
        absent: &["event", "window", "penalty", "prior", "at_least"],
        constant: &[("record", true), ("explain", false)],
        max_events: None,
    },
];

impl FieldCombination {
    /// Restricts the schema of all fields to this combination.
    fn restrict(&self, fields: &Object) -> Object {
        let mut object = fields.clone();
        object.description = Some(self.description.into());
        object.required = self.required.iter().map(|field| field.to_string()).collect();
        object.properties.retain(|field, _| !self.absent.contains(&field.as_str()));
        for (field, value) in self.constant {
            let constant = ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([*value])).build();
            object.properties.insert(field.to_string(), constant.into());
        }
        if let Some(max) = self.max_events {
            object.properties.insert("events".into(), EventBatch::schema_of_up_to(max));
        }
        object
    }
}

/// Replaces the derived schema, which has all fields, by the accepted combinations.
pub(super) fn restrict_to_combinations(schema: &mut RefOr<Schema>) {
    let RefOr::T(Schema::Object(fields)) = &*schema else {
        panic!("the derived schema of a struct is an object");
    };
    let alternatives = COMBINATIONS.iter().map(|combination| combination.restrict(fields));
    let one_of = alternatives.fold(OneOfBuilder::new(), OneOfBuilder::item);
    *schema = one_of.description(fields.description.clone()).into();
}
