//! What an export covers: partitions of logs, each wholly or one key of it.

use super::question::KeyScope;
use crate::offset::{AsOf, NextOffset};
use ebb_sketch::aggregate::MAX_TIME_MS;
use ebb_sketch::codec::{CodecError, Reader, Writer};
use ebb_sketch::hash::Fingerprint;

/// A digest that identifies a log without naming it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogDigest(pub [u8; 16]);

/// A [`KeyScope`] with a digest in place of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExportScope {
    Whole,
    Other,
    Key([u8; 16]),
}

/// A partition that an export covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExportSource {
    pub log: LogDigest,
    /// Number of partitions of the log.
    pub partitions: u32,
    pub scope: ExportScope,
    pub as_of: AsOf,
}

/// A one-way digest of a key.
fn key_digest(key: Fingerprint) -> [u8; 16] {
    let hash = blake3::derive_key("ebb aggregate export: key", &key.0.to_le_bytes());
    std::array::from_fn(|index| hash[index])
}

impl From<KeyScope> for ExportScope {
    fn from(scope: KeyScope) -> Self {
        match scope {
            KeyScope::Whole => Self::Whole,
            KeyScope::Other => Self::Other,
            KeyScope::Key(key) => Self::Key(key_digest(key)),
        }
    }
}

impl ExportSource {
    pub fn is_same(&self, other: &Self) -> bool {
        (self.log, self.as_of.partition, self.scope) == (other.log, other.as_of.partition, other.scope)
    }

    /// Whether events may be in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let is_disjoint = match (self.scope, other.scope) {
            (ExportScope::Whole, _) | (_, ExportScope::Whole) => false,
            (mine, theirs) => mine != theirs,
        };
        self.log == other.log && self.as_of.partition == other.as_of.partition && !is_disjoint
    }

    pub fn encode(&self, writer: &mut Writer) {
        writer.raw(&self.log.0);
        writer.u32(self.partitions);
        let (scope, key) = match self.scope {
            ExportScope::Whole => (0, [0; 16]),
            ExportScope::Other => (1, [0; 16]),
            ExportScope::Key(key) => (2, key),
        };
        writer.u8(scope);
        writer.raw(&key);
        writer.u32(self.as_of.partition);
        writer.u64(self.as_of.next.0);
        write_time(writer, self.as_of.time_ms);
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let (log, partitions, scope) = read_log(reader)?;
        Ok(Self { log, partitions, scope, as_of: read_position(reader)? })
    }
}

/// The sources of an export of one log.
pub(super) fn read_one_log(reader: &mut Reader<'_>) -> Result<Vec<ExportSource>, CodecError> {
    let (log, partitions, scope) = read_log(reader)?;
    let source = |as_of| ExportSource { log, partitions, scope, as_of };
    (0..reader.count(4 + 8 + 9)?).map(|_| read_position(reader).map(source)).collect()
}

fn read_log(reader: &mut Reader<'_>) -> Result<(LogDigest, u32, ExportScope), CodecError> {
    let (log, partitions) = (LogDigest(read_digest(reader)?), reader.u32()?);
    let scope = match (reader.u8()?, read_digest(reader)?) {
        (0, key) if key == [0; 16] => ExportScope::Whole,
        (1, key) if key == [0; 16] => ExportScope::Other,
        (2, key) => ExportScope::Key(key),
        _ => return Err(CodecError::invalid("scope", "unknown scope")),
    };
    Ok((log, partitions, scope))
}

fn read_position(reader: &mut Reader<'_>) -> Result<AsOf, CodecError> {
    let (partition, next) = (reader.u32()?, NextOffset(reader.u64()?));
    Ok(AsOf { partition, next, time_ms: read_time(reader)? })
}

fn read_digest(reader: &mut Reader<'_>) -> Result<[u8; 16], CodecError> {
    let bytes = reader.raw(16)?;
    Ok(std::array::from_fn(|index| bytes[index]))
}

pub(super) fn write_time(writer: &mut Writer, time_ms: Option<i64>) {
    writer.u8(u8::from(time_ms.is_some()));
    writer.i64(time_ms.unwrap_or(0));
}

/// Refuses times out of range, because sums of times would overflow.
pub(super) fn read_time(reader: &mut Reader<'_>) -> Result<Option<i64>, CodecError> {
    match (reader.u8()?, reader.i64()?) {
        (0, 0) => Ok(None),
        (1, time_ms) if (-MAX_TIME_MS..=MAX_TIME_MS).contains(&time_ms) => Ok(Some(time_ms)),
        _ => Err(CodecError::invalid("time", "out of range")),
    }
}
