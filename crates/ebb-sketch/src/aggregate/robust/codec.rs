//! State bytes of both sketches: canonical, bounded while decoding, and only read under the specification that made them.
//!
//! Body: the parameters; for each copy the floors, then the elements by time and id. The bytes are those of the exact
//! form, so equal sets of elements give equal bytes. Decoding rebuilds the exact form and refuses parts that are not one.

use super::accuracy::Accuracy;
use super::element::{Element, ElementId};
use super::integral::{IntegralSketch, IntegralSpec};
use super::pool::IntegralStore;
use super::sampling::SampleHash;
use super::sketch::{WindowSketch, WindowSpec};
use super::window::{NO_FLOOR, WindowStore};
use crate::codec::{CodecError, Kind, Reader, Writer};

const WINDOW: Kind = *b"robw";
const INTEGRAL: Kind = *b"robi";
const VERSION: u16 = 1;

/// Whether the parameters stand in the bytes. They hold the constants of the sampling hashes, which are nobody else's
/// business: bytes that leave the service go without, and their reader must know by other means that they agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameters {
    Written,
    LeftOut,
}

impl Parameters {
    fn bytes(self, of: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
        match self {
            Self::Written => of(),
            Self::LeftOut => Vec::new(),
        }
    }
}

/// An id, and a byte each for time, value and weight.
const ELEMENT_BYTES_LEAST: usize = ElementId::BYTES + 3;

impl WindowSketch {
    pub fn encode(&self) -> Vec<u8> {
        self.encode_with(Parameters::Written)
    }

    pub fn encode_with(&self, parameters: Parameters) -> Vec<u8> {
        let mut settled;
        let exact = if self.copies().iter().all(WindowStore::is_settled) {
            self
        } else {
            settled = self.clone();
            settled.settle();
            &settled
        };
        let mut writer = Writer::new(WINDOW, VERSION);
        writer.bytes(&parameters.bytes(|| window_parameters(exact.spec())));
        for copy in exact.copies() {
            write_copy(&mut writer, copy.floors(), copy.elements().copied().collect());
        }
        writer.seal()
    }

    /// Continues exactly like the sketch that was encoded.
    pub fn decode(spec: &WindowSpec, bytes: &[u8]) -> Result<Self, CodecError> {
        Self::decode_with(spec, bytes, Parameters::Written)
    }

    pub fn decode_with(spec: &WindowSpec, bytes: &[u8], parameters: Parameters) -> Result<Self, CodecError> {
        let mut reader = Reader::open(WINDOW, VERSION, bytes)?;
        expect_parameters(&mut reader, &parameters.bytes(|| window_parameters(spec)))?;
        let mut copies = Vec::with_capacity(spec.hashes().len());
        for hash in spec.hashes() {
            let (floors, elements) = read_copy(&mut reader, hash)?;
            let store = WindowStore::from_parts(hash.clone(), spec.accuracy().tau(), floors, elements);
            copies.push(store.ok_or_else(not_exact)?);
        }
        reader.finish()?;
        Ok(Self::from_copies(spec, copies))
    }
}

impl IntegralSketch {
    pub fn encode(&self) -> Vec<u8> {
        self.encode_with(Parameters::Written)
    }

    pub fn encode_with(&self, parameters: Parameters) -> Vec<u8> {
        let mut settled;
        let exact = if self.copies().iter().all(IntegralStore::is_settled) {
            self
        } else {
            settled = self.clone();
            settled.settle();
            &settled
        };
        let mut writer = Writer::new(INTEGRAL, VERSION);
        writer.bytes(&parameters.bytes(|| integral_parameters(exact.spec())));
        for copy in exact.copies() {
            write_copy(&mut writer, copy.floors(), copy.elements().to_vec());
        }
        writer.seal()
    }

    /// Continues exactly like the sketch that was encoded.
    pub fn decode(spec: &IntegralSpec, bytes: &[u8]) -> Result<Self, CodecError> {
        Self::decode_with(spec, bytes, Parameters::Written)
    }

    pub fn decode_with(spec: &IntegralSpec, bytes: &[u8], parameters: Parameters) -> Result<Self, CodecError> {
        let mut reader = Reader::open(INTEGRAL, VERSION, bytes)?;
        expect_parameters(&mut reader, &parameters.bytes(|| integral_parameters(spec)))?;
        let mut copies = Vec::with_capacity(spec.hashes().len());
        for (hash, empty) in spec.hashes().iter().zip(spec.empty_copies()) {
            let (floors, elements) = read_copy(&mut reader, hash)?;
            if elements.iter().any(|element| element.weight % spec.weight_scale() != 0) {
                return Err(CodecError::invalid("weight", "not a multiple of its scale"));
            }
            copies.push(empty.with_parts(floors, elements).ok_or_else(not_exact)?);
        }
        reader.finish()?;
        Ok(Self::from_copies(spec, copies))
    }
}

fn not_exact() -> CodecError {
    CodecError::invalid("a copy", "its floors and elements do not belong together")
}

fn window_parameters(spec: &WindowSpec) -> Vec<u8> {
    let mut writer = Writer::new(*b"parm", 1);
    write_accuracy(&mut writer, spec.accuracy());
    writer.u64(spec.horizon_ms());
    spec.hashes().iter().for_each(|hash| write_hash(&mut writer, hash));
    writer.seal()
}

fn integral_parameters(spec: &IntegralSpec) -> Vec<u8> {
    let mut writer = Writer::new(*b"parm", 1);
    write_accuracy(&mut writer, spec.accuracy());
    let [kind, constant] = spec.decay().constants();
    writer.u64(kind);
    writer.u64(constant);
    writer.u64(spec.tick_ms());
    writer.u32(spec.weight_scale());
    spec.hashes().iter().for_each(|hash| write_hash(&mut writer, hash));
    writer.seal()
}

fn write_accuracy(writer: &mut Writer, accuracy: Accuracy) {
    writer.f64(accuracy.epsilon());
    writer.f64(accuracy.delta());
    writer.u32(accuracy.tau());
    writer.u8(accuracy.copies());
}

fn write_hash(writer: &mut Writer, hash: &SampleHash) {
    let constants = hash.constants();
    for constant in [constants.modulus, constants.step, constants.offset, constants.low, constants.high] {
        writer.u64(constant);
    }
    writer.u32(hash.w_max());
    writer.u8(hash.top_level());
}

fn expect_parameters(reader: &mut Reader<'_>, expected: &[u8]) -> Result<(), CodecError> {
    if reader.bytes()? == expected {
        Ok(())
    } else {
        Err(CodecError::invalid("parameters", "the state was made under another specification"))
    }
}

/// Floors never rise with the level and the last may be none: how many are finite, the first, and how far each falls.
fn write_copy(writer: &mut Writer, floors: &[i64], mut elements: Vec<Element>) {
    let finite = floors.partition_point(|floor| *floor != NO_FLOOR);
    writer.varint(finite as u64);
    if finite > 0 {
        writer.i64(floors[0]);
        floors[..finite].windows(2).for_each(|pair| writer.varint(pair[0].abs_diff(pair[1])));
    }
    elements.sort_unstable();
    writer.varint(elements.len() as u64);
    let mut before = elements.first().map_or(0, |first| first.time_ms);
    writer.i64(before);
    for element in &elements {
        writer.varint(element.time_ms.abs_diff(before));
        writer.raw(&element.id.bits().to_le_bytes()[..ElementId::BYTES]);
        writer.varint(element.value);
        writer.varint(u64::from(element.weight));
        before = element.time_ms;
    }
}

fn read_copy(reader: &mut Reader<'_>, hash: &SampleHash) -> Result<(Vec<i64>, Vec<Element>), CodecError> {
    let floors = read_floors(reader, usize::from(hash.top_level()) + 1)?;
    let count = reader.count(ELEMENT_BYTES_LEAST)?;
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
        if !in_order || element.check(hash.w_max()).is_err() {
            return Err(CodecError::invalid("element", "out of order, or not one this sketch can hold"));
        }
        elements.push(element);
    }
    Ok((floors, elements))
}

fn read_floors(reader: &mut Reader<'_>, levels: usize) -> Result<Vec<i64>, CodecError> {
    let finite = reader.varint()? as usize;
    if finite > levels {
        return Err(CodecError::invalid("floors", format!("{finite} of {levels} levels")));
    }
    let mut floors = vec![NO_FLOOR; levels];
    let mut floor = if finite > 0 { reader.i64()? } else { NO_FLOOR };
    for (index, place) in floors[..finite].iter_mut().enumerate() {
        let fall = if index == 0 { 0 } else { reader.varint()? };
        floor = floor.checked_sub_unsigned(fall).ok_or_else(|| CodecError::invalid("floor", "overflows"))?;
        if floor == NO_FLOOR {
            return Err(CodecError::invalid("floor", "a finite floor below all times"));
        }
        *place = floor;
    }
    Ok(floors)
}
