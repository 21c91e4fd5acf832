//! Exports of aggregates, for merging across instances.
//!
//! An export is a sealed block behind its length, so that concatenated exports are several exports. It names the logs and
//! partitions that it covers. Exports merge into an export, so that regions can be combined step by step.
//!
//! - X1: an export is read only by an aggregate of the same specification under the same hash key.
//! - X2: events that would be counted twice are refused, unless the method ignores duplicates.
//! - X3: without event ids, exports of different logs are refused, because positions identify events only within a log.
//! - X4: an export contains neither the hash key nor anything derived from it but a one-way digest.

use super::export_source::{ExportSource, LogDigest, read_one_log, read_time, write_time};
use super::label_texts::LabelTexts;
use super::method::{Measure, Method, Selection};
use super::partial::PartialAggregate;
use super::question::{AggregateError, KeyScope};
use super::sketch::SketchFormat;
use super::spec::AggregateSpec;
use crate::event_spec::Path;
use crate::plan::Plan;
use ebb_sketch::codec::{CodecError, Kind, Reader, Writer};

/// Maximum number of exports that can be merged into one answer.
pub const MAX_EXPORTS: usize = 256;

const FRAME: Kind = *b"ebbx";
const KIND: Kind = *b"aexp";
const VERSION: u16 = 2;
/// Exports of this version cover one log, and their sketches are never coarsened.
const VERSION_OF_ONE_LOG: u16 = 1;

/// One export, decoded.
#[derive(Debug)]
struct AggregateExport {
    /// At least one, in the order of the positions of `partial`.
    sources: Vec<ExportSource>,
    partial: PartialAggregate,
}

/// Exports that fit together.
#[derive(Debug)]
pub struct MergedExports {
    /// The content of the exports, for [`AggregateSpec::answer`].
    pub partials: Vec<PartialAggregate>,
    /// For each exported partition its log, and the number of partitions of that log.
    pub logs: Vec<(LogDigest, u32)>,
}

/// Why exports cannot be merged. Exports are numbered from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// An export is not valid.
    #[error("export {number} cannot be read: {why}")]
    Damaged {
        /// The number of the export.
        number: usize,
        /// What is wrong with it.
        why: String,
    },
    /// An export has another specification or hash key (X1).
    #[error(
        "export {number} has another specification or hash key; of, over, method, epsilon, delta, decay, horizon, top, \
         step, max and weights must be the same"
    )]
    SpecMismatch {
        /// The number of the export.
        number: usize,
    },
    /// Two exports contain the same partition, and the method counts duplicates (X2).
    #[error(
        "exports {first} and {second} both contain partition {partition} of one log, and {} would count its events twice; \
         omit one of them", method.name()
    )]
    DuplicatePartition {
        /// The number of the first export.
        first: usize,
        /// The number of the second export.
        second: usize,
        /// The partition that both contain.
        partition: u32,
        /// The method of the aggregate.
        method: Method,
    },
    /// The exports are of different logs, and events have no ids (X3).
    #[error(
        "the exports are of different logs whose events have no ids, so that duplicates between them cannot be detected; \
         configure event.id"
    )]
    NoIds,
    /// The request contains no export.
    #[error("the request contains no export; send at least one")]
    Missing,
    /// The request contains too many exports.
    #[error("the request contains more than {MAX_EXPORTS} exports; send fewer")]
    TooMany,
}

impl Plan {
    /// Encodes the partial aggregates of shards of this plan as one export.
    pub fn export(
        &self,
        aggregate: &str,
        scope: KeyScope,
        (log, partitions): (LogDigest, u32),
        partials: Vec<PartialAggregate>,
    ) -> Result<Vec<u8>, AggregateError> {
        let (index, _) = self.aggregate(aggregate)?;
        let scope = scope.into();
        let partial = PartialAggregate::combine(partials)?;
        if partial.sketches.is_empty() {
            return Err(AggregateError::NoSuchKey);
        }
        let sources = partial.as_of.iter().map(|as_of| ExportSource { log, partitions, scope, as_of: *as_of });
        let export = AggregateExport { sources: sources.collect(), partial };
        Ok(export.frame(&self.export_identity(index)))
    }

    /// Reads concatenated exports and checks that they can be merged.
    pub fn merge_exports(&self, aggregate: &str, bytes: &[u8]) -> Result<MergedExports, AggregateError> {
        let exports = self.read_exports(aggregate, bytes)?;
        let sources = exports.iter().flat_map(|export| &export.sources);
        let logs = sources.map(|source| (source.log, source.partitions)).collect();
        Ok(MergedExports { partials: exports.into_iter().map(|export| export.partial).collect(), logs })
    }

    /// Merges concatenated exports into one export, which covers all that they cover and merges like any other.
    pub fn combine_exports(&self, aggregate: &str, bytes: &[u8]) -> Result<Vec<u8>, AggregateError> {
        let exports = self.read_exports(aggregate, bytes)?;
        let mut sources: Vec<ExportSource> = Vec::new();
        for source in exports.iter().flat_map(|export| &export.sources) {
            match sources.iter_mut().find(|known| known.is_same(source)) {
                None => sources.push(*source),
                Some(known) if known.as_of.next < source.as_of.next => known.as_of = source.as_of,
                Some(_) => {}
            }
        }
        let partial = PartialAggregate::combine(exports.into_iter().map(|export| export.partial))?;
        let partial = PartialAggregate { as_of: sources.iter().map(|source| source.as_of).collect(), ..partial };
        Ok(AggregateExport { sources, partial }.frame(&self.export_identity(self.aggregate(aggregate)?.0)))
    }

    fn read_exports(&self, aggregate: &str, bytes: &[u8]) -> Result<Vec<AggregateExport>, AggregateError> {
        let (index, spec) = self.aggregate(aggregate)?;
        let identity = self.export_identity(index);
        let mut exports = Vec::new();
        for (number, block) in (1..).zip(frames(bytes)?) {
            exports.push(AggregateExport::open(spec, &identity, block, number)?);
        }
        self.check_compatible(spec, &exports)?;
        Ok(exports)
    }

    fn check_compatible(&self, spec: &AggregateSpec, exports: &[AggregateExport]) -> Result<(), ExportError> {
        let method = spec.parameters().method;
        let mut sources = exports.iter().flat_map(|export| &export.sources);
        let Some(first) = sources.next() else { return Err(ExportError::Missing) };
        if method.ignores_repeats() {
            let has_ids = self.reader.spec().id.is_some();
            let is_one_log = sources.all(|source| source.log == first.log);
            return if !has_ids && !is_one_log { Err(ExportError::NoIds) } else { Ok(()) };
        }
        for (later, export) in exports.iter().enumerate() {
            for (earlier, other) in exports[..later].iter().enumerate() {
                if let Some(partition) = export.overlaps(other) {
                    return Err(ExportError::DuplicatePartition {
                        first: earlier + 1,
                        second: later + 1,
                        partition,
                        method,
                    });
                }
            }
        }
        Ok(())
    }

    /// A digest of everything that exports must agree in (X1). The name of the aggregate and its number of keys are not
    /// included, so that exports of different streams can be merged.
    fn export_identity(&self, index: usize) -> [u8; 32] {
        let parameters = self.aggregates[index].parameters();
        let event = self.reader.spec();
        let mut writer = Writer::new(*b"xspc", 1);
        let mut path = |path: Option<&Path>| writer.bytes(path.map(Path::to_string).unwrap_or_default().as_bytes());
        path(match parameters.of {
            Measure::Count => None,
            Measure::Value => event.value.as_ref(),
            Measure::Weight => event.weight.as_ref(),
            Measure::Number(index) => event.numbers.get(index),
            Measure::Distinct(index) => event.labels.get(index),
        });
        path(event.weight.as_ref().filter(|_| parameters.counts_by_weight()));
        path(parameters.top.and_then(|index| event.labels.get(index)));
        writer.u8(match parameters.of {
            Measure::Value | Measure::Weight | Measure::Number(_) => 0,
            Measure::Count => 1,
            Measure::Distinct(_) => 2,
        });
        writer.u8(u8::from(parameters.over == Selection::Unique));
        writer.bytes(parameters.method.name().as_bytes());
        writer.bytes(parameters.fixed_decay().as_bytes());
        [parameters.epsilon, parameters.delta, parameters.step, parameters.max]
            .into_iter()
            .for_each(|number| writer.f64(number));
        writer.u64(parameters.horizon_ms);
        writer.u8(u8::from(parameters.counts_by_weight()));
        writer.u8(u8::from(event.id.is_some()));
        writer.u64(parameters.seed);
        writer.raw(&self.reader.key_digest().0);
        *blake3::hash(&writer.seal()).as_bytes()
    }
}

#[cfg(test)]
impl Plan {
    /// An export as version 1 wrote it.
    pub(super) fn export_of_one_log(
        &self,
        aggregate: &str,
        log: (LogDigest, u32),
        partial: &PartialAggregate,
    ) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION_OF_ONE_LOG);
        writer.raw(&self.export_identity(self.aggregate(aggregate).unwrap().0));
        writer.raw(&log.0.0);
        writer.u32(log.1);
        writer.raw(&[0; 17]);
        writer.varint(partial.as_of.len() as u64);
        for as_of in &partial.as_of {
            writer.u32(as_of.partition);
            writer.u64(as_of.next.0);
            write_time(&mut writer, as_of.time_ms);
        }
        write_time(&mut writer, partial.missed_ms);
        LabelTexts::encode_map(&partial.texts, &mut writer);
        writer.varint(partial.sketches.len() as u64);
        let format = SketchFormat::EXPORT.without_coarseness();
        partial.sketches.iter().for_each(|sketch| sketch.write(&mut writer, format));
        let block = writer.seal();
        [FRAME.as_slice(), &(block.len() as u64).to_le_bytes(), &block].concat()
    }
}

/// The blocks of concatenated exports.
fn frames(mut bytes: &[u8]) -> Result<Vec<&[u8]>, ExportError> {
    let mut blocks = Vec::new();
    while !bytes.is_empty() {
        let damaged = |why: &str| ExportError::Damaged { number: blocks.len() + 1, why: why.into() };
        let rest =
            bytes.strip_prefix(&FRAME).ok_or_else(|| damaged("it does not begin with the signature of an export"))?;
        let (length, rest) = rest.split_first_chunk::<8>().ok_or_else(|| damaged("it is truncated"))?;
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let (block, rest) = rest.split_at_checked(length).ok_or_else(|| damaged("it is truncated"))?;
        if blocks.len() == MAX_EXPORTS {
            return Err(ExportError::TooMany);
        }
        blocks.push(block);
        bytes = rest;
    }
    Ok(blocks)
}

impl AggregateExport {
    /// A partition whose events are in both exports.
    fn overlaps(&self, other: &Self) -> Option<u32> {
        let shared = self.sources.iter().find(|mine| other.sources.iter().any(|theirs| mine.overlaps(theirs)));
        shared.map(|source| source.as_of.partition)
    }

    /// The sealed block behind its length.
    fn frame(&self, identity: &[u8; 32]) -> Vec<u8> {
        let block = self.seal(identity);
        let mut framed = FRAME.to_vec();
        framed.extend_from_slice(&(block.len() as u64).to_le_bytes());
        framed.extend_from_slice(&block);
        framed
    }

    fn seal(&self, identity: &[u8; 32]) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        writer.raw(identity);
        writer.varint(self.sources.len() as u64);
        self.sources.iter().for_each(|source| source.encode(&mut writer));
        write_time(&mut writer, self.partial.missed_ms);
        LabelTexts::encode_map(&self.partial.texts, &mut writer);
        writer.varint(self.partial.sketches.len() as u64);
        self.partial.sketches.iter().for_each(|sketch| sketch.write(&mut writer, SketchFormat::EXPORT));
        writer.seal()
    }

    fn open(spec: &AggregateSpec, identity: &[u8; 32], block: &[u8], number: usize) -> Result<Self, ExportError> {
        let damaged = |error: CodecError| ExportError::Damaged { number, why: error.to_string() };
        let mut reader = Reader::open(KIND, VERSION, block).map_err(damaged)?;
        if reader.raw(32).map_err(damaged)? != identity {
            return Err(ExportError::SpecMismatch { number });
        }
        Self::read(spec, reader).map_err(damaged)
    }

    fn read(spec: &AggregateSpec, mut reader: Reader<'_>) -> Result<Self, CodecError> {
        let (sources, format) = match reader.version() {
            VERSION_OF_ONE_LOG => (read_one_log(&mut reader)?, SketchFormat::EXPORT.without_coarseness()),
            _ => {
                let count = reader.count(16 + 4 + 17 + 4 + 8 + 9)?;
                let sources = (0..count).map(|_| ExportSource::decode(&mut reader)).collect::<Result<Vec<_>, _>>()?;
                (sources, SketchFormat::EXPORT)
            }
        };
        let missed_ms = read_time(&mut reader)?;
        let texts = LabelTexts::decode_map(&mut reader)?;
        let count = reader.count(1)?;
        // One sketch if the method merges, otherwise one per partition.
        if count == 0 || count > sources.len() {
            return Err(CodecError::invalid("sketches", "wrong number of sketches"));
        }
        let mut sketches = Vec::new();
        for _ in 0..count {
            sketches.push(spec.read_sketch(&mut reader, format)?);
        }
        reader.finish()?;
        let as_of = sources.iter().map(|source| source.as_of).collect();
        Ok(Self { sources, partial: PartialAggregate { as_of, sketches, missed_ms, texts } })
    }
}
