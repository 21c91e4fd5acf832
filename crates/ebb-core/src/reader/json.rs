//! One pass over a JSON document that keeps the scalars at known paths and checks everything else against the limits.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use smallvec::{SmallVec, smallvec};

use super::fields::{Field, Fields};
use super::tree::{Child, Node, first_bytes};
use crate::event_spec::{EventSpecError, Path, PayloadLimits};
use crate::verdict::Reason;
use ebb_sketch::random::mix;

/// The configured paths as a tree of names.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    root: Node,
    /// By slot: whether the spelling of numbers matters there.
    spelled: Vec<bool>,
    limits: PayloadLimits,
}

/// What is wanted of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Its text, numbers to the letter.
    Spelling,
    /// A number or a time.
    Number,
}

impl Layout {
    pub(super) fn new(limits: PayloadLimits) -> Self {
        Self { root: Node::default(), spelled: Vec::new(), limits }
    }

    /// The slot of a path: the same for the same path.
    pub(super) fn add(&mut self, path: &Path, wanted: Wanted) -> Result<usize, EventSpecError> {
        let mut slots = self.spelled.len();
        let slot = self.root.add(path, 0, &mut slots)?;
        self.spelled.resize(slots, false);
        self.spelled[slot] |= wanted == Wanted::Spelling;
        Ok(slot)
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
        match self.scan(text, Care::Values)? {
            Some(fields) => Ok(fields),
            None => self.scan(text, Care::Spelling)?.ok_or(Reason::Parse),
        }
    }

    /// One pass; `None` when a number or an escape stands where the text is wanted and only values were looked at.
    fn scan<'a>(&self, text: &'a str, care: Care) -> Result<Option<Fields<'a>>, Reason> {
        let mut scan = Scan {
            fields: smallvec![None; self.spelled.len()],
            spelled: &self.spelled,
            care,
            spelling_matters: false,
            limits: self.limits,
            field_count: 0,
            names: SmallVec::new(),
            refused: None,
        };
        let mut json = serde_json::Deserializer::from_str(text);
        let object = Object { node: Some(&self.root), depth: 1, scan: &mut scan };
        let read = object.deserialize(&mut json).and_then(|()| json.end());
        match (read, scan.refused) {
            (Ok(()), None) if scan.spelling_matters => Ok(None),
            (Ok(()), None) => Ok(Some(Fields(scan.fields))),
            (_, Some(reason)) => Err(reason),
            (Err(error), None) if is_no_text(&error, text) => Err(Reason::Encoding),
            (Err(_), None) => Err(Reason::Parse),
        }
    }
}

/// A NUL, or half of a surrogate pair, which serde_json only tells by its message.
fn is_no_text(error: &serde_json::Error, text: &str) -> bool {
    text.as_bytes().contains(&0) || error.to_string().contains("hex escape")
}

/// How closely scalars are looked at. Most payloads have texts where texts are wanted: then their values suffice, and a
/// pass that keeps the source of every field, which takes longer, is not needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Care {
    Values,
    Spelling,
}

/// What one pass gathers.
struct Scan<'l, 'a> {
    fields: SmallVec<[Option<Field<'a>>; 12]>,
    spelled: &'l [bool],
    care: Care,
    spelling_matters: bool,
    limits: PayloadLimits,
    field_count: u32,
    /// The names of the objects that are open, innermost last, but for those that their node knows.
    names: SmallVec<[Cow<'a, str>; 16]>,
    /// Set once, with the first thing that is wrong beyond JSON's own grammar.
    refused: Option<Reason>,
}

impl<'a> Scan<'_, 'a> {
    fn refuse<E: Error>(&mut self, reason: Reason) -> E {
        self.refused.get_or_insert(reason);
        E::custom(reason)
    }

    fn enter_name<E: Error>(&mut self, name: &str) -> Result<(), E> {
        self.field_count += 1;
        if self.field_count > self.limits.fields || name.len() > self.limits.key_bytes {
            return Err(self.refuse(Reason::Limits));
        }
        Ok(())
    }

    /// Ends an object whose names begin at `first`: refuses a name that stands twice.
    fn leave_object<E: Error>(&mut self, first: usize, known: Known) -> Result<(), E> {
        let repeats = known.repeats || repeats(&mut self.names[first..]);
        self.names.truncate(first);
        if repeats { Err(self.refuse(Reason::DuplicateKey)) } else { Ok(()) }
    }
}

/// Which of a node's children an object has named so far: most names of most objects are told apart here.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    seen: u64,
    repeats: bool,
}

impl Known {
    /// Children beyond this place are told apart by their names.
    const PLACES: usize = u64::BITS as usize;

    fn see(&mut self, place: usize) {
        let bit = 1 << place;
        self.repeats |= self.seen & bit != 0;
        self.seen |= bit;
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
struct Object<'s, 'l, 'a> {
    node: Option<&'l Node>,
    depth: u32,
    scan: &'s mut Scan<'l, 'a>,
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
        let (first, mut known) = (self.scan.names.len(), Known::default());
        while let Some(name) = map.next_key_seed(FieldName)? {
            let child = self.node.and_then(|node| node.child(&name));
            self.scan.enter_name(&name)?;
            match child {
                Some((place, _)) if place < Known::PLACES => known.see(place),
                Some(_) | None => self.scan.names.push(name),
            }
            match child.map(|(_, child)| child) {
                Some(Child::Slot(slot, _)) => {
                    map.next_value_seed(Leaf { slot: *slot, depth: self.depth + 1, scan: &mut *self.scan })?;
                }
                Some(Child::Inner(node)) => {
                    map.next_value_seed(Object { node: Some(node), depth: self.depth + 1, scan: &mut *self.scan })?;
                }
                None => map.next_value_seed(Object { node: None, depth: self.depth + 1, scan: &mut *self.scan })?,
            }
        }
        self.scan.leave_object(first, known)
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

/// A value that is kept.
struct Leaf<'s, 'l, 'a> {
    slot: usize,
    depth: u32,
    scan: &'s mut Scan<'l, 'a>,
}

impl<'a> DeserializeSeed<'a> for Leaf<'_, '_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<(), D::Error> {
        if self.scan.care == Care::Values {
            return json.deserialize_any(self);
        }
        // Whatever is no scalar was refused by the first pass.
        let raw = <&RawValue as serde::Deserialize>::deserialize(json)?.get();
        match Field::from_json(raw) {
            Ok(field) => self.scan.fields[self.slot] = field,
            Err(reason) => return Err(self.scan.refuse(reason)),
        }
        Ok(())
    }
}

impl<'l, 'a> Leaf<'_, 'l, 'a> {
    fn keep<E>(self, field: Field<'a>) -> Result<(), E> {
        self.scan.fields[self.slot] = Some(field);
        Ok(())
    }

    fn keep_number<E>(self, number: Field<'a>) -> Result<(), E> {
        self.scan.spelling_matters |= self.scan.spelled[self.slot];
        self.keep(number)
    }

    /// Not a scalar: what is wrong first, its size or its kind, decides the reason.
    fn inside(&mut self) -> Object<'_, 'l, 'a> {
        Object { node: None, depth: self.depth, scan: &mut *self.scan }
    }
}

impl<'a> Visitor<'a> for Leaf<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON scalar")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'a str) -> Result<(), E> {
        self.keep(Field::Text(text))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.scan.spelling_matters = true;
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.keep_number(Field::Whole(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.keep_number(i64::try_from(number).map_or(Field::Fraction(number as f64), Field::Whole))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.keep_number(Field::Fraction(number))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.keep(Field::Bare(if value { "true" } else { "false" }))
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<M: MapAccess<'a>>(mut self, map: M) -> Result<(), M::Error> {
        self.inside().visit_map(map)?;
        Err(self.scan.refuse(Reason::Schema))
    }

    fn visit_seq<S: SeqAccess<'a>>(mut self, list: S) -> Result<(), S::Error> {
        self.inside().visit_seq(list)?;
        Err(self.scan.refuse(Reason::Schema))
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
