//! Aggregates of single keys, in a table that does not grow.
//!
//! A key waits with its first event and gets a sketch with its second, so that keys seen once cost next to nothing. When
//! all places are taken, the key whose newest event is oldest leaves: its sketch is merged into `other`. Methods that do
//! not merge give up a key only when all of it is past the horizon; until then newcomers go to `other`. So every event is
//! in exactly one of: a key's sketch, a waiting place, `other`, or the past (K1), and who leaves depends on the log alone.
//!
//! What a key had before it got (back) its place may be in `other`; the table does not remember whose. Therefore a key
//! notes how new the newest of `other` was when it came, and questions that reach back to there are called incomplete.

use std::collections::{BTreeMap, BTreeSet};

use super::observed::{Observed, Refusal};
use super::sketch::Sketch;
use super::spec::AggregateSpec;
use ebb_sketch::codec::{CodecError, Reader, Writer};
use ebb_sketch::hash::Fingerprint;

/// Keys that may wait for their second event.
const WAITING: std::ops::RangeInclusive<usize> = 64..=4096;

/// A key with a sketch of its own.
#[derive(Debug, Clone)]
struct Own {
    sketch: Sketch,
    newest_ms: i64,
    events: u64,
    /// Up to here some of its events may be in `other`.
    missed_ms: Option<i64>,
}

/// A key seen once.
#[derive(Debug, Clone)]
struct Waiting {
    first: Observed,
    arrival: u64,
    missed_ms: Option<i64>,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    places: usize,
    own: BTreeMap<Fingerprint, Own>,
    /// The same, coldest first.
    coldest: BTreeSet<(i64, Fingerprint)>,
    waiting: BTreeMap<Fingerprint, Waiting>,
    /// The same, from the first that came.
    arrivals: BTreeMap<u64, Fingerprint>,
    other: Sketch,
    other_newest_ms: Option<i64>,
    other_events: u64,
    evictions: u64,
}

/// A key's sketch, and up to when events of it may be missing there.
pub(super) struct Found {
    pub sketch: Sketch,
    pub missed_ms: Option<i64>,
}

/// The table in figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyCounts {
    /// Keys with a sketch of their own.
    pub keys: u64,
    /// Keys seen once.
    pub waiting: u64,
    /// Keys that left.
    pub evictions: u64,
    /// Events that were folded into `other`.
    pub other_events: u64,
}

impl Keys {
    pub fn new(spec: &AggregateSpec, places: u32) -> Self {
        Self {
            places: places as usize,
            own: BTreeMap::new(),
            coldest: BTreeSet::new(),
            waiting: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            other: spec.sketch(),
            other_newest_ms: None,
            other_events: 0,
            evictions: 0,
        }
    }

    pub fn counts(&self) -> KeyCounts {
        KeyCounts {
            keys: self.own.len() as u64,
            waiting: self.waiting.len() as u64,
            evictions: self.evictions,
            other_events: self.other_events,
        }
    }

    /// Takes an event that the aggregate has taken.
    pub fn insert(
        &mut self,
        spec: &AggregateSpec,
        key: Option<Fingerprint>,
        observed: &Observed,
        clock_ms: i64,
    ) -> Result<(), Refusal> {
        let Some(key) = key else { return self.fold_into_other(spec, observed) };
        if let Some(own) = self.own.get_mut(&key) {
            spec.insert(&mut own.sketch, observed)?;
            own.events += 1;
            if observed.time_ms > own.newest_ms {
                self.coldest.remove(&(own.newest_ms, key));
                own.newest_ms = observed.time_ms;
                self.coldest.insert((own.newest_ms, key));
            }
            return Ok(());
        }
        match self.waiting.remove(&key) {
            None => self.wait(spec, key, observed),
            Some(waiting) => {
                self.arrivals.remove(&waiting.arrival);
                self.admit(spec, key, [&waiting.first, observed], waiting.missed_ms, clock_ms)
            }
        }
    }

    /// Everything of the key `former` is from now on of `key`, which is the same under another hash key.
    pub fn rename(&mut self, former: Fingerprint, key: Fingerprint) {
        if self.own.contains_key(&key) || self.waiting.contains_key(&key) {
            return;
        }
        if let Some(own) = self.own.remove(&former) {
            self.coldest.remove(&(own.newest_ms, former));
            self.coldest.insert((own.newest_ms, key));
            self.own.insert(key, own);
        }
        if let Some(waiting) = self.waiting.remove(&former) {
            self.arrivals.insert(waiting.arrival, key);
            self.waiting.insert(key, waiting);
        }
    }

    fn wait(&mut self, spec: &AggregateSpec, key: Fingerprint, observed: &Observed) -> Result<(), Refusal> {
        if self.waiting.len() >= self.places.clamp(*WAITING.start(), *WAITING.end())
            && let Some((_, first)) = self.arrivals.pop_first()
            && let Some(gone) = self.waiting.remove(&first)
        {
            self.fold_into_other(spec, &gone.first)?;
        }
        let arrival = self.arrivals.last_key_value().map_or(0, |(last, _)| last + 1);
        self.arrivals.insert(arrival, key);
        self.waiting.insert(key, Waiting { first: *observed, arrival, missed_ms: self.other_newest_ms });
        Ok(())
    }

    fn admit(
        &mut self,
        spec: &AggregateSpec,
        key: Fingerprint,
        events: [&Observed; 2],
        missed_ms: Option<i64>,
        clock_ms: i64,
    ) -> Result<(), Refusal> {
        if self.own.len() >= self.places && !self.make_room(spec, clock_ms) {
            return events.into_iter().try_for_each(|observed| self.fold_into_other(spec, observed));
        }
        let mut sketch = spec.sketch();
        for observed in events {
            spec.insert(&mut sketch, observed)?;
        }
        let newest_ms = events[0].time_ms.max(events[1].time_ms);
        self.coldest.insert((newest_ms, key));
        self.own.insert(key, Own { sketch, newest_ms, events: 2, missed_ms });
        Ok(())
    }

    /// Lets the coldest key go, if that loses nothing.
    fn make_room(&mut self, spec: &AggregateSpec, clock_ms: i64) -> bool {
        let Some((newest_ms, key)) = self.coldest.first().copied() else { return false };
        let (method, horizon_ms) = (spec.parameters().method, spec.parameters().horizon_ms);
        let is_past = clock_ms.saturating_sub_unsigned(horizon_ms) >= newest_ms;
        if !(method.merges() || is_past) {
            return false;
        }
        self.coldest.pop_first();
        self.evictions += 1;
        if let Some(gone) = self.own.remove(&key)
            && method.merges()
        {
            self.other_events += gone.events;
            self.other_newest_ms = self.other_newest_ms.max(Some(newest_ms)).max(gone.missed_ms);
            let merged = self.other.merge(gone.sketch);
            debug_assert!(matches!(merged, Ok(None)), "sketches of one specification merge");
        }
        true
    }

    fn fold_into_other(&mut self, spec: &AggregateSpec, observed: &Observed) -> Result<(), Refusal> {
        // What waited may have become too old meanwhile: then it is past, and nothing is missing.
        match spec.insert(&mut self.other, observed) {
            Err(Refusal::Late) => return Ok(()),
            done => done?,
        }
        self.other_events += 1;
        self.other_newest_ms = self.other_newest_ms.max(Some(observed.time_ms));
        Ok(())
    }

    /// What there is of one key.
    pub fn find(&self, spec: &AggregateSpec, key: Fingerprint) -> Option<Found> {
        if let Some(own) = self.own.get(&key) {
            return Some(Found { sketch: own.sketch.clone(), missed_ms: own.missed_ms });
        }
        let waiting = self.waiting.get(&key)?;
        let mut sketch = spec.sketch();
        spec.insert(&mut sketch, &waiting.first).ok()?;
        Some(Found { sketch, missed_ms: waiting.missed_ms })
    }

    /// Everything that is neither of a key with a place nor waiting.
    pub fn other(&self) -> &Sketch {
        &self.other
    }

    pub fn sketches(&self) -> impl Iterator<Item = &Sketch> {
        self.own.values().map(|own| &own.sketch).chain([&self.other])
    }

    pub fn sketches_mut(&mut self) -> impl Iterator<Item = &mut Sketch> {
        self.own.values_mut().map(|own| &mut own.sketch).chain([&mut self.other])
    }

    pub fn waiting_labels(&self) -> impl Iterator<Item = u128> {
        self.waiting.values().map(|waiting| waiting.first.label)
    }

    pub fn write(&self, writer: &mut Writer) {
        writer.u64(self.other_events);
        writer.u64(self.evictions);
        write_time(writer, self.other_newest_ms);
        self.other.write(writer);
        writer.varint(self.arrivals.len() as u64);
        // In the order of arrival: the numbers themselves mean nothing.
        for key in self.arrivals.values() {
            let waiting = &self.waiting[key];
            writer.u128(key.0);
            waiting.first.write(writer);
            write_time(writer, waiting.missed_ms);
        }
        writer.varint(self.own.len() as u64);
        for (key, own) in &self.own {
            writer.u128(key.0);
            writer.i64(own.newest_ms);
            writer.u64(own.events);
            write_time(writer, own.missed_ms);
            own.sketch.write(writer);
        }
    }

    pub fn read(spec: &AggregateSpec, places: u32, reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let mut keys = Self::new(spec, places);
        (keys.other_events, keys.evictions) = (reader.u64()?, reader.u64()?);
        keys.other_newest_ms = read_time(reader)?;
        keys.other = spec.read_sketch(reader)?;
        for arrival in 0..reader.count(16 + Observed::BYTES + 9)? as u64 {
            let key = Fingerprint(reader.u128()?);
            let waiting = Waiting { first: Observed::read(reader)?, arrival, missed_ms: read_time(reader)? };
            if keys.waiting.insert(key, waiting).is_some() {
                return Err(CodecError::invalid("keys", "one waits twice"));
            }
            keys.arrivals.insert(arrival, key);
        }
        for _ in 0..reader.count(16 + 8 + 8 + 9)? {
            let key = Fingerprint(reader.u128()?);
            let (newest_ms, events, missed_ms) = (reader.i64()?, reader.u64()?, read_time(reader)?);
            let own = Own { sketch: spec.read_sketch(reader)?, newest_ms, events, missed_ms };
            if keys.own.last_key_value().is_some_and(|(last, _)| *last >= key) || keys.waiting.contains_key(&key) {
                return Err(CodecError::invalid("keys", "out of order, or in two places"));
            }
            keys.coldest.insert((newest_ms, key));
            keys.own.insert(key, own);
        }
        if keys.own.len() > keys.places || keys.waiting.len() > *WAITING.end() {
            return Err(CodecError::invalid("keys", "more than there may be"));
        }
        Ok(keys)
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
        _ => Err(CodecError::invalid("time", "neither absent nor present")),
    }
}
