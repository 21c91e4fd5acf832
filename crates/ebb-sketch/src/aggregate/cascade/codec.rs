//! State bytes of a cascade, including the raw observations in their order.

use super::store::{CascadeLevel, CascadeStore};
use super::{CascadeSketch, RANGES};
use crate::aggregate::codec::{not_negative, read_clock, write_clock};
use crate::aggregate::observation::Observation;
use crate::aggregate::qdigest::tree::{Forest, POSITION_BITS};
use crate::aggregate::summary::RangeSummary;
use crate::aggregate::timeline::{Timeline, TimelineShape};
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"casc";
const VERSION: u16 = 1;

/// Each level doubles the capacity of a range, so no weight needs more.
const MAX_LEVELS: usize = 128;

impl CascadeSketch {
    /// Canonical, checksummed state bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new(KIND, VERSION);
        self.timeline.write_head(&mut w);
        self.timeline.write_store(&mut w);
        w.seal()
    }

    /// Restores a sketch that continues exactly like the encoded one.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut r = Reader::open(KIND, VERSION, bytes)?;
        let mut timeline = Timeline::read_head(RANGES, &mut r)?;
        timeline.read_store(&mut r)?;
        r.finish()?;
        Ok(Self { timeline })
    }
}

impl<M: RangeSummary> CascadeStore<M> {
    pub(super) fn write_fields(&self, shape: &TimelineShape, w: &mut Writer) {
        w.f64(self.expired);
        w.varint(self.raw.len() as u64);
        self.raw.iter().for_each(|one| one.write(shape.summary, w));
        write_clock(w, self.raw_floor_ms);
        w.varint(self.levels.len() as u64);
        for level in &self.levels {
            write_clock(w, level.floor_ms);
            level.forest.write(w, M::write);
        }
    }

    pub(super) fn read_fields(shape: &TimelineShape, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        let expired = not_negative("expired weight", r.f64()?)?;
        let raw = (0..r.count(3)?).map(|_| Observation::read(shape.summary, r)).collect::<Result<Vec<_>, _>>()?;
        let raw_floor_ms = read_clock(r)?;
        let count = r.count(2)?;
        if count > MAX_LEVELS {
            return Err(CodecError::invalid("levels", "too many"));
        }
        let mut levels = Vec::with_capacity(count);
        for _ in 0..count {
            let floor_ms = read_clock(r)?;
            let forest = Forest::read(shape.height(), 1 << POSITION_BITS, r, |r| M::read(shape.summary, r))?;
            levels.push(CascadeLevel { floor_ms, forest });
        }
        Ok(Self { raw, raw_floor_ms, levels, expired })
    }
}
