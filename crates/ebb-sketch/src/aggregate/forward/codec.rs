//! State bytes of a forward decay.

use super::{ForwardShape, ForwardSketch};
use crate::aggregate::codec::{positive, read_clock, read_time, write_clock, zigzag};
use crate::aggregate::summary::{Summary, SummaryShape};
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"fwrd";
const VERSION: u16 = 1;

impl ForwardSketch {
    /// Canonical, checksummed state bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new(KIND, VERSION);
        w.f64(self.shape.rate);
        self.shape.summary.write(&mut w);
        write_clock(&mut w, self.landmark_ms);
        if self.landmark_ms.is_some() {
            w.varint(zigzag(self.newest_ms));
            self.summary.write(&mut w);
        }
        w.seal()
    }

    /// Restores a sketch that continues exactly like the encoded one.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut r = Reader::open(KIND, VERSION, bytes)?;
        let rate = positive("rate", r.f64()?)?;
        let shape = ForwardShape { rate, summary: SummaryShape::read(&mut r)? };
        let landmark_ms = read_clock(&mut r)?;
        let (newest_ms, summary) = match landmark_ms {
            Some(_) => (read_time(&mut r)?, Summary::read(shape.summary, &mut r)?),
            None => (i64::MIN, Summary::new(shape.summary)),
        };
        r.finish()?;
        Ok(Self { shape, landmark_ms, newest_ms, summary })
    }
}
