//! Filters of their own for the heaviest keys, so that a flood on one key cannot fill the filter that the others share.
//!
//! A key whose share of the events is at least 1 / (filters + 1) gets a filter of its own, if one is free. Items recorded
//! before stay in the shared filter; both filters are asked until those items have expired. When no filter is free and a
//! much heavier key appears, the lightest isolated key is evicted: it uses the shared filter again, and its own filter is
//! asked until its items have expired, then freed. So a remembered item never becomes unknown by a move (I1). Which key
//! has a filter depends on the log alone.

use std::collections::{BTreeMap, BTreeSet};

use super::filter::write_timing;
use ebb_sketch::codec::{CodecError, Kind, Reader, Writer};
use ebb_sketch::filter::inference::{Answer, InferentialFilter, PriorSpec, Question, Seen};
use ebb_sketch::filter::structure::timing::{ClockSpec, TimingSpec};
use ebb_sketch::hash::Fingerprint;

const KIND: Kind = *b"isol";
const VERSION: u16 = 1;

/// A key is not heavy if its events could fill less than this fraction of the shared filter.
const MIN_HEAVY_FRACTION: u64 = 256;
/// A key evicts another if it is this many times heavier.
const EVICTION_RATIO: u64 = 4;
/// Number of keys whose weights are tracked, per filter.
const TRACKED_KEYS_PER_FILTER: usize = 16;

/// Number and shape of the filters for single keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IsolationSpec {
    /// Maximum number of keys with a filter of their own.
    pub filters: u32,
    /// The shape of each filter. Its window must be in time, so that the items of an evicted key expire by themselves.
    pub filter: TimingSpec,
    /// Source of the prior of each filter.
    pub prior: PriorSpec,
    /// Whether the window is measured from the first or the last sighting of an item.
    pub seen: Seen,
    /// The shape of the filter that all other keys share.
    pub shared: TimingSpec,
}

impl IsolationSpec {
    pub(super) fn write_identity(&self, writer: &mut Writer) {
        writer.u32(self.filters);
        write_timing(&self.filter, writer);
    }

    /// Whether `weight` events of one key, among `total` of all, are too many for the shared filter.
    fn is_heavy(&self, weight: u64, total: u64) -> bool {
        let min = (self.shared.cells() / u64::from(self.shared.cells_per_item()) / MIN_HEAVY_FRACTION).max(16);
        weight >= min && weight.saturating_mul(u64::from(self.filters) + 1) >= total
    }

    fn retention_ms(&self) -> u64 {
        match self.filter.clock() {
            ClockSpec::Time { window_ms, lateness_ms, tick_ms } => window_ms + lateness_ms + tick_ms,
            ClockSpec::Count { .. } => 0,
        }
    }
}

/// The filter of one key.
#[derive(Debug, Clone)]
struct IsolatedFilter {
    filter: Box<InferentialFilter>,
    /// When the key got the filter; older items are in the shared filter.
    since_ms: i64,
    /// When the key was evicted; newer items are in the shared filter.
    evicted_ms: Option<i64>,
}

/// The filters of single keys and the table that selects the keys.
#[derive(Debug, Clone)]
pub(super) struct Isolation {
    spec: IsolationSpec,
    clock_ms: i64,
    filters: BTreeMap<Fingerprint, IsolatedFilter>,
    /// Decayed number of events by key (SpaceSaving: a bounded table in which a new key replaces the lightest).
    weights: BTreeMap<Fingerprint, u64>,
    /// The same, lightest first.
    by_weight: BTreeSet<(u64, Fingerprint)>,
    /// Decayed number of events of all keys.
    total: u64,
    /// The tick at which weights were last halved.
    halved_tick: i64,
}

impl Isolation {
    pub(super) fn new(spec: IsolationSpec) -> Self {
        Self {
            spec,
            clock_ms: i64::MIN,
            filters: BTreeMap::new(),
            weights: BTreeMap::new(),
            by_weight: BTreeSet::new(),
            total: 0,
            halved_tick: i64::MIN,
        }
    }

    pub(super) fn active_keys(&self) -> usize {
        self.filters.values().filter(|isolated| isolated.evicted_ms.is_none()).count()
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.filters.values().map(|isolated| isolated.filter.filter().memory_bytes()).sum()
    }

    /// Advances the clock; at every tick, halves the weights and frees the filters of evicted keys that have expired.
    pub(super) fn advance(&mut self, clock_ms: i64) {
        self.clock_ms = clock_ms;
        let tick = clock_ms.div_euclid(i64::try_from(self.spec.filter.clock().block()).unwrap_or(i64::MAX).max(1));
        if tick == self.halved_tick {
            return;
        }
        let halvings = tick.saturating_sub(self.halved_tick).clamp(0, 63) as u32;
        self.halved_tick = tick;
        self.total >>= halvings;
        self.weights.retain(|_, weight| {
            *weight >>= halvings;
            *weight > 0
        });
        self.by_weight = self.weights.iter().map(|(key, weight)| (*weight, *key)).collect();
        self.filters.values_mut().for_each(|isolated| isolated.filter.advance(clock_ms));
        let retention_ms = self.spec.retention_ms();
        self.filters.retain(|_, isolated| {
            isolated.evicted_ms.is_none_or(|evicted| !has_passed(evicted, retention_ms, clock_ms))
        });
    }

    pub(super) fn contains(&self, key: Fingerprint) -> bool {
        self.filters.contains_key(&key)
    }

    /// Moves the filter and the weight of the key `previous` to `key`, its fingerprint under the current hash key.
    pub(super) fn rename(&mut self, previous: Fingerprint, key: Fingerprint) {
        if !self.filters.contains_key(&key)
            && let Some(isolated) = self.filters.remove(&previous)
        {
            self.filters.insert(key, isolated);
        }
        if !self.weights.contains_key(&key)
            && let Some(weight) = self.weights.remove(&previous)
        {
            self.by_weight.remove(&(weight, previous));
            self.by_weight.insert((weight, key));
            self.weights.insert(key, weight);
        }
    }

    /// The filter that records the key's items.
    pub(super) fn filter_of<'a>(&'a self, key: Fingerprint, shared: &'a InferentialFilter) -> &'a InferentialFilter {
        match self.filters.get(&key) {
            Some(isolated) if isolated.evicted_ms.is_none() => &isolated.filter,
            _ => shared,
        }
    }

    /// The other filter that may still remember items of the key.
    fn other_filter_of<'a>(&'a self, key: Fingerprint, shared: &'a InferentialFilter) -> Option<&'a InferentialFilter> {
        let isolated = self.filters.get(&key)?;
        match isolated.evicted_ms {
            Some(_) => Some(&isolated.filter),
            None if has_passed(isolated.since_ms, self.spec.retention_ms(), self.clock_ms) => None,
            None => Some(shared),
        }
    }

    pub(super) fn ask(&self, key: Fingerprint, question: &Question, shared: &InferentialFilter) -> Answer {
        let answer = self.filter_of(key, shared).ask(question);
        match self.other_filter_of(key, shared).map(|filter| filter.ask(question)) {
            Some(other) if other.duplicate && !answer.duplicate => other,
            _ => answer,
        }
    }

    /// Decides and records; `None` when the event is too old to be recorded.
    pub(super) fn observe(
        &mut self,
        key: Fingerprint,
        question: &Question,
        shared: &mut InferentialFilter,
    ) -> Option<Answer> {
        self.count_event(key);
        if let Some(isolated) = self.filters.get_mut(&key) {
            isolated.filter.advance(self.clock_ms);
        }
        let other =
            self.other_filter_of(key, shared).map(|filter| filter.ask(question)).filter(|other| other.duplicate);
        if let Some(other) = other
            && self.spec.seen == Seen::First
        {
            return Some(other);
        }
        let answer = match self.filters.get_mut(&key) {
            Some(isolated) if isolated.evicted_ms.is_none() => isolated.filter.observe(question),
            _ => shared.observe(question),
        };
        other.or(answer)
    }

    /// Counts one event of the key, and gives the key a filter when it is heavy. Counts events rather than new items,
    /// because in a full filter hardly any item is new.
    pub(super) fn count_event(&mut self, key: Fingerprint) {
        let capacity = self.spec.filters as usize * TRACKED_KEYS_PER_FILTER;
        let known = self.weights.get(&key).copied();
        let before = match known {
            Some(weight) => weight,
            None if self.weights.len() < capacity => 0,
            // SpaceSaving: the new key replaces the lightest and inherits its weight.
            None => self.by_weight.first().copied().map_or(0, |(weight, lightest)| {
                self.by_weight.remove(&(weight, lightest));
                self.weights.remove(&lightest);
                weight
            }),
        };
        let weight = before + 1;
        self.total += 1;
        self.by_weight.remove(&(before, key));
        self.by_weight.insert((weight, key));
        self.weights.insert(key, weight);
        if self.spec.is_heavy(weight, self.total) && !self.filters.contains_key(&key) {
            self.isolate(key, weight);
        }
    }

    /// Gives the key a filter, or evicts a much lighter key so that its filter becomes free.
    fn isolate(&mut self, key: Fingerprint, weight: u64) {
        if self.filters.len() < self.spec.filters as usize {
            // If the filter cannot be created, the key keeps using the shared one.
            if let Ok(filter) = InferentialFilter::new(self.spec.filter, self.spec.seen, self.spec.prior) {
                let mut filter = Box::new(filter);
                filter.advance(self.clock_ms);
                self.filters.insert(key, IsolatedFilter { filter, since_ms: self.clock_ms, evicted_ms: None });
            }
            return;
        }
        let weight_of = |key: &Fingerprint| self.weights.get(key).copied().unwrap_or(0);
        let active = self.filters.iter().filter(|(_, isolated)| isolated.evicted_ms.is_none()).map(|(key, _)| *key);
        let Some(lightest) = active.min_by_key(|key| (weight_of(key), *key)) else { return };
        let eviction_pending = self.filters.values().any(|isolated| isolated.evicted_ms.is_some());
        if !eviction_pending && weight >= weight_of(&lightest).saturating_mul(EVICTION_RATIO) {
            let evicted_ms = Some(self.clock_ms);
            self.filters.entry(lightest).and_modify(|isolated| isolated.evicted_ms = evicted_ms);
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        writer.i64(self.clock_ms);
        writer.i64(self.halved_tick);
        writer.varint(self.total);
        writer.varint(self.weights.len() as u64);
        for (key, weight) in &self.weights {
            writer.u128(key.0);
            writer.varint(*weight);
        }
        writer.varint(self.filters.len() as u64);
        for (key, isolated) in &self.filters {
            writer.u128(key.0);
            writer.i64(isolated.since_ms);
            writer.u8(u8::from(isolated.evicted_ms.is_some()));
            writer.i64(isolated.evicted_ms.unwrap_or(0));
            writer.bytes(&isolated.filter.encode());
        }
        writer.seal()
    }

    pub(super) fn decode(spec: IsolationSpec, bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        let mut isolation = Self::new(spec);
        isolation.clock_ms = reader.i64()?;
        isolation.halved_tick = reader.i64()?;
        isolation.total = reader.varint()?;
        for _ in 0..reader.count(17)? {
            let key = Fingerprint(reader.u128()?);
            isolation.weights.insert(key, reader.varint()?);
        }
        isolation.by_weight = isolation.weights.iter().map(|(key, weight)| (*weight, *key)).collect();
        for _ in 0..reader.count(34)? {
            let key = Fingerprint(reader.u128()?);
            let since_ms = reader.i64()?;
            let evicted_ms = match (reader.u8()?, reader.i64()?) {
                (0, 0) => None,
                (1, evicted) => Some(evicted),
                _ => return Err(CodecError::invalid("isolation", "the eviction flag is neither 0 nor 1")),
            };
            let filter = InferentialFilter::decode(spec.filter, spec.seen, spec.prior, reader.bytes()?)?;
            isolation.filters.insert(key, IsolatedFilter { filter: Box::new(filter), since_ms, evicted_ms });
        }
        if isolation.filters.len() > spec.filters as usize {
            return Err(CodecError::invalid("isolation", "more filters than configured"));
        }
        reader.finish()?;
        Ok(isolation)
    }
}

fn has_passed(from_ms: i64, span_ms: u64, now_ms: i64) -> bool {
    now_ms.saturating_sub_unsigned(span_ms) > from_ms
}
