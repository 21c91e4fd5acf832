//! JSON payload to event, by configured paths.
//!
//! Guarantees: every malformed payload ends as a [`Reason`]; none panics, recurses without bound or allocates more than its
//! own size. Texts and numbers keep their source form: `1`, `1.0` and `"1"` are three different items. A repeated key is
//! rejected in every object, because another parser could read the other value.

mod fields;
mod scan;
mod tree;
mod visitors;

use ebb_sketch::hash::{Domain, Fingerprint, HashKey, HashKeys, KeyDigest};

use super::event::{Event, Numbers, PreviousKey};
use super::event_spec::{EventSpec, EventSpecError, ImportanceClasses, Path, PayloadLimits};
use super::verdict::Reason;
use fields::{Fields, Scalar};
use scan::{FieldUse, Layout};

/// Reads the events of one stream.
///
/// ```
/// use ebb_core::{EventSpec, Reader, Reason, TimeUnit};
/// use ebb_sketch::hash::HashKey;
///
/// let spec = EventSpec {
///     time: Some(("ts".parse()?, TimeUnit::Milliseconds)),
///     ..EventSpec::of_item(vec!["user.id".parse()?, "ad".parse()?])
/// };
/// let reader = Reader::new(spec, HashKey::new([7; 16]))?;
/// let read = |json: &str| reader.read(json.as_bytes());
///
/// let event = read(r#"{"user": {"id": "u1"}, "ad": 7, "ts": 1000}"#).expect("a valid event");
/// let repeat = read(r#"{"ad": 7, "ts": 2000, "user": {"id": "u1"}}"#).expect("a valid event");
/// assert_eq!((event.item, event.time_ms), (repeat.item, Some(1000)));
/// assert_eq!(read(r#"{"ad": 7, "ts": 1000}"#), Err(Reason::Schema));
/// # Ok::<(), ebb_core::EventSpecError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Reader {
    spec: EventSpec,
    layout: Layout,
    slots: EventSlots,
    key: HashKey,
    previous: Option<HashKey>,
    routing: Option<HashKey>,
}

/// The slot of each field of the event in [`Fields`].
#[derive(Debug, Clone)]
struct EventSlots {
    item: Vec<usize>,
    key: Option<usize>,
    time: Option<usize>,
    id: Option<usize>,
    value: Option<usize>,
    weight: Option<usize>,
    importance: Option<usize>,
    numbers: Vec<usize>,
    labels: Vec<usize>,
}

/// The fields of an event that a question needs; all but the item and its key may be absent.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// Identity for deduplication; includes the key.
    pub item: Fingerprint,
    /// The key whose state the item belongs to.
    pub key: Option<Fingerprint>,
    /// The time of the question; without it the shard's clock counts.
    pub time_ms: Option<i64>,
    /// Importance class of the item.
    pub importance: Option<f64>,
    /// Numbers that penalties refer to.
    pub numbers: Numbers,
    /// Present while the hash key is being rotated.
    pub previous_key: Option<PreviousKey>,
    /// Fingerprint that [`crate::partition_of`] maps to a partition.
    pub route: Fingerprint,
}

impl Reader {
    /// Compiles a specification. With a previous hash key, events also carry their fingerprints under that key.
    pub fn new(spec: EventSpec, keys: impl Into<HashKeys>) -> Result<Self, EventSpecError> {
        let HashKeys { current: key, previous, routing } = keys.into();
        if spec.item.is_empty() {
            return Err(EventSpecError::NoItem);
        }
        if spec.limits.depth == 0 || spec.limits.depth > PayloadLimits::MAX_DEPTH {
            return Err(EventSpecError::Depth);
        }
        let mut layout = Layout::new(spec.limits);
        let mut all = |paths: &[Path], field_use| {
            paths.iter().map(|path| layout.add(path, field_use)).collect::<Result<Vec<_>, _>>()
        };
        let item = all(&spec.item, FieldUse::Text)?;
        let labels = all(&spec.labels, FieldUse::Text)?;
        let numbers = all(&spec.numbers, FieldUse::Number)?;
        let importance_use = if spec.importance_classes.is_some() { FieldUse::Text } else { FieldUse::Number };
        let mut one = |path: Option<&Path>, field_use| path.map(|path| layout.add(path, field_use)).transpose();
        let slots = EventSlots {
            item,
            key: one(spec.key.as_ref(), FieldUse::Text)?,
            time: one(spec.time.as_ref().map(|(path, _)| path), FieldUse::Number)?,
            id: one(spec.id.as_ref(), FieldUse::Text)?,
            value: one(spec.value.as_ref(), FieldUse::Number)?,
            weight: one(spec.weight.as_ref(), FieldUse::Number)?,
            importance: one(spec.importance.as_ref(), importance_use)?,
            numbers,
            labels,
        };
        Ok(Self { spec, layout, slots, key, previous, routing })
    }

    /// The specification that the reader was made from.
    pub fn spec(&self) -> &EventSpec {
        &self.spec
    }

    /// The seed of filters that forget at random: as secret as the hash key, and the same on every replay.
    pub fn seed(&self) -> u64 {
        self.key.fingerprint(b"draws").low()
    }

    /// A one-way digest of the hash key.
    pub fn key_digest(&self) -> KeyDigest {
        self.key.digest()
    }

    /// A one-way digest of the previous hash key, while the key is being rotated.
    pub fn previous_key_digest(&self) -> Option<KeyDigest> {
        self.previous.as_ref().map(HashKey::digest)
    }

    /// Reads an event to be recorded. Every configured field must be present.
    pub fn read(&self, payload: &[u8]) -> Result<Event, Reason> {
        let fields = self.layout.read(payload)?;
        let subject = self.subject(&fields)?;
        let slots = &self.slots;
        let is_incomplete = slots.time.is_some() && subject.time_ms.is_none()
            || slots.importance.is_some() && subject.importance.is_none()
            || subject.numbers.contains(&None);
        if is_incomplete {
            return Err(Reason::Schema);
        }
        let id = match slots.id {
            None => None,
            Some(slot) => Some(hash(&self.key, Domain::Id, fields.required(slot)?)?),
        };
        let number = |slot: Option<usize>| slot.map(|slot| fields.required(slot)?.number()).transpose();
        let labels =
            slots.labels.iter().map(|slot| Ok(fields.required(*slot)?.text()?.into())).collect::<Result<_, _>>()?;
        Ok(Event {
            item: subject.item,
            key: subject.key,
            time_ms: subject.time_ms,
            id,
            value: number(slots.value)?,
            weight: number(slots.weight)?,
            importance: subject.importance,
            numbers: subject.numbers,
            labels,
            previous_key: subject.previous_key,
            route: subject.route,
        })
    }

    /// Reads the subject of a question. The fields of the item and, if configured, the key must be present.
    pub fn read_subject(&self, payload: &[u8]) -> Result<Subject, Reason> {
        self.subject(&self.layout.read(payload)?)
    }

    /// The fingerprint of a key that events contain as a string.
    pub fn key_fingerprint(&self, text: &str) -> Fingerprint {
        hash_text(&self.key, Domain::Key, text)
    }

    /// All fingerprints that a key may have: as a string or, if `text` is one, as a bare scalar; under the current hash
    /// key and, during a rotation, under the previous one.
    pub fn key_fingerprints(&self, text: &str) -> Vec<Fingerprint> {
        let bare = bare_scalar(text);
        let under = |key: &HashKey| {
            let bare = bare.as_ref().and_then(|scalar| hash(key, Domain::Key, scalar).ok());
            [Some(hash_text(key, Domain::Key, text)), bare]
        };
        [Some(&self.key), self.previous.as_ref()].into_iter().flatten().flat_map(under).flatten().collect()
    }

    /// The fingerprint of a key that events contain without quotes: a number, `true` or `false`. `None` for other texts.
    pub fn bare_key_fingerprint(&self, text: &str) -> Option<Fingerprint> {
        hash(&self.key, Domain::Key, &bare_scalar(text)?).ok()
    }

    /// The fingerprint of a text that aggregates list by name.
    pub fn label_fingerprint(&self, text: &str) -> Fingerprint {
        hash_text(&self.key, Domain::Label, text)
    }

    fn subject(&self, fields: &Fields<'_>) -> Result<Subject, Reason> {
        let slots = &self.slots;
        let key = slots.key.map(|slot| fields.required(slot)).transpose()?;
        let item = self.item(&self.key, fields)?;
        let previous_key = match &self.previous {
            None => None,
            Some(previous) => {
                let key = key.map(|scalar| hash(previous, Domain::Key, scalar)).transpose()?;
                Some(PreviousKey { item: self.item(previous, fields)?, key })
            }
        };
        let route = match (&self.routing, previous_key) {
            (None, _) => item,
            (Some(routing), Some(previous_key)) if self.previous.as_ref() == Some(routing) => previous_key.item,
            (Some(routing), _) => self.item(routing, fields)?,
        };
        let number = |slot: Option<usize>| slot.and_then(|slot| fields.get(slot)).map(Scalar::number).transpose();
        let time_ms = match (slots.time.and_then(|slot| fields.get(slot)), &self.spec.time) {
            (Some(scalar), Some((_, unit))) => Some(scalar.time_ms(*unit)?),
            _ => None,
        };
        Ok(Subject {
            item,
            key: key.map(|scalar| hash(&self.key, Domain::Key, scalar)).transpose()?,
            time_ms,
            importance: match &self.spec.importance_classes {
                None => number(slots.importance)?,
                Some(classes) => slots
                    .importance
                    .and_then(|slot| fields.get(slot))
                    .map(|scalar| class_importance(classes, scalar))
                    .transpose()?,
            },
            numbers: slots.numbers.iter().map(|slot| number(Some(*slot))).collect::<Result<_, _>>()?,
            previous_key,
            route,
        })
    }

    /// The fingerprint of the key and the item's fields together.
    fn item(&self, hash_key: &HashKey, fields: &Fields<'_>) -> Result<Fingerprint, Reason> {
        let mut hasher = hash_key.builder(Domain::Item);
        for slot in self.slots.key.iter().chain(&self.slots.item) {
            fields.required(*slot)?.hash(&mut hasher)?;
        }
        Ok(hasher.finish())
    }
}

/// The importance of the class that a field names. An unknown class is rejected unless all other classes have an importance.
fn class_importance(classes: &ImportanceClasses, scalar: &Scalar<'_>) -> Result<f64, Reason> {
    classes.importance(&scalar.text()?).ok_or(Reason::Schema)
}

fn hash(key: &HashKey, domain: Domain, scalar: &Scalar<'_>) -> Result<Fingerprint, Reason> {
    let mut hasher = key.builder(domain);
    scalar.hash(&mut hasher)?;
    Ok(hasher.finish())
}

fn hash_text(key: &HashKey, domain: Domain, text: &str) -> Fingerprint {
    let mut hasher = key.builder(domain);
    Scalar::hash_text(text, &mut hasher);
    hasher.finish()
}

/// A text that JSON writes without quotes: a number, `true` or `false`.
fn bare_scalar(text: &str) -> Option<Scalar<'_>> {
    Scalar::from_json(text).ok().flatten().filter(|scalar| matches!(scalar, Scalar::Bare(_)))
}

#[cfg(test)]
mod tests;
