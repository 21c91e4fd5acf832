//! State bytes: canonical, bounded while decoding, and decoded only under the same specification.
//!
//! Body: the parameters; for each copy the floors, then the values in ascending order with their latest times.

use super::store::{DistinctStore, Sighting};
use super::{DistinctSketch, DistinctSpec};
use crate::aggregate::robust::{ElementId, NO_FLOOR, is_extreme};
use crate::aggregate::sketch::SpecEncoding;
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"dist";
const VERSION: u16 = 1;

impl DistinctSketch {
    /// Canonical, checksummed state bytes.
    pub fn encode_with(&self, encoding: SpecEncoding) -> Vec<u8> {
        let compacted = self.compacted();
        let mut writer = Writer::new(KIND, VERSION);
        writer.bytes(&parameters(&self.spec, encoding));
        compacted.copies.iter().for_each(|copy| write_copy(&mut writer, copy));
        writer.seal()
    }

    /// Restores a sketch that continues exactly like the encoded one.
    pub fn decode_with(spec: &DistinctSpec, bytes: &[u8], encoding: SpecEncoding) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        if reader.bytes()? != parameters(spec, encoding) {
            return Err(CodecError::invalid("parameters", "the state was made under another specification"));
        }
        let mut sketch = Self::new(spec);
        for copy in &mut sketch.copies {
            let (floors, sightings) = read_copy(&mut reader, copy.floors().len())?;
            let filled = DistinctStore::new(copy.shared_hash(), spec.accuracy.tau()).with_parts(&floors, sightings);
            *copy = filled.ok_or_else(|| CodecError::invalid("copy", "its floors and values do not match"))?;
        }
        reader.finish()?;
        Ok(sketch)
    }
}

fn parameters(spec: &DistinctSpec, encoding: SpecEncoding) -> Vec<u8> {
    match encoding {
        SpecEncoding::Included => {
            let mut writer = Writer::new(*b"parm", 1);
            writer.f64(spec.accuracy.epsilon());
            writer.f64(spec.accuracy.delta());
            writer.u32(spec.accuracy.tau());
            writer.u8(spec.accuracy.copies());
            writer.u64(spec.horizon_ms);
            for hash in &spec.hashes {
                let constants = hash.constants();
                [constants.offset, constants.low, constants.high].into_iter().for_each(|constant| writer.u64(constant));
            }
            writer.seal()
        }
        SpecEncoding::Omitted => Vec::new(),
    }
}

/// Only the finite floors are written, and they come first: floors never rise with the level.
fn write_copy(writer: &mut Writer, copy: &DistinctStore) {
    let floors = copy.floors();
    let finite = floors.partition_point(|floor| *floor != NO_FLOOR);
    writer.varint(finite as u64);
    floors[..finite].iter().for_each(|floor| writer.i64(*floor));
    let mut sightings: Vec<Sighting> = copy.sightings().copied().collect();
    sightings.sort_unstable();
    writer.varint(sightings.len() as u64);
    for sighting in sightings {
        writer.raw(&sighting.value.bits().to_le_bytes()[..ElementId::BYTES]);
        writer.i64(sighting.time_ms);
    }
}

fn read_copy(reader: &mut Reader<'_>, levels: usize) -> Result<(Vec<i64>, Vec<Sighting>), CodecError> {
    let finite = reader.varint()? as usize;
    if finite > levels {
        return Err(CodecError::invalid("floors", format!("{finite} floors of {levels} levels")));
    }
    let mut floors = vec![NO_FLOOR; levels];
    for level in 0..finite {
        floors[level] = reader.i64()?;
        if floors[level] == NO_FLOOR || (level > 0 && floors[level] > floors[level - 1]) {
            return Err(CodecError::invalid("floors", "rising, or below all times"));
        }
    }
    let count = reader.count(ElementId::BYTES + 8)?;
    let mut sightings: Vec<Sighting> = Vec::with_capacity(count);
    for _ in 0..count {
        let mut bits = [0; 16];
        bits[..ElementId::BYTES].copy_from_slice(reader.raw(ElementId::BYTES)?);
        let value = ElementId::from_bits(u128::from_le_bytes(bits));
        let time_ms = reader.i64()?;
        if is_extreme(time_ms) || sightings.last().is_some_and(|last| last.value >= value) {
            return Err(CodecError::invalid("value", "out of order, or with a time out of range"));
        }
        sightings.push(Sighting { value, time_ms });
    }
    Ok((floors, sightings))
}
