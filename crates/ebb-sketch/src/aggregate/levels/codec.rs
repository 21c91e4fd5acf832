//! Bytes of replicated levels.

use std::collections::BTreeMap;

use super::store::{Level, Store, key};
use super::{Body, Levels};
use crate::aggregate::content::codec::{not_negative, read_clock, read_span, write_clock};
use crate::aggregate::content::{Held, Observation, TimelineShape};
use crate::aggregate::qdigest::FillTree;
use crate::aggregate::qdigest::tree::{Forest, POSITION_BITS};
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"lvls";
const VERSION: u16 = 1;

impl Levels {
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new(KIND, VERSION);
        self.shape.write(&mut w);
        write_clock(&mut w, self.span_ms.map(|(oldest, _)| oldest));
        write_clock(&mut w, self.span_ms.map(|(_, newest)| newest));
        write_clock(&mut w, self.expired_at_ms);
        match &self.body {
            Body::Totals(store) => store.write(&self.shape, &mut w),
            Body::Cells(store) => store.write(&self.shape, &mut w),
        }
        w.seal()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut r = Reader::open(KIND, VERSION, bytes)?;
        let mut levels = Self::new(TimelineShape::read(2.0, &mut r)?);
        levels.span_ms = read_span(&mut r)?;
        levels.expired_at_ms = read_clock(&mut r)?;
        match &mut levels.body {
            Body::Totals(store) => *store = Store::read(&levels.shape, &mut r)?,
            Body::Cells(store) => *store = Store::read(&levels.shape, &mut r)?,
        }
        r.finish()?;
        Ok(levels)
    }
}

/// Levels double what a range holds, so no weight needs more of them.
const LEVELS_MOST: usize = 128;

impl<M: Held> Store<M> {
    fn write(&self, shape: &TimelineShape, w: &mut Writer) {
        w.f64(self.late);
        w.varint(self.raw.len() as u64);
        for (&(time_ms, weight, value, label), times) in &self.raw {
            Observation { time_ms, value, label, weight: f64::from_bits(weight) }.write(shape.content, w);
            w.varint(u64::from(*times));
        }
        write_clock(w, self.raw_floor_ms);
        w.varint(self.levels.len() as u64);
        for level in &self.levels {
            write_clock(w, level.floor_ms);
            level.tree.forest().write(w, M::write);
        }
    }

    fn read(shape: &TimelineShape, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        let late = not_negative("late weight", r.f64()?)?;
        let (mut raw, mut raw_len) = (BTreeMap::new(), 0);
        for _ in 0..r.count(4)? {
            let one = key(&Observation::read(shape.content, r)?);
            let times = u32::try_from(r.varint()?).ok().filter(|times| *times > 0);
            let times = times.ok_or_else(|| CodecError::invalid("observation", "its number"))?;
            if raw.last_key_value().is_some_and(|(last, _)| *last >= one) {
                return Err(CodecError::invalid("observation", "not in order"));
            }
            raw.insert(one, times);
            raw_len += times as usize;
        }
        let raw_floor_ms = read_clock(r)?;
        let count = r.count(2)?;
        if !(1..=LEVELS_MOST).contains(&count) {
            return Err(CodecError::invalid("levels", "none or too many"));
        }
        let mut levels = Vec::with_capacity(count);
        for place in 0..count {
            let floor_ms = read_clock(r)?;
            let forest = Forest::read(shape.height(), 1 << POSITION_BITS, r, |r| M::read(shape.content, r))?;
            levels.push(Level { floor_ms, tree: FillTree::from_forest(forest, shape.gamma(place as u32 + 1)) });
        }
        Ok(Self { raw, raw_len, raw_floor_ms, levels, late })
    }
}
