//! What a shard computes: shared by all shards of a stream.

use std::sync::Arc;

use super::aggregate::{AggregateError, AggregateSpec};
use super::dedup::DedupSpec;
use super::reader::Reader;
use super::spec::{EventSpec, Path};
use ebb_sketch::codec::Writer;
use ebb_sketch::filter::frequency::FrequencySpec;
use ebb_sketch::hash::KeyPrint;

/// How events are read and which views are kept of them.
#[derive(Debug, Clone)]
pub struct Plan {
    pub reader: Arc<Reader>,
    /// An event dated later than this after its record is rejected: one poisoned timestamp must not expire the window.
    pub max_skew_ms: u64,
    pub dedup: DedupSpec,
    pub frequency: Option<FrequencySpec>,
    /// Of different names.
    pub aggregates: Vec<AggregateSpec>,
}

impl Plan {
    /// Names everything on which the meaning of a snapshot depends: state made under another identity is not read.
    /// What only changes later decisions (limits, skew, penalties and the numbers only they refer to) is left out, so that
    /// it can be changed without forgetting.
    pub fn identity(&self) -> [u8; 32] {
        self.identity_under(self.reader.key_print())
    }

    /// The identity of state made under the previous hash key, where there is one: it is read, and its turn begins.
    pub fn former_identity(&self) -> Option<[u8; 32]> {
        self.reader.previous_print().map(|print| self.identity_under(print))
    }

    fn identity_under(&self, print: KeyPrint) -> [u8; 32] {
        let mut writer = Writer::new(*b"plan", 1);
        write_event(&mut writer, self.reader.spec(), self.measured_numbers());
        self.dedup.write_identity(&mut writer);
        match &self.frequency {
            None => writer.u8(0),
            Some(frequency) => {
                writer.u8(1);
                frequency.write_identity(&mut writer);
            }
        }
        writer.raw(&print.0);
        self.aggregates.iter().for_each(|aggregate| aggregate.write_identity(&mut writer));
        *blake3::hash(&writer.seal()).as_bytes()
    }

    /// How many of the event's numbers, from the first on, aggregates may add up.
    fn measured_numbers(&self) -> usize {
        self.aggregates.iter().filter_map(AggregateSpec::measured_number).map(|place| place + 1).max().unwrap_or(0)
    }

    /// An aggregate by its name, and its place.
    pub fn aggregate(&self, name: &str) -> Result<(usize, &AggregateSpec), AggregateError> {
        let found = self.aggregates.iter().enumerate().find(|(_, spec)| spec.name() == name);
        found.ok_or_else(|| AggregateError::Unknown {
            asked: name.to_owned(),
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
    writer.u8(event.time.as_ref().map_or(0, |(_, unit)| 1 + *unit as u8));
}
