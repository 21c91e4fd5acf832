//! State bytes of replicated levels.

use std::collections::BTreeMap;

use super::store::{ReplicatedLevel, ReplicatedStore, raw_key, raw_observation};
use super::{LevelsSketch, RANGES};
use crate::aggregate::codec::{not_negative, read_clock, write_clock};
use crate::aggregate::observation::Observation;
use crate::aggregate::paper::fill_tree::FillTree;
use crate::aggregate::qdigest::tree::{Forest, POSITION_BITS};
use crate::aggregate::summary::RangeSummary;
use crate::aggregate::timeline::{Timeline, TimelineShape};
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"lvls";
const VERSION: u16 = 1;

/// Each level doubles the capacity of a range, so no weight needs more.
const MAX_LEVELS: usize = 128;

impl LevelsSketch {
    /// Canonical, checksummed state bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new(KIND, VERSION);
        self.timeline.write_head(&mut w);
        write_clock(&mut w, self.expired_at_ms);
        self.timeline.write_store(&mut w);
        w.seal()
    }

    /// Restores a sketch that continues exactly like the encoded one.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut r = Reader::open(KIND, VERSION, bytes)?;
        let mut timeline = Timeline::read_head(RANGES, &mut r)?;
        let expired_at_ms = read_clock(&mut r)?;
        timeline.read_store(&mut r)?;
        r.finish()?;
        Ok(Self { timeline, expired_at_ms })
    }
}

impl<M: RangeSummary> ReplicatedStore<M> {
    pub(super) fn write_fields(&self, shape: &TimelineShape, w: &mut Writer) {
        w.f64(self.late);
        w.varint(self.raw.len() as u64);
        for (key, times) in &self.raw {
            raw_observation(key).write(shape.summary, w);
            w.varint(u64::from(*times));
        }
        write_clock(w, self.raw_floor_ms);
        w.varint(self.levels.len() as u64);
        for level in &self.levels {
            write_clock(w, level.floor_ms);
            level.tree.forest().write(w, M::write);
        }
    }

    pub(super) fn read_fields(shape: &TimelineShape, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        let late = not_negative("late weight", r.f64()?)?;
        let (mut raw, mut raw_len) = (BTreeMap::new(), 0);
        for _ in 0..r.count(4)? {
            let key = raw_key(&Observation::read(shape.summary, r)?);
            let times = u32::try_from(r.varint()?).ok().filter(|times| *times > 0);
            let times = times.ok_or_else(|| CodecError::invalid("observation", "invalid multiplicity"))?;
            if raw.last_key_value().is_some_and(|(last, _)| *last >= key) {
                return Err(CodecError::invalid("observation", "out of order"));
            }
            raw.insert(key, times);
            raw_len += times as usize;
        }
        let raw_floor_ms = read_clock(r)?;
        let count = r.count(2)?;
        if !(1..=MAX_LEVELS).contains(&count) {
            return Err(CodecError::invalid("levels", "none or too many"));
        }
        let mut levels = Vec::with_capacity(count);
        for index in 0..count {
            let floor_ms = read_clock(r)?;
            let forest = Forest::read(shape.height(), 1 << POSITION_BITS, r, |r| M::read(shape.summary, r))?;
            let tree = FillTree::from_forest(forest, shape.range_capacity(index as u32 + 1));
            levels.push(ReplicatedLevel { floor_ms, tree });
        }
        Ok(Self { raw, raw_len, raw_floor_ms, levels, late })
    }
}
