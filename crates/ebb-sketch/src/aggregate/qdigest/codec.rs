//! Bytes of digests and of trees.

use super::tree::{Forest, Node, Range};
use super::{DigestShape, QDigest};
use crate::aggregate::content::codec::{invalid, read_weight, write_weight};
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"qdig";
const VERSION: u16 = 1;

impl<M> Forest<M> {
    /// Ranges as differences in order, each with its mass.
    pub(crate) fn write(&self, w: &mut Writer, mass: impl Fn(&M, &mut Writer)) {
        w.varint(self.nodes.len() as u64);
        let mut last = 0;
        for node in &self.nodes {
            w.varint(node.range.code() - last);
            last = node.range.code();
            mass(&node.mass, w);
        }
    }

    /// Nodes must come in order, within the height, and begin below `positions`.
    pub(crate) fn read(
        height: u8,
        positions: u64,
        r: &mut Reader<'_>,
        mass: impl Fn(&mut Reader<'_>) -> Result<M, CodecError>,
    ) -> Result<Self, CodecError> {
        let count = r.count(2)?;
        let mut nodes: Vec<Node<M>> = Vec::with_capacity(count);
        let mut last = 0u64;
        for place in 0..count {
            let step = r.varint()?;
            if place > 0 && step == 0 {
                return Err(CodecError::invalid("range", "twice"));
            }
            last = last.checked_add(step).ok_or_else(|| CodecError::invalid("range", "beyond the last"))?;
            let range = Range::from_code(last);
            let aligned = |width: u8| range.low().trailing_zeros() >= u32::from(width);
            if range.depth() > height || range.low() >= positions || !aligned(height - range.depth()) {
                return Err(CodecError::invalid("range", "outside the domain"));
            }
            nodes.push(Node { range, mass: mass(r)? });
        }
        Ok(Self { height, nodes })
    }
}

impl QDigest {
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new(KIND, VERSION);
        w.u8(self.shape.bits);
        w.f64(self.shape.beta);
        self.write(&mut w);
        w.seal()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut r = Reader::open(KIND, VERSION, bytes)?;
        let shape = DigestShape::new(r.u8()?, r.f64()?).map_err(invalid("digest"))?;
        let digest = Self::read(shape, &mut r)?;
        r.finish()?;
        Ok(digest)
    }

    pub(crate) fn write(&self, w: &mut Writer) {
        self.forest.write(w, |weight, w| write_weight(w, *weight));
        w.varint(self.buffer.len() as u64);
        for (value, weight) in &self.buffer {
            w.varint(u64::from(*value));
            write_weight(w, *weight);
        }
    }

    pub(crate) fn read(shape: DigestShape, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        let forest = Forest::read(shape.bits, shape.value_most() + 1, r, read_weight)?;
        let folded = forest.weight();
        let count = r.count(2)?;
        let mut buffer = Vec::with_capacity(count);
        for _ in 0..count {
            let value = r.varint()?;
            if value > shape.value_most() {
                return Err(CodecError::invalid("value", "outside the domain"));
            }
            buffer.push((value as u32, read_weight(r)?));
        }
        Ok(Self { shape, forest, folded, buffer })
    }
}
