//! Filters for the heaviest keys, so that a flood of items on one key cannot fill the memory of the others.
//!
//! A key that sends more than its share (one part of as many as there are filters) moves into a filter of its own, if
//! one is free. Nothing is
//! forgotten by moving: for as long as the memory reaches back, both filters are asked. When all filters are taken and a
//! much heavier key comes, the lightest moves out the same way, and its filter is free once its memory has run out (I1:
//! moving never makes a remembered item unknown). Which key is where depends on the log alone.

use std::collections::{BTreeMap, BTreeSet};

use super::filter::write_timing;
use ebb_sketch::codec::{CodecError, Kind, Reader, Writer};
use ebb_sketch::filter::inference::{Answer, InferentialFilter, PriorSpec, Question, Seen};
use ebb_sketch::filter::timing::{Drive, TimingSpec};
use ebb_sketch::hash::Fingerprint;

const KIND: Kind = *b"isol";
const VERSION: u16 = 1;

/// No key is heavy whose events could fill less than this part of the common filter.
const HEAVY_PART: u64 = 256;
/// A key moves another out when it is so many times heavier.
const HEAVIER: u64 = 4;
/// Keys whose weight is watched, for each filter that can be given away.
const WATCHED: usize = 16;

/// How many filters, and of what shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IsolationSpec {
    pub filters: u32,
    /// Driven by time: the memory of a key that is moved must run out by itself.
    pub filter: TimingSpec,
    pub prior: PriorSpec,
    pub seen: Seen,
    /// Cells of the common filter, and how many an item has there.
    pub common: TimingSpec,
}

impl IsolationSpec {
    pub(super) fn write_identity(&self, writer: &mut Writer) {
        writer.u32(self.filters);
        write_timing(&self.filter, writer);
    }

    /// Whether `weight` events of one key, among `total` of all, are too many for the common filter.
    fn is_heavy(&self, weight: u64, total: u64) -> bool {
        let least = (self.common.cells() / u64::from(self.common.cells_per_item()) / HEAVY_PART).max(16);
        weight >= least && weight.saturating_mul(u64::from(self.filters) + 1) >= total
    }

    fn memory_ms(&self) -> u64 {
        match self.filter.drive() {
            Drive::Time { window_ms, lateness_ms, tick_ms } => window_ms + lateness_ms + tick_ms,
            Drive::Count { .. } => 0,
        }
    }
}

/// A filter given to a key.
#[derive(Debug, Clone)]
struct Own {
    filter: Box<InferentialFilter>,
    /// When the key moved in: before, its items went to the common filter.
    since_ms: i64,
    /// When the key moved out: since then, its items go to the common filter again.
    left_ms: Option<i64>,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Isolation {
    spec: IsolationSpec,
    clock_ms: i64,
    own: BTreeMap<Fingerprint, Own>,
    /// Events of keys lately: a bounded table in which the lightest is replaced (SpaceSaving).
    weights: BTreeMap<Fingerprint, u64>,
    /// The same, lightest first.
    by_weight: BTreeSet<(u64, Fingerprint)>,
    /// Events of all keys lately.
    total: u64,
    /// The tick at which weights were last halved.
    halved_tick: i64,
}

impl Isolation {
    pub(super) fn new(spec: IsolationSpec) -> Self {
        Self {
            spec,
            clock_ms: i64::MIN,
            own: BTreeMap::new(),
            weights: BTreeMap::new(),
            by_weight: BTreeSet::new(),
            total: 0,
            halved_tick: i64::MIN,
        }
    }

    pub(super) fn active(&self) -> usize {
        self.own.values().filter(|own| own.left_ms.is_none()).count()
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.own.values().map(|own| own.filter.filter().memory_bytes()).sum()
    }

    /// Moves the clock, frees filters whose memory has run out, and lets weights fade: halved at every tick.
    pub(super) fn advance(&mut self, clock_ms: i64) {
        self.clock_ms = clock_ms;
        let tick = clock_ms.div_euclid(i64::try_from(self.spec.filter.drive().block()).unwrap_or(i64::MAX).max(1));
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
        self.own.values_mut().for_each(|own| own.filter.advance(clock_ms));
        let memory_ms = self.spec.memory_ms();
        self.own.retain(|_, own| own.left_ms.is_none_or(|left| !has_passed(left, memory_ms, clock_ms)));
    }

    pub(super) fn knows(&self, key: Fingerprint) -> bool {
        self.own.contains_key(&key)
    }

    /// Everything of the key `former` is from now on of `key`, which is the same under another hash key.
    pub(super) fn rename(&mut self, former: Fingerprint, key: Fingerprint) {
        if !self.own.contains_key(&key)
            && let Some(own) = self.own.remove(&former)
        {
            self.own.insert(key, own);
        }
        if !self.weights.contains_key(&key)
            && let Some(weight) = self.weights.remove(&former)
        {
            self.by_weight.remove(&(weight, former));
            self.by_weight.insert((weight, key));
            self.weights.insert(key, weight);
        }
    }

    /// The filter that a key's next item goes to.
    pub(super) fn home<'a>(&'a self, key: Fingerprint, common: &'a InferentialFilter) -> &'a InferentialFilter {
        match self.own.get(&key) {
            Some(own) if own.left_ms.is_none() => &own.filter,
            _ => common,
        }
    }

    /// The other filter in which the key may still be remembered.
    fn elsewhere<'a>(&'a self, key: Fingerprint, common: &'a InferentialFilter) -> Option<&'a InferentialFilter> {
        let own = self.own.get(&key)?;
        match own.left_ms {
            Some(_) => Some(&own.filter),
            None if has_passed(own.since_ms, self.spec.memory_ms(), self.clock_ms) => None,
            None => Some(common),
        }
    }

    pub(super) fn ask(&self, key: Fingerprint, question: &Question, common: &InferentialFilter) -> Answer {
        let answer = self.home(key, common).ask(question);
        match self.elsewhere(key, common).map(|filter| filter.ask(question)) {
            Some(other) if other.duplicate && !answer.duplicate => other,
            _ => answer,
        }
    }

    /// Decides and remembers; `None` when the event is older than any memory.
    pub(super) fn observe(
        &mut self,
        key: Fingerprint,
        question: &Question,
        common: &mut InferentialFilter,
    ) -> Option<Answer> {
        self.weigh(key);
        if let Some(own) = self.own.get_mut(&key) {
            own.filter.advance(self.clock_ms);
        }
        let other = self.elsewhere(key, common).map(|filter| filter.ask(question)).filter(|other| other.duplicate);
        if let Some(other) = other
            && self.spec.seen == Seen::First
        {
            return Some(other);
        }
        let answer = match self.own.get_mut(&key) {
            Some(own) if own.left_ms.is_none() => own.filter.observe(question),
            _ => common.observe(question),
        };
        other.or(answer)
    }

    /// Counts an event of the key whose answer came from elsewhere.
    pub(super) fn pass(&mut self, key: Fingerprint) {
        self.weigh(key);
    }

    /// Counts one event of the key, and gives it a filter when it is heavy. Events and not new items: in a filter that is
    /// full hardly any item is new.
    fn weigh(&mut self, key: Fingerprint) {
        let room = self.spec.filters as usize * WATCHED;
        let known = self.weights.get(&key).copied();
        let before = match known {
            Some(weight) => weight,
            None if self.weights.len() < room => 0,
            // SpaceSaving: the newcomer takes the lightest's place and its weight.
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
        if self.spec.is_heavy(weight, self.total) && !self.own.contains_key(&key) {
            self.admit(key, weight);
        }
    }

    fn admit(&mut self, key: Fingerprint, weight: u64) {
        if self.own.len() < self.spec.filters as usize {
            // A filter that cannot be made now is made at the next item: the key stays where it is.
            if let Ok(filter) = InferentialFilter::new(self.spec.filter, self.spec.seen, self.spec.prior) {
                let mut filter = Box::new(filter);
                filter.advance(self.clock_ms);
                self.own.insert(key, Own { filter, since_ms: self.clock_ms, left_ms: None });
            }
            return;
        }
        let weight_of = |key: &Fingerprint| self.weights.get(key).copied().unwrap_or(0);
        let settled = self.own.iter().filter(|(_, own)| own.left_ms.is_none()).map(|(key, _)| *key);
        let Some(lightest) = settled.min_by_key(|key| (weight_of(key), *key)) else { return };
        let is_leaving = self.own.values().any(|own| own.left_ms.is_some());
        if !is_leaving && weight >= weight_of(&lightest).saturating_mul(HEAVIER) {
            let left_ms = Some(self.clock_ms);
            self.own.entry(lightest).and_modify(|own| own.left_ms = left_ms);
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
        writer.varint(self.own.len() as u64);
        for (key, own) in &self.own {
            writer.u128(key.0);
            writer.i64(own.since_ms);
            writer.u8(u8::from(own.left_ms.is_some()));
            writer.i64(own.left_ms.unwrap_or(0));
            writer.bytes(&own.filter.encode());
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
            let left_ms = match (reader.u8()?, reader.i64()?) {
                (0, 0) => None,
                (1, left) => Some(left),
                _ => return Err(CodecError::invalid("isolation", "a key neither left nor stayed")),
            };
            let filter = InferentialFilter::decode(spec.filter, spec.seen, spec.prior, reader.bytes()?)?;
            isolation.own.insert(key, Own { filter: Box::new(filter), since_ms, left_ms });
        }
        if isolation.own.len() > spec.filters as usize {
            return Err(CodecError::invalid("isolation", "more filters than there may be"));
        }
        reader.finish()?;
        Ok(isolation)
    }
}

fn has_passed(from_ms: i64, span_ms: u64, now_ms: i64) -> bool {
    now_ms.saturating_sub_unsigned(span_ms) > from_ms
}
