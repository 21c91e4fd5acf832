//! State bytes of an inferential filter: the blocks of its parts.

use super::*;
use crate::codec::{CodecError, Kind, Reader, Writer};
use crate::filter::inference::prior::ReuseSpec;

const KIND: Kind = *b"infr";
const VERSION: u16 = 2;
/// Version 1 had no costs of policies.
const FIRST_VERSION_WITH_POLICY: u16 = 2;

impl InferentialFilter {
    /// Encodes the filter and what was learned.
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
                writer.bytes(&learned.guard.encode());
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
            (1, PriorSpec::Learned(spec)) => PriorState::Learned(Box::new(read_learned(&mut reader, spec)?)),
            (kind, _) => return Err(CodecError::invalid("prior", format!("kind {kind} is not the configured one"))),
        };
        reader.finish()?;
        Ok(Self { filter, seen, prior, cache: MassCache::new() })
    }
}

/// The sample of version 1 recorded other things; learning begins anew, with the filter's memory intact.
fn read_learned(reader: &mut Reader<'_>, spec: ReuseSpec) -> Result<LearnedPrior, CodecError> {
    let reuse = ReusePrior::decode(spec, reader.bytes()?)?;
    let calibration = Calibration::decode(reader.bytes()?)?;
    if reader.version() < FIRST_VERSION_WITH_POLICY {
        return Ok(LearnedPrior { reuse, calibration: Calibration::default(), guard: PolicyGuard::default() });
    }
    Ok(LearnedPrior { reuse, calibration, guard: PolicyGuard::decode(reader.bytes()?)? })
}
