//! Bytes of a forward decay.

use super::Forward;
use crate::aggregate::content::codec::{positive, read_clock, read_time, write_clock, zigzag};
use crate::aggregate::content::{Content, ContentShape};
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"fwrd";
const VERSION: u16 = 1;

impl Forward {
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new(KIND, VERSION);
        w.f64(self.rate);
        self.shape.write(&mut w);
        write_clock(&mut w, self.landmark_ms);
        if self.landmark_ms.is_some() {
            w.varint(zigzag(self.newest_ms));
            self.content.write(&mut w);
        }
        w.seal()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut r = Reader::open(KIND, VERSION, bytes)?;
        let rate = positive("rate", r.f64()?)?;
        let shape = ContentShape::read(&mut r)?;
        let landmark_ms = read_clock(&mut r)?;
        let (newest_ms, content) = match landmark_ms {
            Some(_) => (read_time(&mut r)?, Content::read(shape, &mut r)?),
            None => (i64::MIN, Content::new(shape)),
        };
        r.finish()?;
        Ok(Self { rate, shape, landmark_ms, newest_ms, content })
    }
}
