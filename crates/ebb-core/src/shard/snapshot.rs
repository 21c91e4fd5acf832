//! The state of a shard as bytes.
//!
//! Equal states have equal bytes. A snapshot is only restored under the plan and for the partition that it was made with;
//! the one exception is the hash key, which may be the previous one: then the rotation of the key begins.

use std::sync::Arc;

use super::Shard;
use crate::aggregate::Aggregate;
use crate::dedup::Dedup;
use crate::frequency::FrequencyView;
use crate::key_rotation::KeyRotation;
use crate::offset::NextOffset;
use crate::plan::Plan;
use crate::verdict::VerdictCounts;
use ebb_sketch::codec::{self, CodecError};

pub(super) const KIND: codec::Kind = *b"shrd";
const VERSION: u16 = 2;
/// Snapshots of this version say nothing of a key rotation.
const VERSION_WITHOUT_KEY_ROTATION: u16 = 1;

/// The field that a restore error names when the state needs another hash key.
pub const HASH_KEY: &str = "hash key";
const ROTATED_TWICE: &str = "the hash key was rotated again before the previous rotation ended, so that items recorded \
     under an older key are still remembered; use the keys of the previous rotation until its window is over";
const PREVIOUS_KEY_NEEDED: &str = "items recorded under the previous hash key are still remembered; set \
     hash_key_previous_file until ebb_previous_hash_key_needed is 0";

impl Shard {
    /// The whole state; equal states have equal bytes.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut writer = codec::Writer::new(KIND, VERSION);
        writer.raw(&self.plan.identity());
        writer.u32(self.partition);
        writer.u64(self.next.0);
        writer.u8(u8::from(self.clock_ms.is_some()));
        writer.i64(self.clock_ms.unwrap_or(0));
        self.counts.as_array().into_iter().for_each(|count| writer.u64(count));
        KeyRotation::encode(self.rotation.as_ref(), &mut writer);
        self.dedup.encode(&mut writer);
        if let Some(counts) = &self.frequency {
            counts.encode(&mut writer);
        }
        self.aggregates.iter().for_each(|aggregate| aggregate.encode(&mut writer));
        writer.seal()
    }

    /// Restores a [`Shard::snapshot`] of the same plan and partition.
    ///
    /// A snapshot made under the previous hash key is accepted if the plan has that key. The key rotation begins with it
    /// and ends when everything recorded under the previous key has expired:
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use ebb_core::{DedupSpec, EventSpec, FilterSpec, Plan, Reader, Record, Seen, Shard, Verdict};
    /// # use ebb_sketch::{filter::structure::timing::TimingSpec, hash::{HashKey, HashKeys}};
    /// # let plan = |keys: HashKeys| {
    /// #     let filter = TimingSpec::time(60_000, 0, 1 << 16).unwrap();
    /// #     Arc::new(Plan {
    /// #         reader: Arc::new(Reader::new(EventSpec::of_item(vec!["id".parse().unwrap()]), keys).unwrap()),
    /// #         max_skew_ms: 0,
    /// #         dedup: DedupSpec::new(FilterSpec::learning(filter, 64).unwrap(), Seen::First),
    /// #         frequency: None,
    /// #         aggregates: Vec::new(),
    /// #     })
    /// # };
    /// let (old, new) = (HashKey::new([1; 16]), HashKey::new([2; 16]));
    /// let mut shard = Shard::new(plan(old.clone().into()), 0)?;
    /// shard.apply(Record { offset: 0, timestamp_ms: 0, payload: br#"{"id": 7}"# });
    ///
    /// let rotating = plan(HashKeys { current: new, previous: Some(old), routing: None });
    /// let mut shard = Shard::restore(rotating, 0, &shard.snapshot())?;
    /// let repeat = shard.apply(Record { offset: 1, timestamp_ms: 1_000, payload: br#"{"id": 7}"# });
    /// assert_eq!(repeat.verdict, Verdict::Duplicate);
    /// assert!(shard.status().needs_previous_key);
    ///
    /// shard.apply(Record { offset: 2, timestamp_ms: 120_000, payload: br#"{"id": 8}"# });
    /// assert!(!shard.status().needs_previous_key);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore(plan: Arc<Plan>, partition: u32, bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = codec::Reader::open(KIND, VERSION, bytes)?;
        let identity = reader.raw(32)?;
        let is_previous = plan.previous_identity().is_some_and(|previous| identity == previous);
        if identity != plan.identity() && !is_previous {
            return Err(CodecError::invalid("plan", "the state was made under another configuration or hash key"));
        }
        let stored_partition = reader.u32()?;
        if stored_partition != partition {
            return Err(CodecError::invalid("partition", format!("{stored_partition} instead of {partition}")));
        }
        let next = NextOffset(reader.u64()?);
        let clock_ms = match (reader.u8()?, reader.i64()?) {
            (0, 0) => None,
            (1, clock) => Some(clock),
            _ => return Err(CodecError::invalid("clock", "the presence flag is neither 0 nor 1")),
        };
        let mut counts = VerdictCounts::default().as_array();
        for count in &mut counts {
            *count = reader.u64()?;
        }
        let counts = VerdictCounts::from_array(counts);
        let stored = match reader.version() {
            VERSION_WITHOUT_KEY_ROTATION => None,
            _ => KeyRotation::decode(&mut reader)?,
        };
        let previous = plan.reader.previous_key_digest();
        let begun = clock_ms.filter(|_| is_previous).zip(previous).map(|(since_ms, previous)| KeyRotation {
            previous,
            since_ms,
            since_events: counts.accepted(),
        });
        let rotation = match (stored, begun) {
            (Some(_), Some(_)) => return Err(CodecError::invalid(HASH_KEY, ROTATED_TWICE)),
            (Some(stored), None) if Some(stored.previous) != previous => {
                return Err(CodecError::invalid(HASH_KEY, PREVIOUS_KEY_NEEDED));
            }
            (stored, begun) => stored.or(begun),
        };
        let dedup = Dedup::decode(&plan.dedup, &mut reader)?;
        let frequency = match plan.frequency {
            None => None,
            Some(_) => Some(FrequencyView::decode(plan.reader.spec(), &mut reader)?),
        };
        let aggregates: Result<Vec<_>, _> =
            plan.aggregates.iter().map(|spec| Aggregate::decode(spec, &mut reader)).collect();
        let aggregates = aggregates?;
        reader.finish()?;
        let seed = plan.reader.seed();
        Ok(Self { plan, partition, next, clock_ms, counts, dedup, frequency, aggregates, seed, rotation })
    }
}
