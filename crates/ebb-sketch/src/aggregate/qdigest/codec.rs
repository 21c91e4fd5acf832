//! State bytes of digests, and the fields of forests.

use super::tree::{DyadicRange, Forest, Node};
use super::{DigestShape, QDigest};
use crate::aggregate::codec::{invalid, read_weight, write_weight};
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"qdig";
const VERSION: u16 = 1;

impl<M> Forest<M> {
    /// Writes the differences of the ranges in order, each with its mass.
    pub(crate) fn write(&self, w: &mut Writer, write_mass: impl Fn(&M, &mut Writer)) {
        w.varint(self.nodes.len() as u64);
        let mut last = 0;
        for node in &self.nodes {
            w.varint(node.range.code() - last);
            last = node.range.code();
            write_mass(&node.mass, w);
        }
    }

    /// Accepts nodes in order, within the height, that begin below `positions`.
    pub(crate) fn read(
        height: u8,
        positions: u64,
        r: &mut Reader<'_>,
        read_mass: impl Fn(&mut Reader<'_>) -> Result<M, CodecError>,
    ) -> Result<Self, CodecError> {
        let count = r.count(2)?;
        let mut nodes: Vec<Node<M>> = Vec::with_capacity(count);
        let mut last = 0u64;
        for index in 0..count {
            let step = r.varint()?;
            if index > 0 && step == 0 {
                return Err(CodecError::invalid("range", "repeated"));
            }
            last = last.checked_add(step).ok_or_else(|| CodecError::invalid("range", "overflows"))?;
            let range = DyadicRange::from_code(last);
            let is_aligned = |width: u8| range.low().trailing_zeros() >= u32::from(width);
            if range.depth() > height || range.low() >= positions || !is_aligned(height - range.depth()) {
                return Err(CodecError::invalid("range", "outside the domain"));
            }
            nodes.push(Node { range, mass: read_mass(r)? });
        }
        Ok(Self { height, nodes })
    }
}

impl QDigest {
    /// Canonical, checksummed state bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new(KIND, VERSION);
        w.u8(self.shape.bits);
        w.f64(self.shape.beta);
        self.write_fields(&mut w);
        w.seal()
    }

    /// Restores a digest that continues exactly like the encoded one.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut r = Reader::open(KIND, VERSION, bytes)?;
        let shape = DigestShape::new(r.u8()?, r.f64()?).map_err(invalid("digest"))?;
        let digest = Self::read_fields(shape, &mut r)?;
        r.finish()?;
        Ok(digest)
    }

    pub(crate) fn write_fields(&self, w: &mut Writer) {
        self.forest.write(w, |weight, w| write_weight(w, *weight));
        w.varint(self.buffer.len() as u64);
        for (value, weight) in &self.buffer {
            w.varint(u64::from(*value));
            write_weight(w, *weight);
        }
    }

    pub(crate) fn read_fields(shape: DigestShape, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        let forest = Forest::read(shape.bits, shape.max_value() + 1, r, read_weight)?;
        let folded = forest.weight();
        let count = r.count(2)?;
        let mut buffer = Vec::with_capacity(count);
        for _ in 0..count {
            let value = r.varint()?;
            if value > shape.max_value() {
                return Err(CodecError::invalid("value", "outside the domain"));
            }
            buffer.push((value as u32, read_weight(r)?));
        }
        Ok(Self { shape, forest, folded, buffer })
    }
}
