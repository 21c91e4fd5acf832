//! The configuration of a fold, shared by all shards of a stream.

use std::sync::Arc;

use super::aggregate::{AggregateError, AggregateSpec};
use super::dedup::DedupSpec;
use super::event_spec::{EventSpec, Path};
use super::frequency::{self, FrequencyPlan};
use super::reader::Reader;
use ebb_sketch::codec::Writer;
use ebb_sketch::hash::KeyDigest;

/// How events are read, and which views are kept over them.
///
/// ```
/// use std::sync::Arc;
/// use ebb_core::{DedupSpec, EventSpec, FilterSpec, Plan, Reader, Seen};
/// use ebb_sketch::{filter::structure::timing::TimingSpec, hash::HashKey};
///
/// let event = EventSpec::of_item(vec!["ip".parse()?, "ad".parse()?]);
/// let filter = TimingSpec::time(86_400_000, 60_000, 1 << 20)?; // 24 h, 1 min of lateness, 1 MiB
/// let plan = Plan {
///     reader: Arc::new(Reader::new(event, HashKey::new([7; 16]))?),
///     max_skew_ms: 60_000,
///     dedup: DedupSpec::new(FilterSpec::learning(filter, 1024)?, Seen::First),
///     frequency: None,
///     aggregates: Vec::new(),
/// };
/// // State depends on the item's fields, but not on the allowed skew.
/// assert_eq!(plan.identity(), Plan { max_skew_ms: 0, ..plan.clone() }.identity());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Plan {
    /// Reads events and hashes their items.
    pub reader: Arc<Reader>,
    /// An event whose time is later than its record's timestamp by more than this is rejected: one poisoned timestamp
    /// must not expire the whole window.
    pub max_skew_ms: u64,
    /// The dedup view.
    pub dedup: DedupSpec,
    /// The frequency view.
    pub frequency: Option<FrequencyPlan>,
    /// The aggregates, with distinct names.
    pub aggregates: Vec<AggregateSpec>,
}

impl Plan {
    /// A digest of everything that the meaning of a snapshot depends on; state of another identity is not restored.
    ///
    /// Settings that only affect later decisions (limits, skew, penalties and the numbers that only penalties use) are
    /// not included, so that they can be changed without losing state.
    pub fn identity(&self) -> [u8; 32] {
        self.identity_under(self.reader.key_digest())
    }

    /// The identity of state made under the previous hash key, if one is configured. Restoring such state begins the
    /// rotation of the key.
    pub fn previous_identity(&self) -> Option<[u8; 32]> {
        self.reader.previous_key_digest().map(|digest| self.identity_under(digest))
    }

    fn identity_under(&self, key_digest: KeyDigest) -> [u8; 32] {
        let mut writer = Writer::new(*b"plan", 1);
        write_event(&mut writer, self.reader.spec(), self.measured_numbers());
        self.dedup.write_identity(&mut writer);
        frequency::write_identity(self.frequency.as_ref(), self.reader.spec(), &mut writer);
        writer.raw(&key_digest.0);
        self.aggregates.iter().for_each(|aggregate| aggregate.write_identity(&mut writer));
        *blake3::hash(&writer.seal()).as_bytes()
    }

    /// Length of the prefix of the event's numbers that contains all measures of aggregates.
    fn measured_numbers(&self) -> usize {
        self.aggregates.iter().filter_map(AggregateSpec::measured_number).map(|index| index + 1).max().unwrap_or(0)
    }

    /// The index and specification of the aggregate `name`.
    pub fn aggregate(&self, name: &str) -> Result<(usize, &AggregateSpec), AggregateError> {
        let named = self.aggregates.iter().enumerate().find(|(_, spec)| spec.name() == name);
        named.ok_or_else(|| AggregateError::Unknown {
            requested: name.to_owned(),
            known: self.aggregates.iter().map(|spec| spec.name().to_owned()).collect(),
        })
    }
}

fn write_event(writer: &mut Writer, event: &EventSpec, measured_numbers: usize) {
    let measured = &event.numbers[..measured_numbers.min(event.numbers.len())];
    let mut path = |path: Option<&Path>| writer.bytes(path.map(Path::to_string).unwrap_or_default().as_bytes());
    let single = [&event.key, &event.id, &event.value, &event.weight, &event.importance];
    single.into_iter().for_each(|one| path(one.as_ref()));
    path(event.time.as_ref().map(|(path, _)| path));
    for list in [event.item.as_slice(), &event.labels, measured] {
        list.iter().for_each(|one| path(Some(one)));
        path(None);
    }
    if let Some(classes) = &event.importance_classes {
        writer.varint(classes.iter().count() as u64);
        for (name, importance) in classes.iter().chain(classes.other().map(|other| ("*", other))) {
            writer.bytes(name.as_bytes());
            writer.f64(importance);
        }
    }
    writer.u8(event.time.as_ref().map_or(0, |(_, unit)| 1 + *unit as u8));
}
