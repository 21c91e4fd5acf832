//! State bytes of sampling sketches: canonical, bounded while decoding, and decoded only under the same specification.
//!
//! Body: the parameters; for each copy the floors, then the elements by time and id. The bytes are those of the compacted
//! sketch, so equal sets of elements give equal bytes. Decoding rejects parts that are not a compacted state.

use std::borrow::Cow;

use super::element::{Element, ElementId};
use super::floors::NO_FLOOR;
use super::hash::SampleHash;
use super::sketch::{SampleSketch, SampleSpec, SampleStore};
use crate::aggregate::sketch::SpecEncoding;
use crate::codec::{CodecError, Kind, Reader, Writer};

/// Version 1 also contains epsilon and delta, on which the state does not depend.
const VERSION: u16 = 2;

const PARAMETERS: Kind = *b"parm";
/// Epsilon and delta.
const BOUNDS_BYTES: usize = 16;

/// An id, and a byte each for time, value and weight.
const MIN_ELEMENT_BYTES: usize = ElementId::BYTES + 3;

impl<P: SampleSpec> SampleSketch<P> {
    /// Canonical, checksummed state bytes with the specification.
    pub fn encode(&self) -> Vec<u8> {
        self.encode_with(SpecEncoding::Included)
    }

    /// Canonical, checksummed state bytes.
    pub fn encode_with(&self, encoding: SpecEncoding) -> Vec<u8> {
        let compacted = self.compacted();
        let mut writer = Writer::new(P::KIND, VERSION);
        writer.bytes(&parameters(self.spec(), encoding));
        for copy in compacted.copies() {
            write_copy(&mut writer, copy.floors(), copy.elements().copied().collect());
        }
        writer.seal()
    }

    /// Restores a sketch from [`SampleSketch::encode`] that continues exactly like the encoded one.
    pub fn decode(spec: &P, bytes: &[u8]) -> Result<Self, CodecError> {
        Self::decode_with(spec, bytes, SpecEncoding::Included)
    }

    /// Restores a sketch that continues exactly like the encoded one.
    pub fn decode_with(spec: &P, bytes: &[u8], encoding: SpecEncoding) -> Result<Self, CodecError> {
        let mut reader = Reader::open(P::KIND, VERSION, bytes)?;
        let version = reader.version();
        if without_bounds(reader.bytes()?, version) != parameters(spec, encoding) {
            return Err(CodecError::invalid("parameters", "the state was made under another specification"));
        }
        let mut copies = Vec::with_capacity(spec.hashes().len());
        for hash in spec.hashes() {
            let (floors, elements) = read_copy(&mut reader, hash)?;
            elements.iter().try_for_each(|element| spec.check_stored(element))?;
            let copy = spec.empty_copy(hash).with_parts(&floors, elements);
            copies.push(copy.ok_or_else(|| CodecError::invalid("copy", "its floors and elements do not match"))?);
        }
        reader.finish()?;
        Ok(Self::from_copies(spec, copies))
    }
}

fn parameters<P: SampleSpec>(spec: &P, encoding: SpecEncoding) -> Vec<u8> {
    match encoding {
        SpecEncoding::Included => {
            let mut writer = Writer::new(PARAMETERS, VERSION);
            writer.u32(spec.accuracy().tau());
            writer.u8(spec.accuracy().copies());
            spec.write_parameters(&mut writer);
            spec.hashes().iter().for_each(|hash| write_hash(&mut writer, hash));
            writer.seal()
        }
        SpecEncoding::Omitted => Vec::new(),
    }
}

/// The parameters of a block of version 1 as version 2 writes them; anything else as it is.
fn without_bounds(bytes: &[u8], version: u16) -> Cow<'_, [u8]> {
    let second = |bytes| {
        let mut reader = Reader::open(PARAMETERS, 1, bytes)?;
        reader.raw(BOUNDS_BYTES)?;
        let mut writer = Writer::new(PARAMETERS, VERSION);
        writer.raw(reader.raw(reader.remaining())?);
        Ok::<_, CodecError>(writer.seal())
    };
    match version {
        1 => second(bytes).map_or(Cow::Borrowed(bytes), Cow::Owned),
        _ => Cow::Borrowed(bytes),
    }
}

fn write_hash(writer: &mut Writer, hash: &SampleHash) {
    let constants = hash.constants();
    for constant in [constants.modulus, constants.step, constants.offset, constants.low, constants.high] {
        writer.u64(constant);
    }
    writer.u32(hash.max_weight());
    writer.u8(hash.top_level());
}

/// Floors never rise with the level and the last ones may be absent: writes how many there are, the first, and how far each
/// is below the one before.
fn write_copy(writer: &mut Writer, floors: &[i64], mut elements: Vec<Element>) {
    let finite = floors.partition_point(|floor| *floor != NO_FLOOR);
    writer.varint(finite as u64);
    if finite > 0 {
        writer.i64(floors[0]);
        floors[..finite].windows(2).for_each(|pair| writer.varint(pair[0].abs_diff(pair[1])));
    }
    elements.sort_unstable();
    writer.varint(elements.len() as u64);
    let mut previous_ms = elements.first().map_or(0, |first| first.time_ms);
    writer.i64(previous_ms);
    for element in &elements {
        writer.varint(element.time_ms.abs_diff(previous_ms));
        writer.raw(&element.id.bits().to_le_bytes()[..ElementId::BYTES]);
        writer.varint(element.value);
        writer.varint(u64::from(element.weight));
        previous_ms = element.time_ms;
    }
}

fn read_copy(reader: &mut Reader<'_>, hash: &SampleHash) -> Result<(Vec<i64>, Vec<Element>), CodecError> {
    let floors = read_floors(reader, usize::from(hash.top_level()) + 1)?;
    let count = reader.count(MIN_ELEMENT_BYTES)?;
    let mut elements: Vec<Element> = Vec::with_capacity(count);
    let mut time_ms = reader.i64()?;
    if count == 0 && time_ms != 0 {
        return Err(CodecError::invalid("elements", "a first time without elements"));
    }
    for index in 0..count {
        let later = reader.varint()?;
        time_ms = time_ms.checked_add_unsigned(later).ok_or_else(|| CodecError::invalid("time", "overflows"))?;
        let mut bits = [0; 16];
        bits[..ElementId::BYTES].copy_from_slice(reader.raw(ElementId::BYTES)?);
        let id = ElementId::from_bits(u128::from_le_bytes(bits));
        let value = reader.varint()?;
        let weight = u32::try_from(reader.varint()?).map_err(|_| CodecError::invalid("weight", "above 32 bits"))?;
        let element = Element { time_ms, id, value, weight };
        let in_order = if index == 0 { later == 0 } else { elements.last().is_some_and(|last| *last < element) };
        if !in_order || element.check(hash.max_weight()).is_err() {
            return Err(CodecError::invalid("element", "out of order, or not accepted by this sketch"));
        }
        elements.push(element);
    }
    Ok((floors, elements))
}

fn read_floors(reader: &mut Reader<'_>, levels: usize) -> Result<Vec<i64>, CodecError> {
    let finite = reader.varint()? as usize;
    if finite > levels {
        return Err(CodecError::invalid("floors", format!("{finite} floors of {levels} levels")));
    }
    let mut floors = vec![NO_FLOOR; levels];
    let mut floor = if finite > 0 { reader.i64()? } else { NO_FLOOR };
    for (index, slot) in floors[..finite].iter_mut().enumerate() {
        let fall = if index == 0 { 0 } else { reader.varint()? };
        floor = floor.checked_sub_unsigned(fall).ok_or_else(|| CodecError::invalid("floor", "overflows"))?;
        if floor == NO_FLOOR {
            return Err(CodecError::invalid("floor", "a finite floor below all times"));
        }
        *slot = floor;
    }
    Ok(floors)
}
