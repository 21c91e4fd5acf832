//! Aggregates on their way to another instance: what several have seen, as one answer.
//!
//! An export is a sealed block behind its length, so that exports put one after the other are several exports. It tells
//! of which log and partitions it is, and is read only by an aggregate of the same specification under the same hash key
//! (X1). Parts that would be counted twice are refused, unless the method ignores repeats (X2); where events have no id,
//! positions of different logs are no ids either (X3). Neither the key nor anything drawn from it stands in an export (X4):
//! only a one-way print of all that must agree.

use super::answer::PartialAggregate;
use super::question::{AggregateError, KeyScope};
use super::spec::{AggregateSpec, Measure, Method, Selection};
use super::texts::Texts;
use crate::event_spec::Path;
use crate::offset::AsOf;
use crate::offset::NextOffset;
use crate::plan::Plan;
use ebb_sketch::aggregate::content::TIME_MOST_MS;
use ebb_sketch::aggregate::robust::Parameters;
use ebb_sketch::codec::{CodecError, Kind, Reader, Writer};
use ebb_sketch::decay::Decay;
use ebb_sketch::hash::Fingerprint;

/// How many exports one answer may be made of.
pub const MAX_EXPORTS: usize = 256;

const FRAME: Kind = *b"ebbx";
const KIND: Kind = *b"aexp";
const VERSION: u16 = 1;

/// Tells logs apart, and nothing more of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogDigest(pub [u8; 16]);

/// Of which events, without the key itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Whole,
    Other,
    Key([u8; 16]),
}

/// See the module.
#[derive(Debug)]
struct AggregateExport {
    log: LogDigest,
    /// How many partitions the log has.
    partitions: u32,
    scope: Scope,
    part: PartialAggregate,
}

/// Exports that belong together, ready to be asked.
#[derive(Debug)]
pub struct MergedExports {
    pub parts: Vec<PartialAggregate>,
    /// Of each partition that an export is of: its log, and how many partitions that has.
    pub logs: Vec<(LogDigest, u32)>,
}

/// Why exports do not make an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    #[error("export {place} cannot be read: {why}")]
    Damaged { place: usize, why: String },
    #[error(
        "export {place} is of another kind of aggregate, or was made under another hash key; of, over, method, epsilon, \
         delta, decay, horizon, top, step, max and weights must be the same"
    )]
    Foreign { place: usize },
    #[error(
        "exports {first} and {second} both hold partition {partition} of one log, and {} would count its events twice; \
         leave one out", method.name()
    )]
    Twice { first: usize, second: usize, partition: u32, method: Method },
    #[error(
        "the exports are of different logs whose events have no id, so that an event of one cannot be told from one of \
         the other; name a field as event.id"
    )]
    NoIds,
    #[error("there is no export; send at least one")]
    None,
    #[error("more than {MAX_EXPORTS} exports; merge some of them first")]
    TooMany,
}

impl Plan {
    /// An export of what shards of this plan have said.
    pub fn export(
        &self,
        aggregate: &str,
        scope: KeyScope,
        (log, partitions): (LogDigest, u32),
        parts: Vec<PartialAggregate>,
    ) -> Result<Vec<u8>, AggregateError> {
        let (place, _) = self.aggregate(aggregate)?;
        let scope = match scope {
            KeyScope::Whole => Scope::Whole,
            KeyScope::Other => Scope::Other,
            KeyScope::Key(key) => Scope::Key(print_of(key)),
        };
        let part = PartialAggregate::gathered(parts)?;
        if part.sketches.is_empty() {
            return Err(AggregateError::NoSuchKey);
        }
        let block = AggregateExport { log, partitions, scope, part }.seal(&self.export_identity(place));
        let mut framed = FRAME.to_vec();
        framed.extend_from_slice(&(block.len() as u64).to_le_bytes());
        framed.extend_from_slice(&block);
        Ok(framed)
    }

    /// Reads exports that stand one after the other and looks whether they may be added up.
    pub fn merge_exports(&self, aggregate: &str, bytes: &[u8]) -> Result<MergedExports, AggregateError> {
        let (place, spec) = self.aggregate(aggregate)?;
        let identity = self.export_identity(place);
        let mut exports = Vec::new();
        for (index, block) in frames(bytes)?.into_iter().enumerate() {
            exports.push(AggregateExport::open(spec, &identity, block, index + 1)?);
        }
        self.check_together(spec, &exports)?;
        let logs = exports.iter().flat_map(|export| export.part.as_of.iter().map(|_| (export.log, export.partitions)));
        let logs = logs.collect();
        Ok(MergedExports { parts: exports.into_iter().map(|export| export.part).collect(), logs })
    }

    fn check_together(&self, spec: &AggregateSpec, exports: &[AggregateExport]) -> Result<(), ExportError> {
        let method = spec.parameters().method;
        let Some(first) = exports.first() else { return Err(ExportError::None) };
        if method.ignores_repeats() {
            let by_position = self.reader.spec().id.is_none();
            let several = exports.iter().any(|export| export.log != first.log);
            return if by_position && several { Err(ExportError::NoIds) } else { Ok(()) };
        }
        for (later, export) in exports.iter().enumerate() {
            for (earlier, other) in exports[..later].iter().enumerate() {
                if let Some(partition) = export.overlaps(other) {
                    return Err(ExportError::Twice { first: earlier + 1, second: later + 1, partition, method });
                }
            }
        }
        Ok(())
    }

    /// Names all that exports must agree in to be added up. What the aggregate is called and how many keys it has a place
    /// for is not part of it: another stream may keep the same.
    fn export_identity(&self, place: usize) -> [u8; 32] {
        let given = self.aggregates[place].parameters();
        let event = self.reader.spec();
        let mut writer = Writer::new(*b"xspc", 1);
        let mut path = |path: Option<&Path>| writer.bytes(path.map(Path::to_string).unwrap_or_default().as_bytes());
        path(match given.of {
            Measure::Count => None,
            Measure::Value => event.value.as_ref(),
            Measure::Weight => event.weight.as_ref(),
            Measure::Number(place) => event.numbers.get(place),
        });
        path(event.weight.as_ref().filter(|_| given.counts_by_weight()));
        path(given.top.and_then(|place| event.labels.get(place)));
        writer.u8(u8::from(given.of == Measure::Count));
        writer.u8(u8::from(given.over == Selection::Unique));
        writer.bytes(given.method.name().as_bytes());
        let fixed = matches!(given.method, Method::Integral | Method::Forward | Method::Division);
        writer.bytes(given.decay.as_ref().filter(|_| fixed).map(Decay::to_string).unwrap_or_default().as_bytes());
        [given.epsilon, given.delta, given.step, given.max].into_iter().for_each(|number| writer.f64(number));
        writer.u64(given.horizon_ms);
        writer.u8(u8::from(given.counts_by_weight()));
        writer.u8(u8::from(event.id.is_some()));
        writer.u64(given.seed);
        writer.raw(&self.reader.key_digest().0);
        *blake3::hash(&writer.seal()).as_bytes()
    }
}

/// The blocks of exports that stand one after the other.
fn frames(mut bytes: &[u8]) -> Result<Vec<&[u8]>, ExportError> {
    let mut blocks = Vec::new();
    while !bytes.is_empty() {
        let damaged = |why: &str| ExportError::Damaged { place: blocks.len() + 1, why: why.into() };
        let rest = bytes.strip_prefix(&FRAME).ok_or_else(|| damaged("it does not begin like one"))?;
        let (length, rest) = rest.split_first_chunk::<8>().ok_or_else(|| damaged("it ends too early"))?;
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let (block, rest) = rest.split_at_checked(length).ok_or_else(|| damaged("it ends too early"))?;
        if blocks.len() == MAX_EXPORTS {
            return Err(ExportError::TooMany);
        }
        blocks.push(block);
        bytes = rest;
    }
    Ok(blocks)
}

/// Equal for equal keys; the fingerprint of the key cannot be had from it.
fn print_of(key: Fingerprint) -> [u8; 16] {
    let hash = blake3::derive_key("ebb aggregate export: key", &key.0.to_le_bytes());
    std::array::from_fn(|place| hash[place])
}

impl AggregateExport {
    /// A partition whose events would be counted twice.
    fn overlaps(&self, other: &Self) -> Option<u32> {
        let apart = match (self.scope, other.scope) {
            (Scope::Whole, _) | (_, Scope::Whole) => false,
            (mine, theirs) => mine != theirs,
        };
        let is_shared = |partition: &u32| other.part.as_of.iter().any(|as_of| as_of.partition == *partition);
        let mut mine = self.part.as_of.iter().map(|as_of| as_of.partition);
        if self.log != other.log || apart { None } else { mine.find(is_shared) }
    }

    fn seal(&self, identity: &[u8; 32]) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        writer.raw(identity);
        writer.raw(&self.log.0);
        writer.u32(self.partitions);
        let (scope, key) = match self.scope {
            Scope::Whole => (0, [0; 16]),
            Scope::Other => (1, [0; 16]),
            Scope::Key(key) => (2, key),
        };
        writer.u8(scope);
        writer.raw(&key);
        writer.varint(self.part.as_of.len() as u64);
        for as_of in &self.part.as_of {
            writer.u32(as_of.partition);
            writer.u64(as_of.next.0);
            write_time(&mut writer, as_of.time_ms);
        }
        write_time(&mut writer, self.part.missed_ms);
        Texts::write_some(&self.part.texts, &mut writer);
        writer.varint(self.part.sketches.len() as u64);
        self.part.sketches.iter().for_each(|sketch| sketch.write_with(&mut writer, Parameters::LeftOut));
        writer.seal()
    }

    fn open(spec: &AggregateSpec, identity: &[u8; 32], block: &[u8], place: usize) -> Result<Self, ExportError> {
        let damaged = |error: CodecError| ExportError::Damaged { place, why: error.to_string() };
        let mut reader = Reader::open(KIND, VERSION, block).map_err(damaged)?;
        if reader.raw(32).map_err(damaged)? != identity {
            return Err(ExportError::Foreign { place });
        }
        Self::read(spec, reader).map_err(damaged)
    }

    fn read(spec: &AggregateSpec, mut reader: Reader<'_>) -> Result<Self, CodecError> {
        let (log, partitions) = (LogDigest(print(&mut reader)?), reader.u32()?);
        let scope = match (reader.u8()?, print(&mut reader)?) {
            (0, key) if key == [0; 16] => Scope::Whole,
            (1, key) if key == [0; 16] => Scope::Other,
            (2, key) => Scope::Key(key),
            _ => return Err(CodecError::invalid("scope", "neither all, nor other, nor a key")),
        };
        let mut as_of: Vec<AsOf> = Vec::new();
        for _ in 0..reader.count(4 + 8 + 9)? {
            let (partition, next) = (reader.u32()?, NextOffset(reader.u64()?));
            as_of.push(AsOf { partition, next, time_ms: read_time(&mut reader)? });
        }
        let missed_ms = read_time(&mut reader)?;
        let texts = Texts::read_some(&mut reader)?;
        let count = reader.count(1)?;
        // MergedExports, there is one; otherwise each partition has its own.
        if count == 0 || count > as_of.len().max(1) || as_of.is_empty() {
            return Err(CodecError::invalid("sketches", "not as many as there may be"));
        }
        let mut sketches = Vec::new();
        for _ in 0..count {
            sketches.push(spec.read_sketch_with(&mut reader, Parameters::LeftOut)?);
        }
        reader.finish()?;
        Ok(Self { log, partitions, scope, part: PartialAggregate { as_of, sketches, missed_ms, texts } })
    }
}

fn print(reader: &mut Reader<'_>) -> Result<[u8; 16], CodecError> {
    let bytes = reader.raw(16)?;
    Ok(std::array::from_fn(|place| bytes[place]))
}

fn write_time(writer: &mut Writer, time_ms: Option<i64>) {
    writer.u8(u8::from(time_ms.is_some()));
    writer.i64(time_ms.unwrap_or(0));
}

/// Times beyond those of events would let sums of times overflow.
fn read_time(reader: &mut Reader<'_>) -> Result<Option<i64>, CodecError> {
    match (reader.u8()?, reader.i64()?) {
        (0, 0) => Ok(None),
        (1, time_ms) if (-TIME_MOST_MS..=TIME_MOST_MS).contains(&time_ms) => Ok(Some(time_ms)),
        _ => Err(CodecError::invalid("time", "neither absent nor a time of an event")),
    }
}
