//! The serde visitors of a scan: configured objects, configured scalars, and everything else.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::fields::Scalar;
use super::scan::{Scan, ScanMode, SeenChildren};
use super::tree::{PathChild, PathNode};
use crate::verdict::Reason;

/// Any value. At a configured node the scalars below it are kept, elsewhere the value is only checked.
pub(super) struct ObjectVisitor<'s, 'l, 'a> {
    pub(super) node: Option<&'l PathNode>,
    pub(super) depth: u32,
    pub(super) scan: &'s mut Scan<'l, 'a>,
}

impl<'a> DeserializeSeed<'a> for ObjectVisitor<'_, '_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl ObjectVisitor<'_, '_, '_> {
    fn enter<E: Error>(&mut self) -> Result<(), E> {
        if self.depth > self.scan.limits.depth { Err(self.scan.reject(Reason::Limits)) } else { Ok(()) }
    }

    /// A scalar or a list. The document itself must be an object; deeper down the configured fields are just missing.
    fn not_an_object<E: Error>(self) -> Result<(), E> {
        if self.node.is_some() && self.depth == 1 { Err(self.scan.reject(Reason::Schema)) } else { Ok(()) }
    }
}

impl<'a> Visitor<'a> for ObjectVisitor<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'a>>(mut self, mut map: M) -> Result<(), M::Error> {
        self.enter()?;
        let (first, mut seen) = (self.scan.names.len(), SeenChildren::default());
        while let Some(name) = map.next_key_seed(FieldNameVisitor)? {
            let child = self.node.and_then(|node| node.child(&name));
            self.scan.enter_name(&name)?;
            match child {
                Some((index, _)) if index < SeenChildren::CAPACITY => seen.insert(index),
                Some(_) | None => self.scan.names.push(name),
            }
            let (depth, scan) = (self.depth + 1, &mut *self.scan);
            match child.map(|(_, child)| child) {
                Some(PathChild::Slot(slot, _)) => map.next_value_seed(ScalarVisitor { slot: *slot, depth, scan })?,
                Some(PathChild::Inner(node)) => map.next_value_seed(ObjectVisitor { node: Some(node), depth, scan })?,
                None => map.next_value_seed(ObjectVisitor { node: None, depth, scan })?,
            }
        }
        self.scan.leave_object(first, seen)
    }

    fn visit_seq<S: SeqAccess<'a>>(mut self, mut list: S) -> Result<(), S::Error> {
        self.enter()?;
        let depth = self.depth + 1;
        while list.next_element_seed(ObjectVisitor { node: None, depth, scan: &mut *self.scan })?.is_some() {}
        self.not_an_object()
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.not_an_object()
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.not_an_object()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.not_an_object()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.not_an_object()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.not_an_object()
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.not_an_object()
    }
}

/// A configured scalar.
struct ScalarVisitor<'s, 'l, 'a> {
    slot: usize,
    depth: u32,
    scan: &'s mut Scan<'l, 'a>,
}

impl<'a> DeserializeSeed<'a> for ScalarVisitor<'_, '_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<(), D::Error> {
        if self.scan.mode == ScanMode::Values {
            return json.deserialize_any(self);
        }
        // Objects and lists were rejected by the first pass.
        let raw = <&RawValue as serde::Deserialize>::deserialize(json)?.get();
        match Scalar::from_json(raw) {
            Ok(scalar) => self.scan.fields[self.slot] = scalar,
            Err(reason) => return Err(self.scan.reject(reason)),
        }
        Ok(())
    }
}

impl<'l, 'a> ScalarVisitor<'_, 'l, 'a> {
    fn keep<E>(self, scalar: Scalar<'a>) -> Result<(), E> {
        self.scan.fields[self.slot] = Some(scalar);
        Ok(())
    }

    fn keep_number<E>(self, number: Scalar<'a>) -> Result<(), E> {
        self.scan.is_ambiguous |= self.scan.needs_spelling[self.slot];
        self.keep(number)
    }

    /// Checks an object or a list against the limits, which take precedence over the wrong type.
    fn check_nested(&mut self) -> ObjectVisitor<'_, 'l, 'a> {
        ObjectVisitor { node: None, depth: self.depth, scan: &mut *self.scan }
    }
}

impl<'a> Visitor<'a> for ScalarVisitor<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON scalar")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'a str) -> Result<(), E> {
        self.keep(Scalar::Text(text))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.scan.is_ambiguous = true;
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.keep_number(Scalar::Integer(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.keep_number(i64::try_from(number).map_or(Scalar::Float(number as f64), Scalar::Integer))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.keep_number(Scalar::Float(number))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.keep(Scalar::Bare(if value { "true" } else { "false" }))
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<M: MapAccess<'a>>(mut self, map: M) -> Result<(), M::Error> {
        self.check_nested().visit_map(map)?;
        Err(self.scan.reject(Reason::Schema))
    }

    fn visit_seq<S: SeqAccess<'a>>(mut self, list: S) -> Result<(), S::Error> {
        self.check_nested().visit_seq(list)?;
        Err(self.scan.reject(Reason::Schema))
    }
}

/// The name of a field, borrowed unless it contains escapes.
struct FieldNameVisitor;

impl<'a> DeserializeSeed<'a> for FieldNameVisitor {
    type Value = Cow<'a, str>;

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for FieldNameVisitor {
    type Value = Cow<'a, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_borrowed_str<E: Error>(self, name: &'a str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.into()))
    }
}
