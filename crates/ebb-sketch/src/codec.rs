//! State bytes: written canonically, read defensively.
//!
//! Every structure in a snapshot is one *sealed* block: kind, version, body, checksum. A [`Reader`] never panics, never
//! allocates from a length that it has not checked against the bytes present, and [`Reader::finish`] rejects trailing
//! bytes. Numbers are little-endian; counts and lengths are LEB128 varints.
//!
//! ```
//! use ebb_sketch::codec::{Reader, Writer};
//!
//! let mut writer = Writer::new(*b"demo", 1);
//! writer.varint(300);
//! writer.bytes(b"state");
//! let block = writer.seal();
//!
//! let mut reader = Reader::open(*b"demo", 1, &block).unwrap();
//! assert_eq!((reader.varint(), reader.bytes()), (Ok(300), Ok(&b"state"[..])));
//! assert!(reader.finish().is_ok());
//! assert!(Reader::open(*b"demo", 1, &block[1..]).is_err());
//! ```

use thiserror::Error;

/// Why bytes were rejected. Callers treat all variants alike: they do not use the bytes.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CodecError {
    /// The block ends before its last field.
    #[error("the bytes end too early")]
    Truncated,
    /// The block is of another kind.
    #[error("expected a block of kind {expected:?}, found {found:?}")]
    #[expect(missing_docs, reason = "the message says what the fields are")]
    Kind { expected: String, found: String },
    /// A newer build wrote the block.
    #[error("block {kind:?} has version {found}, this build reads up to {newest}")]
    #[expect(missing_docs, reason = "the message says what the fields are")]
    Version { kind: String, found: u16, newest: u16 },
    /// The bytes were damaged.
    #[error("block {kind:?} fails its checksum")]
    #[expect(missing_docs, reason = "the message says what the field is")]
    Checksum { kind: String },
    /// A value that no encoder writes.
    #[error("{what} is not valid: {reason}")]
    #[expect(missing_docs, reason = "the message says what the fields are")]
    Invalid { what: &'static str, reason: String },
    /// Bytes remain after the last field.
    #[error("{0} bytes are left over")]
    Trailing(usize),
}

impl CodecError {
    /// Whether this is an [`CodecError::Invalid`] value of the field `what`.
    pub fn is_about(&self, what: &str) -> bool {
        matches!(self, Self::Invalid { what: field, .. } if *field == what)
    }

    /// An invalid value of the field `what`.
    pub fn invalid(what: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid { what, reason: reason.into() }
    }
}

/// Four ASCII letters that identify a kind of block.
pub type Kind = [u8; 4];

const CHECKSUM_BYTES: usize = 8;

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let hash = blake3::hash(bytes);
    std::array::from_fn(|i| hash.as_bytes()[i])
}

fn name(kind: &[u8]) -> String {
    String::from_utf8_lossy(kind).into_owned()
}

/// Appends values to a block.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Starts a block.
    pub fn new(kind: Kind, version: u16) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&kind);
        bytes.extend_from_slice(&version.to_le_bytes());
        Self { bytes }
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Four bytes.
    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Sixteen bytes.
    pub fn u128(&mut self, value: u128) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Eight bytes, two's complement.
    pub fn i64(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// The IEEE bits, so that every value survives, NaN included.
    pub fn f64(&mut self, value: f64) {
        self.bytes.extend_from_slice(&value.to_bits().to_le_bytes());
    }

    /// A presence flag and the value; 0 if absent.
    pub fn option_i64(&mut self, value: Option<i64>) {
        self.u8(u8::from(value.is_some()));
        self.i64(value.unwrap_or(0));
    }

    /// LEB128: seven bits per byte, lowest first.
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Bytes without a length, for arrays whose size the reader knows.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes after their length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.raw(bytes);
    }

    /// Ends the block with its checksum and returns it.
    pub fn seal(mut self) -> Vec<u8> {
        let sum = checksum(&self.bytes);
        self.bytes.extend_from_slice(&sum);
        self.bytes
    }
}

/// Reads values from an untrusted block.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    version: u16,
}

impl<'a> Reader<'a> {
    /// Opens a block of `kind` with a version from 1 to `newest`, and verifies its checksum.
    pub fn open(kind: Kind, newest: u16, bytes: &'a [u8]) -> Result<Self, CodecError> {
        let (body, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(CodecError::Truncated)?;
        let (found, rest) = body.split_first_chunk::<4>().ok_or(CodecError::Truncated)?;
        let (version, rest) = rest.split_first_chunk::<2>().ok_or(CodecError::Truncated)?;
        if *found != kind {
            return Err(CodecError::Kind { expected: name(&kind), found: name(found) });
        }
        let version = u16::from_le_bytes(*version);
        if version == 0 || version > newest {
            return Err(CodecError::Version { kind: name(&kind), found: version, newest });
        }
        // Fuzzers must get past the checksum to the decoders.
        if checksum(body) != *sum && !cfg!(fuzzing) {
            return Err(CodecError::Checksum { kind: name(&kind) });
        }
        Ok(Self { bytes: rest, version })
    }

    /// The version of the block.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (head, rest) = self.bytes.split_first_chunk::<N>().ok_or(CodecError::Truncated)?;
        self.bytes = rest;
        Ok(*head)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, CodecError> {
        Ok(self.array::<1>()?[0])
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, CodecError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, CodecError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Sixteen bytes.
    pub fn u128(&mut self) -> Result<u128, CodecError> {
        self.array().map(u128::from_le_bytes)
    }

    /// Eight bytes, two's complement.
    pub fn i64(&mut self) -> Result<i64, CodecError> {
        self.array().map(i64::from_le_bytes)
    }

    /// The IEEE bits.
    pub fn f64(&mut self) -> Result<f64, CodecError> {
        self.u64().map(f64::from_bits)
    }

    /// What [`Writer::option_i64`] wrote; `what` names the field in errors.
    pub fn option_i64(&mut self, what: &'static str) -> Result<Option<i64>, CodecError> {
        match (self.u8()?, self.i64()?) {
            (0, 0) => Ok(None),
            (1, value) => Ok(Some(value)),
            (flag, value) => Err(CodecError::invalid(what, format!("flag {flag} with value {value}"))),
        }
    }

    /// A LEB128 number of at most 64 bits, without padding.
    pub fn varint(&mut self) -> Result<u64, CodecError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                return Err(CodecError::invalid("varint", "more than 64 bits"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                // Canonical bytes: every value has one encoding.
                return if byte == 0 && shift > 0 { Err(CodecError::invalid("varint", "padded")) } else { Ok(value) };
            }
        }
        Err(CodecError::invalid("varint", "longer than ten bytes"))
    }

    /// The number of items that follow, each at least `min_bytes` (not 0) long. A number that cannot fit is rejected.
    pub fn count(&mut self, min_bytes: usize) -> Result<usize, CodecError> {
        let count = self.varint()?;
        let max = (self.bytes.len() / min_bytes.max(1)) as u64;
        if count > max {
            return Err(CodecError::invalid("count", format!("{count} items, room for {max}")));
        }
        Ok(count as usize)
    }

    /// The next `length` bytes.
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], CodecError> {
        let (head, rest) = self.bytes.split_at_checked(length).ok_or(CodecError::Truncated)?;
        self.bytes = rest;
        Ok(head)
    }

    /// Bytes after their length.
    pub fn bytes(&mut self) -> Result<&'a [u8], CodecError> {
        let length = self.count(1)?;
        self.raw(length)
    }

    /// Rejects bytes that were not read.
    pub fn finish(self) -> Result<(), CodecError> {
        match self.bytes.len() {
            0 => Ok(()),
            left => Err(CodecError::Trailing(left)),
        }
    }
}

#[cfg(test)]
mod tests;
