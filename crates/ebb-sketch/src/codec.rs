//! Bytes of persisted state: written canonically, read with suspicion.
//!
//! Every structure that enters a snapshot is one *sealed* block: kind, version, body, checksum. A [`Reader`] never
//! allocates from a length it has not checked against the bytes that are really there, never panics, and
//! [`Reader::finish`] refuses trailing bytes. All numbers are little-endian; counts and lengths are LEB128 varints.

use thiserror::Error;

/// What a caller does with any of these is the same: the bytes are not used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CodecError {
    #[error("the bytes end too early")]
    Short,
    #[error("expected a block of kind {expected:?}, found {found:?}")]
    Kind { expected: String, found: String },
    #[error("block {kind:?} has version {found}, this build reads up to {newest}")]
    Version { kind: String, found: u16, newest: u16 },
    #[error("block {kind:?} fails its checksum")]
    Checksum { kind: String },
    #[error("{what} is not valid: {why}")]
    Invalid { what: &'static str, why: String },
    #[error("{0} bytes are left over")]
    Trailing(usize),
}

impl CodecError {
    /// Whether it was made by [`CodecError::invalid`] about this.
    pub fn is_about(&self, what: &str) -> bool {
        matches!(self, Self::Invalid { what: about, .. } if *about == what)
    }

    pub fn invalid(what: &'static str, why: impl Into<String>) -> Self {
        Self::Invalid { what, why: why.into() }
    }
}

/// Four letters that name a kind of block.
pub type Kind = [u8; 4];

const CHECKSUM_BYTES: usize = 8;

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let hash = blake3::hash(bytes);
    std::array::from_fn(|i| hash.as_bytes()[i])
}

fn name(kind: &[u8]) -> String {
    String::from_utf8_lossy(kind).into_owned()
}

/// Appends values to a growing block.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Begins a sealed block.
    pub fn new(kind: Kind, version: u16) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&kind);
        bytes.extend_from_slice(&version.to_le_bytes());
        Self { bytes }
    }

    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u128(&mut self, value: u128) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn i64(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// By its bits, so that what was written is what is read, NaN included.
    pub fn f64(&mut self, value: f64) {
        self.bytes.extend_from_slice(&value.to_bits().to_le_bytes());
    }

    /// LEB128: seven bits a byte, lowest first.
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Without a length: for arrays whose size the reader knows.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// With its length in front.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.raw(bytes);
    }

    /// Ends the block with its checksum.
    pub fn seal(mut self) -> Vec<u8> {
        let sum = checksum(&self.bytes);
        self.bytes.extend_from_slice(&sum);
        self.bytes
    }
}

/// Takes values from a block that may be anything.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    version: u16,
}

impl<'a> Reader<'a> {
    /// Opens a sealed block of `kind`, of any version from 1 to `newest`; checks the checksum before anything is read.
    pub fn open(kind: Kind, newest: u16, bytes: &'a [u8]) -> Result<Self, CodecError> {
        let (body, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(CodecError::Short)?;
        let (found, rest) = body.split_first_chunk::<4>().ok_or(CodecError::Short)?;
        let (version, rest) = rest.split_first_chunk::<2>().ok_or(CodecError::Short)?;
        if *found != kind {
            return Err(CodecError::Kind { expected: name(&kind), found: name(found) });
        }
        let version = u16::from_le_bytes(*version);
        if version == 0 || version > newest {
            return Err(CodecError::Version { kind: name(&kind), found: version, newest });
        }
        // Behind the checksum is what fuzzing is to reach.
        if checksum(body) != *sum && !cfg!(fuzzing) {
            return Err(CodecError::Checksum { kind: name(&kind) });
        }
        Ok(Self { bytes: rest, version })
    }

    pub fn version(&self) -> u16 {
        self.version
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (head, rest) = self.bytes.split_first_chunk::<N>().ok_or(CodecError::Short)?;
        self.bytes = rest;
        Ok(*head)
    }

    pub fn u8(&mut self) -> Result<u8, CodecError> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u32(&mut self) -> Result<u32, CodecError> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, CodecError> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn u128(&mut self) -> Result<u128, CodecError> {
        self.array().map(u128::from_le_bytes)
    }

    pub fn i64(&mut self) -> Result<i64, CodecError> {
        self.array().map(i64::from_le_bytes)
    }

    pub fn f64(&mut self) -> Result<f64, CodecError> {
        self.u64().map(f64::from_bits)
    }

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
                // One value, one spelling: canonical bytes have no padded varints.
                return if byte == 0 && shift > 0 { Err(CodecError::invalid("varint", "padded")) } else { Ok(value) };
            }
        }
        Err(CodecError::invalid("varint", "longer than ten bytes"))
    }

    /// A number of items to come, of at least `least_bytes` (not 0) each: refused when they cannot all be there.
    pub fn count(&mut self, least_bytes: usize) -> Result<usize, CodecError> {
        let count = self.varint()?;
        let most = (self.bytes.len() / least_bytes.max(1)) as u64;
        if count > most {
            return Err(CodecError::invalid("count", format!("{count} items, room for {most}")));
        }
        Ok(count as usize)
    }

    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], CodecError> {
        let (head, rest) = self.bytes.split_at_checked(length).ok_or(CodecError::Short)?;
        self.bytes = rest;
        Ok(head)
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], CodecError> {
        let length = self.count(1)?;
        self.raw(length)
    }

    /// Refuses what was not read.
    pub fn finish(self) -> Result<(), CodecError> {
        match self.bytes.len() {
            0 => Ok(()),
            left => Err(CodecError::Trailing(left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = *b"test";

    fn sealed(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut writer = Writer::new(KIND, 1);
        fill(&mut writer);
        writer.seal()
    }

    #[test]
    fn what_is_written_is_read() {
        let block = sealed(|w| {
            w.u8(1);
            w.u32(2);
            w.u64(u64::MAX);
            w.u128(u128::MAX - 1);
            w.i64(i64::MIN);
            w.f64(-0.0);
            for value in [0, 127, 128, u64::from(u32::MAX), u64::MAX] {
                w.varint(value);
            }
            w.bytes(b"ebb");
            w.raw(&[9; 3]);
        });
        let mut r = Reader::open(KIND, 1, &block).unwrap();
        assert_eq!((r.u8(), r.u32(), r.u64()), (Ok(1), Ok(2), Ok(u64::MAX)));
        assert_eq!((r.u128(), r.i64()), (Ok(u128::MAX - 1), Ok(i64::MIN)));
        assert_eq!(r.f64().map(f64::to_bits), Ok((-0.0f64).to_bits()));
        for value in [0, 127, 128, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(r.varint(), Ok(value));
        }
        assert_eq!((r.bytes(), r.raw(3)), (Ok(&b"ebb"[..]), Ok(&[9; 3][..])));
        assert_eq!(r.finish(), Ok(()));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let block = sealed(|w| w.bytes(b"some state"));
        for bit in 0..block.len() * 8 {
            let mut bad = block.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Reader::open(KIND, 1, &bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_truncation_is_noticed() {
        let block = sealed(|w| w.bytes(b"some state"));
        assert!((0..block.len()).all(|length| Reader::open(KIND, 1, &block[..length]).is_err()));
    }

    #[test]
    fn a_newer_version_is_refused_by_name() {
        let block = Writer::new(KIND, 3).seal();
        let refused = CodecError::Version { kind: "test".into(), found: 3, newest: 2 };
        assert_eq!(Reader::open(KIND, 2, &block).unwrap_err(), refused);
    }

    #[test]
    fn a_count_that_cannot_fit_is_refused_before_any_allocation() {
        let block = sealed(|w| w.varint(u64::MAX));
        assert!(Reader::open(KIND, 1, &block).unwrap().count(1).is_err());
    }

    #[test]
    fn padded_and_overlong_varints_are_refused() {
        for bad in [&[0x80, 0x00][..], &[0xFF; 10], &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02]] {
            let block = sealed(|w| w.raw(bad));
            assert!(Reader::open(KIND, 1, &block).unwrap().varint().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn trailing_bytes_are_refused() {
        let block = sealed(|w| w.raw(&[1, 2]));
        assert_eq!(Reader::open(KIND, 1, &block).unwrap().finish(), Err(CodecError::Trailing(2)));
    }
}
