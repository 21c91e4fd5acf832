//! One pass over a JSON document that keeps the scalars at known paths and checks everything else against the limits.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use smallvec::{SmallVec, smallvec};

use super::fields::{Field, Fields};
use crate::random::mix;
use crate::shard::event::Reason;
use crate::shard::spec::{Limits, Path, SpecError};

/// The configured paths as a tree of names.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    root: Node,
    slots: usize,
    limits: Limits,
}

#[derive(Debug, Clone, Default)]
struct Node(Vec<(Name, Child)>);

/// A name and its first bytes as a number: most comparisons end there.
#[derive(Debug, Clone)]
struct Name {
    first: u64,
    text: String,
}

fn first_bytes(name: &str) -> u64 {
    let mut first = [0; 8];
    let length = name.len().min(8);
    first[..length].copy_from_slice(&name.as_bytes()[..length]);
    u64::from_le_bytes(first)
}

#[derive(Debug, Clone)]
enum Child {
    Slot(usize, Path),
    Inner(Node),
}

impl Node {
    fn child(&self, name: &str) -> Option<&Child> {
        let first = first_bytes(name);
        self.0.iter().find(|(known, _)| known.first == first && known.text == name).map(|(_, child)| child)
    }

    fn any_path(&self) -> &Path {
        match &self.0.first().expect("an inner node has a child: it was made for one").1 {
            Child::Slot(_, path) => path,
            Child::Inner(node) => node.any_path(),
        }
    }

    fn add(&mut self, path: &Path, at: usize, slots: &mut usize) -> Result<usize, SpecError> {
        let name = &path.segments()[at];
        let is_last = at + 1 == path.segments().len();
        let index = self.0.iter().position(|(known, _)| known.text == *name).unwrap_or_else(|| {
            let child = if is_last { Child::Slot(*slots, path.clone()) } else { Child::Inner(Node::default()) };
            *slots += usize::from(is_last);
            self.0.push((Name { first: first_bytes(name), text: name.clone() }, child));
            self.0.len() - 1
        });
        match &mut self.0[index].1 {
            Child::Slot(slot, _) if is_last => Ok(*slot),
            Child::Slot(_, outer) => Err(SpecError::Nested(outer.clone(), path.clone())),
            Child::Inner(node) if is_last => Err(SpecError::Nested(path.clone(), node.any_path().clone())),
            Child::Inner(node) => node.add(path, at + 1, slots),
        }
    }
}

impl Layout {
    pub(super) fn new(limits: Limits) -> Self {
        Self { root: Node::default(), slots: 0, limits }
    }

    /// The slot of a path: the same for the same path.
    pub(super) fn add(&mut self, path: &Path) -> Result<usize, SpecError> {
        self.root.add(path, 0, &mut self.slots)
    }

    pub(super) fn read<'a>(&self, payload: &'a [u8]) -> Result<Fields<'a>, Reason> {
        if payload.is_empty() {
            return Err(Reason::Empty);
        }
        if payload.len() > self.limits.record_bytes {
            return Err(Reason::Limits);
        }
        let text = std::str::from_utf8(payload).map_err(|_| Reason::Encoding)?;
        if text.starts_with('\u{FEFF}') {
            return Err(Reason::Encoding);
        }
        let mut scan = Scan { fields: smallvec![None; self.slots], limits: self.limits, ..Scan::default() };
        let mut json = serde_json::Deserializer::from_str(text);
        let read = Object { node: Some(&self.root), depth: 1, scan: &mut scan }
            .deserialize(&mut json)
            .and_then(|()| json.end());
        match (read, scan.refused) {
            (Ok(()), None) => Ok(Fields(scan.fields)),
            (_, Some(reason)) => Err(reason),
            (Err(_), None) if payload.contains(&0) => Err(Reason::Encoding),
            (Err(_), None) => Err(Reason::Parse),
        }
    }
}

/// What one pass gathers.
#[derive(Default)]
struct Scan<'a> {
    fields: SmallVec<[Option<Field<'a>>; 12]>,
    limits: Limits,
    field_count: u32,
    /// The names of the objects that are open, innermost last.
    names: SmallVec<[Cow<'a, str>; 16]>,
    /// Set once, with the first thing that is wrong beyond JSON's own grammar.
    refused: Option<Reason>,
}

impl<'a> Scan<'a> {
    fn refuse<E: Error>(&mut self, reason: Reason) -> E {
        self.refused.get_or_insert(reason);
        E::custom(reason)
    }

    fn enter_name<E: Error>(&mut self, name: Cow<'a, str>) -> Result<(), E> {
        self.field_count += 1;
        if self.field_count > self.limits.fields || name.len() > self.limits.key_bytes {
            return Err(self.refuse(Reason::Limits));
        }
        self.names.push(name);
        Ok(())
    }

    /// Ends an object whose names begin at `first`: refuses a name that stands twice.
    fn leave_object<E: Error>(&mut self, first: usize) -> Result<(), E> {
        let repeats = repeats(&mut self.names[first..]);
        self.names.truncate(first);
        if repeats { Err(self.refuse(Reason::DuplicateKey)) } else { Ok(()) }
    }
}

/// Whether a name stands twice. Few names are compared only with those that share a bit of a small digest.
fn repeats(names: &mut [Cow<'_, str>]) -> bool {
    if names.len() > 16 {
        names.sort_unstable();
        return names.windows(2).any(|pair| pair[0] == pair[1]);
    }
    let mut seen = 0u64;
    (0..names.len()).any(|at| {
        let bit = 1 << (mix(first_bytes(&names[at]) ^ names[at].len() as u64) >> 58);
        let met = seen & bit != 0;
        seen |= bit;
        met && names[..at].contains(&names[at])
    })
}

/// Any value; at a known node its scalars are kept, elsewhere it is only checked.
struct Object<'s, 'n, 'a> {
    node: Option<&'n Node>,
    depth: u32,
    scan: &'s mut Scan<'a>,
}

impl<'a> DeserializeSeed<'a> for Object<'_, '_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl Object<'_, '_, '_> {
    fn enter<E: Error>(&mut self) -> Result<(), E> {
        if self.depth > self.scan.limits.depth { Err(self.scan.refuse(Reason::Limits)) } else { Ok(()) }
    }

    /// A scalar or a list where an object was to be: its fields are missing, unless it is not read at all.
    fn not_an_object<E: Error>(self) -> Result<(), E> {
        if self.node.is_some() && self.depth == 1 { Err(self.scan.refuse(Reason::Schema)) } else { Ok(()) }
    }
}

impl<'a> Visitor<'a> for Object<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'a>>(mut self, mut map: M) -> Result<(), M::Error> {
        self.enter()?;
        let first = self.scan.names.len();
        while let Some(name) = map.next_key_seed(FieldName)? {
            let child = self.node.and_then(|node| node.child(&name));
            self.scan.enter_name(name)?;
            match child {
                Some(Child::Slot(slot, _)) => {
                    map.next_value_seed(Leaf { slot: *slot, depth: self.depth + 1, scan: &mut *self.scan })?;
                }
                Some(Child::Inner(node)) => {
                    map.next_value_seed(Object { node: Some(node), depth: self.depth + 1, scan: &mut *self.scan })?;
                }
                None => map.next_value_seed(Object { node: None, depth: self.depth + 1, scan: &mut *self.scan })?,
            }
        }
        self.scan.leave_object(first)
    }

    fn visit_seq<S: SeqAccess<'a>>(mut self, mut list: S) -> Result<(), S::Error> {
        self.enter()?;
        while list.next_element_seed(Object { node: None, depth: self.depth + 1, scan: &mut *self.scan })?.is_some() {}
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

/// A value that is kept to the letter.
struct Leaf<'s, 'a> {
    slot: usize,
    depth: u32,
    scan: &'s mut Scan<'a>,
}

impl<'a> DeserializeSeed<'a> for Leaf<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<(), D::Error> {
        let raw = <&RawValue as serde::Deserialize>::deserialize(json)?.get();
        if raw.starts_with(['{', '[']) {
            // Not a scalar: what is wrong first, its size or its kind, decides the reason.
            let inside = Object { node: None, depth: self.depth, scan: &mut *self.scan };
            let checked = inside.deserialize(&mut serde_json::Deserializer::from_str(raw));
            checked.map_err(D::Error::custom)?;
        }
        match Field::from_json(raw) {
            Ok(field) => self.scan.fields[self.slot] = field,
            Err(reason) => return Err(self.scan.refuse(reason)),
        }
        Ok(())
    }
}

/// The name of a field, borrowed where it has no escapes.
struct FieldName;

impl<'a> DeserializeSeed<'a> for FieldName {
    type Value = Cow<'a, str>;

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for FieldName {
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
