//! One pass over a JSON document that keeps the scalars at the configured paths and checks the rest against the limits.

use std::borrow::Cow;

use serde::de::{DeserializeSeed, Error};
use smallvec::{SmallVec, smallvec};

use super::fields::{Fields, Scalar};
use super::tree::{PathNode, name_prefix};
use super::visitors::ObjectVisitor;
use crate::event_spec::{EventSpecError, Path, PayloadLimits};
use crate::verdict::Reason;
use ebb_sketch::random::mix;

/// The configured paths and limits, compiled for scanning.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    root: PathNode,
    /// By slot: whether the spelling of numbers matters.
    needs_spelling: Vec<bool>,
    limits: PayloadLimits,
}

/// How a field is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldUse {
    /// As text; numbers as they are spelled.
    Text,
    /// As a number or a time.
    Number,
}

impl Layout {
    pub(super) fn new(limits: PayloadLimits) -> Self {
        Self { root: PathNode::default(), needs_spelling: Vec::new(), limits }
    }

    /// The slot of a path; the same path always has the same slot.
    pub(super) fn add(&mut self, path: &Path, field_use: FieldUse) -> Result<usize, EventSpecError> {
        let mut slots = self.needs_spelling.len();
        let slot = self.root.add(path, 0, &mut slots)?;
        self.needs_spelling.resize(slots, false);
        self.needs_spelling[slot] |= field_use == FieldUse::Text;
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
        match self.scan(text, ScanMode::Values)? {
            Some(fields) => Ok(fields),
            None => self.scan(text, ScanMode::Spelling)?.ok_or(Reason::Parse),
        }
    }

    /// One pass; `None` when values do not suffice, because a number or an escaped string is used as text.
    fn scan<'a>(&self, text: &'a str, mode: ScanMode) -> Result<Option<Fields<'a>>, Reason> {
        let mut scan = Scan {
            fields: smallvec![None; self.needs_spelling.len()],
            needs_spelling: &self.needs_spelling,
            mode,
            is_ambiguous: false,
            limits: self.limits,
            field_count: 0,
            names: SmallVec::new(),
            rejection: None,
        };
        let mut json = serde_json::Deserializer::from_str(text);
        let object = ObjectVisitor { node: Some(&self.root), depth: 1, scan: &mut scan };
        let read = object.deserialize(&mut json).and_then(|()| json.end());
        match (read, scan.rejection) {
            (Ok(()), None) if scan.is_ambiguous => Ok(None),
            (Ok(()), None) => Ok(Some(Fields(scan.fields))),
            (_, Some(reason)) => Err(reason),
            (Err(error), None) if is_encoding_error(&error, text) => Err(Reason::Encoding),
            (Err(_), None) => Err(Reason::Parse),
        }
    }
}

/// A NUL, or a lone surrogate, which serde_json reports only in its message.
fn is_encoding_error(error: &serde_json::Error, text: &str) -> bool {
    text.as_bytes().contains(&0) || error.to_string().contains("hex escape")
}

/// What a pass keeps of scalars. Most payloads have plain strings where texts are used, so that values suffice; the slower
/// pass over the source text is needed only for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanMode {
    Values,
    Spelling,
}

/// The state of one pass.
pub(super) struct Scan<'l, 'a> {
    pub(super) fields: SmallVec<[Option<Scalar<'a>>; 12]>,
    pub(super) needs_spelling: &'l [bool],
    pub(super) mode: ScanMode,
    /// Set when a scalar's value does not tell its text.
    pub(super) is_ambiguous: bool,
    pub(super) limits: PayloadLimits,
    field_count: u32,
    /// Field names of the open objects, innermost last, except those that [`SeenChildren`] tracks.
    pub(super) names: SmallVec<[Cow<'a, str>; 16]>,
    /// The first violation of a rule beyond JSON's grammar.
    rejection: Option<Reason>,
}

impl Scan<'_, '_> {
    pub(super) fn reject<E: Error>(&mut self, reason: Reason) -> E {
        self.rejection.get_or_insert(reason);
        E::custom(reason)
    }

    pub(super) fn enter_name<E: Error>(&mut self, name: &str) -> Result<(), E> {
        self.field_count += 1;
        if self.field_count > self.limits.fields || name.len() > self.limits.key_bytes {
            return Err(self.reject(Reason::Limits));
        }
        Ok(())
    }

    /// Ends an object whose names begin at `first`; rejects a repeated name.
    pub(super) fn leave_object<E: Error>(&mut self, first: usize, seen: SeenChildren) -> Result<(), E> {
        let repeats = seen.repeats || has_repeats(&mut self.names[first..]);
        self.names.truncate(first);
        if repeats { Err(self.reject(Reason::DuplicateKey)) } else { Ok(()) }
    }
}

/// Which configured children of a node an object has contained so far: finds most repeated names without comparing texts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SeenChildren {
    seen: u64,
    repeats: bool,
}

impl SeenChildren {
    /// Children with a higher index are compared by name.
    pub(super) const CAPACITY: usize = u64::BITS as usize;

    pub(super) fn insert(&mut self, index: usize) {
        let bit = 1 << index;
        self.repeats |= self.seen & bit != 0;
        self.seen |= bit;
    }
}

/// Whether a name occurs twice. In short lists only names that share a bit of a small Bloom filter are compared.
fn has_repeats(names: &mut [Cow<'_, str>]) -> bool {
    if names.len() > 16 {
        names.sort_unstable();
        return names.windows(2).any(|pair| pair[0] == pair[1]);
    }
    let mut seen = 0u64;
    (0..names.len()).any(|index| {
        let bit = 1 << (mix(name_prefix(&names[index]) ^ names[index].len() as u64) >> 58);
        let collides = seen & bit != 0;
        seen |= bit;
        collides && names[..index].contains(&names[index])
    })
}
