//! What a checkpoint says about itself, and why one is not used.

use std::fmt;

use thiserror::Error;

use ebb_sketch::codec::{CodecError, Kind, Reader, Writer};
use ebb_sketch::hash::KeyPrint;

use super::{NextOffset, ShardId, StoreError};

const MANIFEST: Kind = *b"smnf";
const FACT: Kind = *b"sfct";
const VERSION: u16 = 1;

/// Under which circumstances bytes mean what they say. A checkpoint is only loaded under the identity it was saved with.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    pub config_hash: [u8; 32],
    pub key_print: KeyPrint,
    /// Which log the positions belong to: a topic made anew is another log.
    pub log: String,
    /// Version of the shard's bytes.
    pub schema: u16,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = blake3::Hash::from_bytes(self.config_hash).to_hex();
        write!(
            f,
            "Identity(config {}, {:?}, log {:?}, schema {})",
            &config[..16],
            self.key_print,
            self.log,
            self.schema
        )
    }
}

/// Why a kept generation was passed over.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error("it was saved for shard {0}")]
    Shard(ShardId),
    #[error("it was saved under another configuration")]
    Config,
    #[error("it was saved under another hash key ({found:?})", found = .0)]
    HashKey(KeyPrint),
    #[error("its positions belong to the log {0:?}")]
    Log(String),
    #[error("its bytes have schema {0}")]
    Schema(u16),
    #[error("it is at {}, ahead of what is wanted", .0.0)]
    Ahead(NextOffset),
    #[error("it is damaged: {0}")]
    Damaged(String),
}

/// The last thing written of a checkpoint: without it the chunks are nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manifest {
    pub shard: ShardId,
    pub generation: u64,
    pub identity: Identity,
    pub next: NextOffset,
    pub bytes: u64,
    pub hash: [u8; 32],
}

impl Manifest {
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new(MANIFEST, VERSION);
        w.bytes(self.shard.stream.as_bytes());
        w.u32(self.shard.partition);
        w.u64(self.generation);
        w.raw(&self.identity.config_hash);
        w.raw(&self.identity.key_print.0);
        w.bytes(self.identity.log.as_bytes());
        w.u32(u32::from(self.identity.schema));
        w.u64(self.next.0);
        w.u64(self.bytes);
        w.raw(&self.hash);
        w.seal()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut r = Reader::open(MANIFEST, VERSION, bytes)?;
        let manifest = Self {
            shard: ShardId { stream: text(&mut r)?, partition: r.u32()? },
            generation: r.u64()?,
            identity: Identity {
                config_hash: array(&mut r)?,
                key_print: KeyPrint(array(&mut r)?),
                log: text(&mut r)?,
                schema: u16::try_from(r.u32()?).map_err(|_| CodecError::invalid("schema", "above 65535"))?,
            },
            next: NextOffset(r.u64()?),
            bytes: r.u64()?,
            hash: array(&mut r)?,
        };
        r.finish()?;
        Ok(manifest)
    }

    /// Why this manifest, found under `generation`, does not serve `shard` under `identity`, if so.
    pub fn refusal(
        &self,
        shard: &ShardId,
        generation: u64,
        identity: &Identity,
        at_most: Option<NextOffset>,
    ) -> Option<Refusal> {
        if self.shard != *shard {
            return Some(Refusal::Shard(self.shard.clone()));
        }
        if self.generation != generation {
            let why = format!("generation {} stands in the place of generation {generation}", self.generation);
            return Some(Refusal::Damaged(why));
        }
        if self.identity.schema != identity.schema {
            return Some(Refusal::Schema(self.identity.schema));
        }
        if self.identity.key_print != identity.key_print {
            return Some(Refusal::HashKey(self.identity.key_print));
        }
        if self.identity.log != identity.log {
            return Some(Refusal::Log(self.identity.log.clone()));
        }
        if self.identity.config_hash != identity.config_hash {
            return Some(Refusal::Config);
        }
        at_most.filter(|most| self.next > *most).map(|_| Refusal::Ahead(self.next))
    }
}

fn array<const N: usize>(r: &mut Reader<'_>) -> Result<[u8; N], CodecError> {
    r.raw(N)?.try_into().map_err(|_| CodecError::Short)
}

fn text(r: &mut Reader<'_>) -> Result<String, CodecError> {
    let bytes = r.bytes()?.to_vec();
    String::from_utf8(bytes).map_err(|_| CodecError::invalid("text", "not UTF-8"))
}

pub(super) fn seal_fact(fact: &[u8]) -> Vec<u8> {
    let mut w = Writer::new(FACT, VERSION);
    w.bytes(fact);
    w.seal()
}

pub(super) fn open_fact(sealed: &[u8]) -> Result<Vec<u8>, StoreError> {
    let read = || {
        let mut r = Reader::open(FACT, VERSION, sealed)?;
        let fact = r.bytes()?.to_vec();
        r.finish().map(|()| fact)
    };
    read().map_err(|error: CodecError| StoreError::Damaged(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            shard: ShardId { stream: "clicks".into(), partition: 3 },
            generation: 7,
            identity: Identity { config_hash: [1; 32], key_print: KeyPrint([2; 8]), log: "clicks@1".into(), schema: 4 },
            next: NextOffset(99),
            bytes: 5000,
            hash: [6; 32],
        }
    }

    #[test]
    fn a_manifest_is_read_as_written_and_its_bytes_never_change() {
        let bytes = manifest().encode();
        assert_eq!(Manifest::decode(&bytes), Ok(manifest()));
        let golden = "ee6b216953a474b5ce7005957a0bc1bfb00b4dc1584624a0c49c8ff173a036c8";
        assert_eq!(blake3::hash(&bytes).to_hex().as_str(), golden);
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_refused() {
        let bytes = manifest().encode();
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::decode(&bad).is_err(), "bit {bit}");
        }
        assert!((0..bytes.len()).all(|length| Manifest::decode(&bytes[..length]).is_err()));
    }
}
