//! State bytes of an inferential filter: the blocks of its parts.

use super::*;
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"infr";
const VERSION: u16 = 1;

impl InferentialFilter {
    /// Encodes filter, prior and calibration.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        writer.u8(match self.seen {
            Seen::First => 0,
            Seen::Last => 1,
        });
        writer.bytes(&self.filter.encode());
        match &self.prior {
            PriorState::Constant(share) => {
                writer.u8(0);
                writer.f64(share.get());
            }
            PriorState::Learned(learned) => {
                writer.u8(1);
                writer.bytes(&learned.reuse.encode());
                writer.bytes(&learned.calibration.encode());
            }
        }
        writer.seal()
    }

    /// Rejects the bytes of a filter with other parameters, another mode or another kind of prior. A constant share may differ.
    pub fn decode(spec: TimingSpec, seen: Seen, prior: PriorSpec, bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        if reader.u8()? != u8::from(seen == Seen::Last) {
            return Err(CodecError::invalid("inferential filter", "the window is measured from another sighting"));
        }
        let filter = TimingFilter::decode(spec, reader.bytes()?)?;
        let prior = match (reader.u8()?, prior) {
            (0, PriorSpec::Constant(share)) => {
                reader.f64()?;
                PriorState::Constant(share)
            }
            (1, PriorSpec::Learned(spec)) => PriorState::Learned(Box::new(LearnedPrior {
                reuse: ReusePrior::decode(spec, reader.bytes()?)?,
                calibration: Calibration::decode(reader.bytes()?)?,
            })),
            (kind, _) => return Err(CodecError::invalid("prior", format!("kind {kind} is not the configured one"))),
        };
        reader.finish()?;
        Ok(Self { filter, seen, prior })
    }
}
