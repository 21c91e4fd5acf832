//! The exchange of a hash key: for as long as the memory reaches back, items are looked up under the previous key, too.
//!
//! A turn begins where state made under the previous key is restored, and ends when everything recorded before is forgotten:
//! at positions of the log, not of a clock. It is part of the state, so that a replay from any checkpoint turns at the same
//! record (F1). While it lasts the previous key is needed; state that needs it is refused without it (R1: no remembered
//! item becomes unknown by an exchange).

use super::plan::Plan;
use ebb_sketch::codec::{CodecError, Reader, Writer};
use ebb_sketch::hash::KeyPrint;

/// Half-lives after which a count is as good as forgotten: a millionth is left.
const HALF_LIVES: u64 = 20;

/// How far back a view remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Milliseconds(u64),
    Events(u64),
    /// It never forgets.
    Endless,
}

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) previous: KeyPrint,
    /// The shard's clock when it began.
    pub(super) since_ms: i64,
    /// Accepted events before it began.
    pub(super) since_events: u64,
}

impl Turn {
    /// Whether nothing that was recorded before it is remembered any more.
    pub(super) fn is_over(&self, plan: &Plan, clock_ms: i64, events: u64) -> bool {
        let half_life = plan.frequency.map(|spec| Reach::Milliseconds(spec.half_life_ms().saturating_mul(HALF_LIVES)));
        [Some(plan.dedup.reach()), half_life].into_iter().flatten().all(|reach| match reach {
            Reach::Milliseconds(ms) => clock_ms.saturating_sub_unsigned(ms) > self.since_ms,
            Reach::Events(count) => events.saturating_sub(self.since_events) > count,
            Reach::Endless => false,
        })
    }

    pub(super) fn write(turn: Option<&Self>, writer: &mut Writer) {
        let Some(turn) = turn else { return writer.u8(0) };
        writer.u8(1);
        writer.raw(&turn.previous.0);
        writer.i64(turn.since_ms);
        writer.u64(turn.since_events);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, CodecError> {
        match reader.u8()? {
            0 => Ok(None),
            1 => {
                let mut print = [0; 8];
                print.copy_from_slice(reader.raw(8)?);
                let (since_ms, since_events) = (reader.i64()?, reader.u64()?);
                Ok(Some(Self { previous: KeyPrint(print), since_ms, since_events }))
            }
            _ => Err(CodecError::invalid("turn", "neither absent nor present")),
        }
    }
}
