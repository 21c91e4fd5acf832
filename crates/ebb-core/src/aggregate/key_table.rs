//! Sketches of single keys, in a table of bounded size.
//!
//! The first event of a key is held as pending; its second event gives it a sketch, so that keys seen once cost almost
//! nothing. When the table is full, the key whose newest event is oldest is evicted and its sketch is merged into `other`.
//! Methods that do not merge evict a key only when all its events are past the horizon; until then new keys are added to
//! `other`. So every event is in exactly one of: a key's sketch, a pending entry, `other`, or the past (K1). Which key is
//! evicted depends on the log alone.
//!
//! Sketches of keys may be coarser than configured, to keep the aggregate's memory budget.
//!
//! Earlier events of a key may be in `other`, and the table cannot tell. Therefore each key remembers the newest event time
//! of `other` when it was admitted, and answers that reach back to that time are marked incomplete.

use std::collections::{BTreeMap, BTreeSet};

use super::input::{AggregateInput, Refusal};
use super::sketch::{Sketch, SketchFormat};
use super::spec::AggregateSpec;
use ebb_sketch::codec::{CodecError, Reader, Writer};
use ebb_sketch::hash::Fingerprint;

/// Bounds of the number of pending keys.
const PENDING_KEYS: std::ops::RangeInclusive<usize> = 64..=4096;

/// A key with a sketch of its own.
#[derive(Debug, Clone)]
struct KeyEntry {
    sketch: Sketch,
    newest_ms: i64,
    events: u64,
    /// Events of the key up to this time may be in `other`.
    missed_ms: Option<i64>,
}

/// A key seen once.
#[derive(Debug, Clone)]
struct PendingKey {
    first: AggregateInput,
    arrival: u64,
    missed_ms: Option<i64>,
}

/// The sketches of single keys, and the sketch of the others.
#[derive(Debug, Clone)]
pub(super) struct KeyTable {
    capacity: usize,
    entries: BTreeMap<Fingerprint, KeyEntry>,
    /// The keys of `entries` by the time of their newest event, oldest first.
    coldest: BTreeSet<(i64, Fingerprint)>,
    pending: BTreeMap<Fingerprint, PendingKey>,
    /// The keys of `pending` in the order of their arrival.
    arrivals: BTreeMap<u64, Fingerprint>,
    other: Sketch,
    other_newest_ms: Option<i64>,
    other_events: u64,
    evictions: u64,
    /// How often the sketches of new keys are halved.
    coarseness: u8,
}

/// The sketch of one scope.
pub(super) struct ScopeSketch {
    pub sketch: Sketch,
    /// Events of the key up to this time may be in `other` instead.
    pub missed_ms: Option<i64>,
}

/// Figures of a table of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyCounts {
    /// Number of keys with a sketch of their own.
    pub keys: u64,
    /// Number of keys seen once.
    pub waiting: u64,
    /// Number of evicted keys.
    pub evictions: u64,
    /// Number of events that were added to `other`.
    pub other_events: u64,
}

impl KeyTable {
    /// Upper bounds of the memory of a key without its sketch, and of a pending key.
    const KEY_BYTES: u64 = 256;
    pub const PENDING_BYTES: u64 = 320;

    pub fn new(spec: &AggregateSpec, capacity: u32) -> Self {
        Self {
            capacity: capacity as usize,
            entries: BTreeMap::new(),
            coldest: BTreeSet::new(),
            pending: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            other: spec.key_sketch(0),
            other_newest_ms: None,
            other_events: 0,
            evictions: 0,
            coarseness: 0,
        }
    }

    /// Upper bound of the memory of the table.
    pub fn memory_bytes(&self) -> u64 {
        let keys = self.entries.values().map(|entry| entry.sketch.memory_bytes() + Self::KEY_BYTES).sum::<u64>();
        keys + self.pending.len() as u64 * Self::PENDING_BYTES + self.other.memory_bytes()
    }

    /// Takes one step towards less memory; false if nothing is left to give up. Coarser samples help only if keys have more
    /// than a few events.
    pub fn degrade(&mut self, spec: &AggregateSpec) -> bool {
        let empty = spec.key_sketch(self.coarseness).memory_bytes() + Self::KEY_BYTES;
        let is_sparse = self.memory_bytes() < 2 * empty * (self.entries.len() as u64 + 1);
        if self.coarseness < spec.max_key_coarseness() && !is_sparse {
            self.coarseness += 1;
            let coarseness = self.coarseness;
            self.sketches_mut().for_each(|sketch| sketch.coarsen(coarseness));
            return true;
        }
        let evictions = self.entries.len().div_ceil(4);
        (0..evictions).for_each(|_| _ = self.evict_coldest(spec, i64::MAX));
        if evictions > 0 {
            return true;
        }
        let coarseness = self.other.coarseness();
        if coarseness < spec.max_coarseness() {
            self.other.coarsen(coarseness + 1);
            return true;
        }
        self.release_pending(spec)
    }

    /// Moves all pending events to `other`.
    fn release_pending(&mut self, spec: &AggregateSpec) -> bool {
        let held = std::mem::take(&mut self.arrivals);
        for key in held.values() {
            if let Some(pending) = self.pending.remove(key) {
                // The sketch of all events has accepted the event.
                _ = self.add_to_other(spec, &pending.first);
            }
        }
        !held.is_empty()
    }

    pub fn counts(&self) -> KeyCounts {
        KeyCounts {
            keys: self.entries.len() as u64,
            waiting: self.pending.len() as u64,
            evictions: self.evictions,
            other_events: self.other_events,
        }
    }

    /// Adds an event that the sketch of all events has accepted; returns the memory that it takes at most.
    pub fn insert(
        &mut self,
        spec: &AggregateSpec,
        key: Option<Fingerprint>,
        input: &AggregateInput,
        clock_ms: i64,
    ) -> Result<u64, Refusal> {
        let Some(key) = key else { return self.add_to_other(spec, input) };
        if let Some(entry) = self.entries.get_mut(&key) {
            spec.insert(&mut entry.sketch, input)?;
            entry.events += 1;
            if input.time_ms > entry.newest_ms {
                self.coldest.remove(&(entry.newest_ms, key));
                entry.newest_ms = input.time_ms;
                self.coldest.insert((entry.newest_ms, key));
            }
            return Ok(spec.entry_bytes());
        }
        match self.pending.remove(&key) {
            None => self.hold(spec, key, input),
            Some(pending) => {
                self.arrivals.remove(&pending.arrival);
                self.admit(spec, key, [&pending.first, input], pending.missed_ms, clock_ms)
            }
        }
    }

    /// Moves the state of the key `previous` to `key`, its fingerprint under the current hash key.
    pub fn rename(&mut self, previous: Fingerprint, key: Fingerprint) {
        if self.entries.contains_key(&key) || self.pending.contains_key(&key) {
            return;
        }
        if let Some(entry) = self.entries.remove(&previous) {
            self.coldest.remove(&(entry.newest_ms, previous));
            self.coldest.insert((entry.newest_ms, key));
            self.entries.insert(key, entry);
        }
        if let Some(pending) = self.pending.remove(&previous) {
            self.arrivals.insert(pending.arrival, key);
            self.pending.insert(key, pending);
        }
    }

    /// Holds the first event of a key as pending; when there are too many, the oldest goes to `other`.
    fn hold(&mut self, spec: &AggregateSpec, key: Fingerprint, input: &AggregateInput) -> Result<u64, Refusal> {
        let mut added = Self::PENDING_BYTES;
        if self.pending.len() >= self.capacity.clamp(*PENDING_KEYS.start(), *PENDING_KEYS.end())
            && let Some((_, first)) = self.arrivals.pop_first()
            && let Some(oldest) = self.pending.remove(&first)
        {
            added += self.add_to_other(spec, &oldest.first)?;
        }
        let arrival = self.arrivals.last_key_value().map_or(0, |(last, _)| last + 1);
        self.arrivals.insert(arrival, key);
        self.pending.insert(key, PendingKey { first: *input, arrival, missed_ms: self.other_newest_ms });
        Ok(added)
    }

    fn admit(
        &mut self,
        spec: &AggregateSpec,
        key: Fingerprint,
        events: [&AggregateInput; 2],
        missed_ms: Option<i64>,
        clock_ms: i64,
    ) -> Result<u64, Refusal> {
        if self.entries.len() >= self.capacity && !self.evict_coldest(spec, clock_ms) {
            return events.into_iter().map(|input| self.add_to_other(spec, input)).sum();
        }
        let mut sketch = spec.key_sketch(self.coarseness);
        for input in events {
            spec.insert(&mut sketch, input)?;
        }
        let newest_ms = events[0].time_ms.max(events[1].time_ms);
        let added = sketch.memory_bytes() + Self::KEY_BYTES;
        self.coldest.insert((newest_ms, key));
        self.entries.insert(key, KeyEntry { sketch, newest_ms, events: 2, missed_ms });
        Ok(added)
    }

    /// Evicts the coldest key, if no event is lost by it.
    fn evict_coldest(&mut self, spec: &AggregateSpec, clock_ms: i64) -> bool {
        let Some((newest_ms, key)) = self.coldest.first().copied() else { return false };
        let (method, horizon_ms) = (spec.parameters().method, spec.parameters().horizon_ms);
        let is_past = clock_ms.saturating_sub_unsigned(horizon_ms) >= newest_ms;
        if !(method.merges() || is_past) {
            return false;
        }
        self.coldest.pop_first();
        self.evictions += 1;
        if let Some(evicted) = self.entries.remove(&key)
            && method.merges()
        {
            self.other_events += evicted.events;
            self.other_newest_ms = self.other_newest_ms.max(Some(newest_ms)).max(evicted.missed_ms);
            let merged = self.other.merge(evicted.sketch);
            debug_assert!(matches!(merged, Ok(None)), "sketches of one specification must merge");
        }
        true
    }

    fn add_to_other(&mut self, spec: &AggregateSpec, input: &AggregateInput) -> Result<u64, Refusal> {
        // A pending event may have expired meanwhile; then nothing is missing.
        match spec.insert(&mut self.other, input) {
            Err(Refusal::Late) => return Ok(0),
            result => result?,
        }
        self.other_events += 1;
        self.other_newest_ms = self.other_newest_ms.max(Some(input.time_ms));
        Ok(spec.entry_bytes())
    }

    /// The sketch of one key, if the table contains it.
    pub fn find(&self, spec: &AggregateSpec, key: Fingerprint) -> Option<ScopeSketch> {
        if let Some(entry) = self.entries.get(&key) {
            return Some(ScopeSketch { sketch: entry.sketch.clone(), missed_ms: entry.missed_ms });
        }
        let pending = self.pending.get(&key)?;
        let mut sketch = spec.key_sketch(self.coarseness);
        spec.insert(&mut sketch, &pending.first).ok()?;
        Some(ScopeSketch { sketch, missed_ms: pending.missed_ms })
    }

    /// How often the sketches of new keys are halved.
    pub fn coarseness(&self) -> u8 {
        self.coarseness
    }

    /// The sketch of all events that are neither in a key's sketch nor pending.
    pub fn other(&self) -> &Sketch {
        &self.other
    }

    pub fn sketches_mut(&mut self) -> impl Iterator<Item = &mut Sketch> {
        self.entries.values_mut().map(|entry| &mut entry.sketch).chain([&mut self.other])
    }

    pub fn pending_labels(&self) -> impl Iterator<Item = u128> {
        self.pending.values().map(|pending| pending.first.label)
    }

    pub fn encode(&self, writer: &mut Writer, format: SketchFormat) {
        writer.u64(self.other_events);
        writer.u64(self.evictions);
        write_time(writer, self.other_newest_ms);
        if format.has_coarseness {
            writer.u8(self.coarseness);
        }
        self.other.write(writer, format);
        writer.varint(self.arrivals.len() as u64);
        // Written in the order of arrival; the arrival numbers themselves are not needed.
        for key in self.arrivals.values() {
            let pending = &self.pending[key];
            writer.u128(key.0);
            pending.first.encode(writer);
            write_time(writer, pending.missed_ms);
        }
        writer.varint(self.entries.len() as u64);
        for (key, entry) in &self.entries {
            writer.u128(key.0);
            writer.i64(entry.newest_ms);
            writer.u64(entry.events);
            write_time(writer, entry.missed_ms);
            entry.sketch.write(writer, format);
        }
    }

    pub fn decode(
        spec: &AggregateSpec,
        capacity: u32,
        reader: &mut Reader<'_>,
        format: SketchFormat,
    ) -> Result<Self, CodecError> {
        let mut table = Self::new(spec, capacity);
        (table.other_events, table.evictions) = (reader.u64()?, reader.u64()?);
        table.other_newest_ms = read_time(reader)?;
        table.coarseness = if format.has_coarseness { reader.u8()? } else { 0 };
        if table.coarseness > spec.max_key_coarseness() {
            return Err(CodecError::invalid("coarseness", "larger than any key of this aggregate has"));
        }
        table.other = spec.read_sketch(reader, format)?;
        for arrival in 0..reader.count(16 + AggregateInput::BYTES + 9)? as u64 {
            let key = Fingerprint(reader.u128()?);
            let pending = PendingKey { first: AggregateInput::decode(reader)?, arrival, missed_ms: read_time(reader)? };
            if table.pending.insert(key, pending).is_some() {
                return Err(CodecError::invalid("keys", "a key is pending twice"));
            }
            table.arrivals.insert(arrival, key);
        }
        for _ in 0..reader.count(16 + 8 + 8 + 9)? {
            let key = Fingerprint(reader.u128()?);
            let (newest_ms, events, missed_ms) = (reader.i64()?, reader.u64()?, read_time(reader)?);
            let entry = KeyEntry { sketch: spec.read_sketch(reader, format)?, newest_ms, events, missed_ms };
            if table.entries.last_key_value().is_some_and(|(last, _)| *last >= key) || table.pending.contains_key(&key)
            {
                return Err(CodecError::invalid("keys", "not in ascending order, or also pending"));
            }
            table.coldest.insert((newest_ms, key));
            table.entries.insert(key, entry);
        }
        if table.entries.len() > table.capacity || table.pending.len() > *PENDING_KEYS.end() {
            return Err(CodecError::invalid("keys", "more than configured"));
        }
        table.sketches_mut().for_each(Sketch::disable_cache);
        Ok(table)
    }
}

fn write_time(writer: &mut Writer, time_ms: Option<i64>) {
    writer.u8(u8::from(time_ms.is_some()));
    writer.i64(time_ms.unwrap_or(0));
}

fn read_time(reader: &mut Reader<'_>) -> Result<Option<i64>, CodecError> {
    match (reader.u8()?, reader.i64()?) {
        (0, 0) => Ok(None),
        (1, time_ms) => Ok(Some(time_ms)),
        _ => Err(CodecError::invalid("time", "the presence flag is neither 0 nor 1")),
    }
}
