//! State bytes of a summary.

use super::{LabelCounter, SpaceSaving};
use crate::aggregate::codec::{invalid, not_negative, read_weight, write_weight};
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"spsv";
const VERSION: u16 = 1;

impl SpaceSaving {
    /// Canonical, checksummed state bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new(KIND, VERSION);
        w.u32(self.capacity);
        self.write_fields(&mut w);
        w.seal()
    }

    /// Restores a summary that continues exactly like the encoded one.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut r = Reader::open(KIND, VERSION, bytes)?;
        let capacity = r.u32()?;
        let summary = Self::read_fields(capacity, &mut r)?;
        r.finish()?;
        Ok(summary)
    }

    pub(crate) fn write_fields(&self, w: &mut Writer) {
        w.f64(self.floor);
        w.f64(self.weight);
        w.varint(self.counters.len() as u64);
        for counter in &self.counters {
            w.u128(counter.label);
            w.f64(counter.seen);
            w.f64(counter.error);
        }
        w.varint(self.buffer.len() as u64);
        for (label, weight) in &self.buffer {
            w.u128(*label);
            write_weight(w, *weight);
        }
    }

    pub(crate) fn read_fields(capacity: u32, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        let mut summary = Self::new(capacity).map_err(invalid("counters"))?;
        summary.floor = not_negative("floor", r.f64()?)?;
        summary.weight = not_negative("weight", r.f64()?)?;
        let count = r.count(32)?;
        if count > capacity as usize {
            return Err(CodecError::invalid("counters", "more than the capacity"));
        }
        for _ in 0..count {
            let label = r.u128()?;
            let (seen, error) = (not_negative("seen", r.f64()?)?, not_negative("error", r.f64()?)?);
            if summary.counters.last().is_some_and(|last| last.label >= label) {
                return Err(CodecError::invalid("labels", "out of order"));
            }
            summary.counters.push(LabelCounter { label, seen, error });
        }
        for _ in 0..r.count(17)? {
            let label = r.u128()?;
            summary.buffer.push((label, read_weight(r)?));
        }
        Ok(summary)
    }
}
