//! The bytes of an inferential filter: those of its parts, one after the other.

use super::*;
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"infr";
const VERSION: u16 = 1;

impl InferentialFilter {
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        writer.u8(match self.seen {
            Seen::First => 0,
            Seen::Last => 1,
        });
        writer.bytes(&self.filter.encode());
        match &self.prior {
            Prior::Constant(share) => {
                writer.u8(0);
                writer.f64(share.get());
            }
            Prior::Learned(learned) => {
                writer.u8(1);
                writer.bytes(&learned.reuse.encode());
                writer.bytes(&learned.calibration.encode());
            }
        }
        writer.seal()
    }

    /// Refuses the bytes of a filter of another shape, mode or kind of prior; a constant share may change.
    pub fn decode(spec: TimingSpec, seen: Seen, prior: PriorSpec, bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        if reader.u8()? != u8::from(seen == Seen::Last) {
            return Err(CodecError::invalid("inferential filter", "it measures its window from another sighting"));
        }
        let filter = TimingFilter::decode(spec, reader.bytes()?)?;
        let prior = match (reader.u8()?, prior) {
            (0, PriorSpec::Constant(share)) => {
                reader.f64()?;
                Prior::Constant(share)
            }
            (1, PriorSpec::Learned(spec)) => Prior::Learned(Box::new(Learned {
                reuse: ReusePrior::decode(spec, reader.bytes()?)?,
                calibration: Calibration::decode(reader.bytes()?)?,
            })),
            (kind, _) => return Err(CodecError::invalid("prior", format!("kind {kind} is not the configured one"))),
        };
        reader.finish()?;
        Ok(Self { filter, seen, prior })
    }
}
