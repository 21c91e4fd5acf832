//! JSON payload to event, by configured paths.
//!
//! No tree is built for what is not read. Every malformed payload ends as a [`Reason`]; none panics, recurses without
//! bound or allocates more than its own size. Texts and numbers keep their source form: `1`, `1.0` and `"1"` are three
//! different items. The same key twice in one object is refused wherever it stands, because another parser could read
//! the other one.

mod fields;
mod json;
mod tree;

use ebb_sketch::hash::{Domain, Fingerprint, HashKey, HashKeys, KeyPrint};

use super::event::{Event, Numbers, PreviousKey};
use super::event_spec::{EventSpec, EventSpecError, Path, PayloadLimits};
use super::verdict::Reason;
use fields::{Field, Fields};
use json::{Layout, Wanted};

/// Reads events of one stream.
#[derive(Debug, Clone)]
pub struct Reader {
    spec: EventSpec,
    layout: Layout,
    slots: Slots,
    key: HashKey,
    previous: Option<HashKey>,
    routing: Option<HashKey>,
}

/// Where in the [`Fields`] each part of the event is found.
#[derive(Debug, Clone)]
struct Slots {
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

/// What a question needs of an event: everything but the item may be absent.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    pub item: Fingerprint,
    pub key: Option<Fingerprint>,
    pub time_ms: Option<i64>,
    pub importance: Option<f64>,
    pub numbers: Numbers,
    /// While a hash key is exchanged.
    pub previous_key: Option<PreviousKey>,
    /// What chooses the partition.
    pub route: Fingerprint,
}

impl Reader {
    pub fn new(spec: EventSpec, keys: impl Into<HashKeys>) -> Result<Self, EventSpecError> {
        let HashKeys { current: key, previous, routing } = keys.into();
        if spec.item.is_empty() {
            return Err(EventSpecError::NoItem);
        }
        if spec.limits.depth == 0 || spec.limits.depth > PayloadLimits::MAX_DEPTH {
            return Err(EventSpecError::Depth);
        }
        let mut layout = Layout::new(spec.limits);
        let mut all =
            |paths: &[Path], wanted| paths.iter().map(|path| layout.add(path, wanted)).collect::<Result<Vec<_>, _>>();
        let item = all(&spec.item, Wanted::Spelling)?;
        let labels = all(&spec.labels, Wanted::Spelling)?;
        let numbers = all(&spec.numbers, Wanted::Number)?;
        let mut one = |path: Option<&Path>, wanted| path.map(|path| layout.add(path, wanted)).transpose();
        let slots = Slots {
            item,
            key: one(spec.key.as_ref(), Wanted::Spelling)?,
            time: one(spec.time.as_ref().map(|(path, _)| path), Wanted::Number)?,
            id: one(spec.id.as_ref(), Wanted::Spelling)?,
            value: one(spec.value.as_ref(), Wanted::Number)?,
            weight: one(spec.weight.as_ref(), Wanted::Number)?,
            importance: one(spec.importance.as_ref(), Wanted::Number)?,
            numbers,
            labels,
        };
        Ok(Self { spec, layout, slots, key, previous, routing })
    }

    pub fn spec(&self) -> &EventSpec {
        &self.spec
    }

    /// Seeds the draws of filters that forget at random: as secret as the key, and the same on every replay.
    pub fn seed(&self) -> u64 {
        self.key.fingerprint(b"draws").low()
    }

    pub fn key_digest(&self) -> KeyPrint {
        self.key.print()
    }

    /// The key before the current one, while it is still needed.
    pub fn previous_key_digest(&self) -> Option<KeyPrint> {
        self.previous.as_ref().map(HashKey::print)
    }

    /// Reads an event to be recorded: every configured field must be there.
    pub fn read(&self, payload: &[u8]) -> Result<Event, Reason> {
        let fields = self.layout.read(payload)?;
        let subject = self.subject(&fields)?;
        let slots = &self.slots;
        let missing = slots.time.is_some() && subject.time_ms.is_none()
            || slots.importance.is_some() && subject.importance.is_none()
            || subject.numbers.contains(&None);
        if missing {
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

    /// Reads what a question is about: the item and, where it has one, its key must be there.
    pub fn read_subject(&self, payload: &[u8]) -> Result<Subject, Reason> {
        self.subject(&self.layout.read(payload)?)
    }

    /// The fingerprint of a key given as text, as the key of an event would have it.
    pub fn key_fingerprint(&self, text: &str) -> Fingerprint {
        text_key(&self.key, text)
    }

    /// All fingerprints that a key given as text may be known by: in quotes or not, under the current hash key or, while
    /// keys are exchanged, the previous.
    pub fn key_fingerprints(&self, text: &str) -> Vec<Fingerprint> {
        let bare = bare_field(text);
        let under = |key: &HashKey| {
            let bare = bare.as_ref().and_then(|field| hash(key, Domain::Key, field).ok());
            [Some(text_key(key, text)), bare]
        };
        [Some(&self.key), self.previous.as_ref()].into_iter().flatten().flat_map(under).flatten().collect()
    }

    /// What stands for a text that an aggregate lists by name.
    pub fn label_fingerprint(&self, text: &str) -> Fingerprint {
        let mut making = self.key.begin(Domain::Label);
        Field::hash_text(text, &mut making);
        making.end()
    }

    /// The fingerprint of a key that stands in events without quotes: a number, true or false.
    pub fn bare_key_fingerprint(&self, text: &str) -> Option<Fingerprint> {
        hash(&self.key, Domain::Key, &bare_field(text)?).ok()
    }

    fn subject(&self, fields: &Fields<'_>) -> Result<Subject, Reason> {
        let slots = &self.slots;
        let key = slots.key.map(|slot| fields.required(slot)).transpose()?;
        let item = self.item(&self.key, fields)?;
        let former = match &self.previous {
            None => None,
            Some(previous) => {
                let key = key.map(|field| hash(previous, Domain::Key, field)).transpose()?;
                Some(PreviousKey { item: self.item(previous, fields)?, key })
            }
        };
        let route = match (&self.routing, former) {
            (None, _) => item,
            (Some(routing), Some(former)) if self.previous.as_ref() == Some(routing) => former.item,
            (Some(routing), _) => self.item(routing, fields)?,
        };
        let number = |slot: Option<usize>| slot.and_then(|slot| fields.get(slot)).map(Field::number).transpose();
        let time = match (slots.time.and_then(|slot| fields.get(slot)), &self.spec.time) {
            (Some(field), Some((_, unit))) => Some(field.time_ms(*unit)?),
            _ => None,
        };
        Ok(Subject {
            item,
            key: key.map(|field| hash(&self.key, Domain::Key, field)).transpose()?,
            time_ms: time,
            importance: number(slots.importance)?,
            numbers: slots.numbers.iter().map(|slot| number(Some(*slot))).collect::<Result<_, _>>()?,
            previous_key: former,
            route,
        })
    }

    /// The key of the event is part of its item.
    fn item(&self, hash_key: &HashKey, fields: &Fields<'_>) -> Result<Fingerprint, Reason> {
        let mut making = hash_key.begin(Domain::Item);
        for slot in self.slots.key.iter().chain(&self.slots.item) {
            fields.required(*slot)?.hash(&mut making)?;
        }
        Ok(making.end())
    }
}

fn hash(key: &HashKey, domain: Domain, field: &Field<'_>) -> Result<Fingerprint, Reason> {
    let mut making = key.begin(domain);
    field.hash(&mut making)?;
    Ok(making.end())
}

fn text_key(key: &HashKey, text: &str) -> Fingerprint {
    let mut making = key.begin(Domain::Key);
    Field::hash_text(text, &mut making);
    making.end()
}

/// A text that stands in events without quotes: a number, true or false.
fn bare_field(text: &str) -> Option<Field<'_>> {
    Field::from_json(text).ok().flatten().filter(|field| matches!(field, Field::Bare(_)))
}

#[cfg(test)]
mod tests;
