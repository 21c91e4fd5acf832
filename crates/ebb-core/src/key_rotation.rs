//! Rotation of the hash key without forgetting.
//!
//! A rotation begins when state made under the previous key is restored, and ends when everything recorded before that
//! point has expired. Until then items are looked up under both keys. Begin and end are positions in the log, not
//! moments of a clock, and the rotation is part of the state, so that a replay from any checkpoint ends it at the same
//! record (F1). State in rotation is refused without the previous key: otherwise remembered items would become unknown
//! (R1).

use super::plan::Plan;
use ebb_sketch::codec::{CodecError, Reader, Writer};
use ebb_sketch::filter::structure::frequency::FrequencySpec;
use ebb_sketch::hash::KeyDigest;

/// Half-lives after which a decayed count is negligible: one millionth remains.
const NEGLIGIBLE_AFTER_HALF_LIVES: u64 = 20;

/// How long a view remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retention {
    Milliseconds(u64),
    Events(u64),
    Forever,
}

/// An epoch that is longer than a half-life delays the decay of its observations noticeably.
fn retention_of(counts: &FrequencySpec) -> Retention {
    let half_life_ms = counts.half_life_ms();
    let epoch_ms = counts.epoch_ms().filter(|epoch_ms| *epoch_ms > half_life_ms).unwrap_or(0);
    Retention::Milliseconds(half_life_ms.saturating_mul(NEGLIGIBLE_AFTER_HALF_LIVES).saturating_add(epoch_ms))
}

/// A rotation in progress: which key came before, and when the rotation began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyRotation {
    pub(super) previous: KeyDigest,
    /// The shard's clock at the beginning.
    pub(super) since_ms: i64,
    /// Number of accepted events before the beginning.
    pub(super) since_events: u64,
}

impl KeyRotation {
    /// Whether everything recorded before the rotation has expired.
    pub(super) fn is_over(&self, plan: &Plan, clock_ms: i64, events: u64) -> bool {
        let frequency = plan.frequency.as_ref().map(|frequency| retention_of(frequency.spec()));
        [Some(plan.dedup.retention()), frequency].into_iter().flatten().all(|retention| match retention {
            Retention::Milliseconds(ms) => clock_ms.saturating_sub_unsigned(ms) > self.since_ms,
            Retention::Events(count) => events.saturating_sub(self.since_events) > count,
            Retention::Forever => false,
        })
    }

    pub(super) fn encode(rotation: Option<&Self>, writer: &mut Writer) {
        let Some(rotation) = rotation else { return writer.u8(0) };
        writer.u8(1);
        writer.raw(&rotation.previous.0);
        writer.i64(rotation.since_ms);
        writer.u64(rotation.since_events);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<Self>, CodecError> {
        match reader.u8()? {
            0 => Ok(None),
            1 => {
                let mut digest = [0; 8];
                digest.copy_from_slice(reader.raw(8)?);
                let (since_ms, since_events) = (reader.i64()?, reader.u64()?);
                Ok(Some(Self { previous: KeyDigest(digest), since_ms, since_events }))
            }
            _ => Err(CodecError::invalid("key rotation", "the presence flag is neither 0 nor 1")),
        }
    }
}
