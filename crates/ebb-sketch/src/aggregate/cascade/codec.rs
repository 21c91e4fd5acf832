//! Bytes of a cascade, raw observations in their order included.

use super::store::{Level, Store};
use super::{Body, Cascade};
use crate::aggregate::content::codec::{not_negative, read_clock, read_span, write_clock};
use crate::aggregate::content::{Held, Observation, TimelineShape};
use crate::aggregate::qdigest::tree::{Forest, POSITION_BITS};
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"casc";
const VERSION: u16 = 1;

impl Cascade {
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new(KIND, VERSION);
        self.shape.write(&mut w);
        write_clock(&mut w, self.span_ms.map(|(oldest, _)| oldest));
        write_clock(&mut w, self.span_ms.map(|(_, newest)| newest));
        match &self.body {
            Body::Totals(store) => store.write(&self.shape, &mut w),
            Body::Cells(store) => store.write(&self.shape, &mut w),
        }
        w.seal()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut r = Reader::open(KIND, VERSION, bytes)?;
        let mut cascade = Self::new(TimelineShape::read(4.0, &mut r)?);
        cascade.span_ms = read_span(&mut r)?;
        match &mut cascade.body {
            Body::Totals(store) => *store = Store::read(&cascade.shape, &mut r)?,
            Body::Cells(store) => *store = Store::read(&cascade.shape, &mut r)?,
        }
        r.finish()?;
        Ok(cascade)
    }
}

/// Levels double what a range holds, so no weight needs more of them.
const LEVELS_MOST: usize = 128;

impl<M: Held> Store<M> {
    fn write(&self, shape: &TimelineShape, w: &mut Writer) {
        w.f64(self.expired);
        w.varint(self.raw.len() as u64);
        self.raw.iter().for_each(|one| one.write(shape.content, w));
        write_clock(w, self.raw_floor_ms);
        w.varint(self.levels.len() as u64);
        for level in &self.levels {
            write_clock(w, level.floor_ms);
            level.forest.write(w, M::write);
        }
    }

    fn read(shape: &TimelineShape, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        let expired = not_negative("expired weight", r.f64()?)?;
        let raw = (0..r.count(3)?).map(|_| Observation::read(shape.content, r)).collect::<Result<Vec<_>, _>>()?;
        let raw_floor_ms = read_clock(r)?;
        let count = r.count(2)?;
        if count > LEVELS_MOST {
            return Err(CodecError::invalid("levels", "too many"));
        }
        let mut levels = Vec::with_capacity(count);
        for _ in 0..count {
            let floor_ms = read_clock(r)?;
            let forest = Forest::read(shape.height(), 1 << POSITION_BITS, r, |r| M::read(shape.content, r))?;
            levels.push(Level { floor_ms, forest });
        }
        Ok(Self { raw, raw_floor_ms, levels, expired })
    }
}
