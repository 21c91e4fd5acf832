//! The manifest of a checkpoint, and the reasons to refuse one.

use std::fmt;

use thiserror::Error;

use ebb_sketch::codec::{CodecError, Kind, Reader, Writer};
use ebb_sketch::hash::KeyDigest;

use super::{NextOffset, ShardId};

const MANIFEST: Kind = *b"smnf";
const VERSION: u16 = 1;

/// The circumstances under which the bytes of a state are valid. A checkpoint is only loaded under the identity it was
/// saved with.
#[derive(Clone, PartialEq, Eq)]
pub struct CheckpointIdentity {
    pub config_hash: [u8; 32],
    pub key_digest: KeyDigest,
    /// The log that the offsets belong to. A topic that was deleted and created again is another log.
    pub log: String,
    /// Version of the state's encoding.
    pub schema: u16,
}

impl fmt::Debug for CheckpointIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = blake3::Hash::from_bytes(self.config_hash).to_hex();
        write!(
            f,
            "CheckpointIdentity(config {}, {:?}, log {:?}, schema {})",
            &config[..16],
            self.key_digest,
            self.log,
            self.schema
        )
    }
}

/// Why a stored checkpoint cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CheckpointRefusal {
    #[error("saved for shard {0}")]
    Shard(ShardId),
    #[error("saved under another configuration")]
    Config,
    #[error("saved under another hash key ({found:?})", found = .0)]
    HashKey(KeyDigest),
    #[error("its offsets belong to log {0:?}")]
    Log(String),
    #[error("its state has schema {0}")]
    Schema(u16),
    #[error("its offset {} is ahead of the requested one", .0.0)]
    Ahead(NextOffset),
    #[error("damaged: {0}")]
    Damaged(String),
}

/// Describes a checkpoint. Written last: chunks without a manifest are ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CheckpointManifest {
    pub shard: ShardId,
    pub generation: u64,
    pub identity: CheckpointIdentity,
    pub next: NextOffset,
    pub bytes: u64,
    pub hash: [u8; 32],
}

impl CheckpointManifest {
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new(MANIFEST, VERSION);
        w.bytes(self.shard.stream.as_bytes());
        w.u32(self.shard.partition);
        w.u64(self.generation);
        w.raw(&self.identity.config_hash);
        w.raw(&self.identity.key_digest.0);
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
            identity: CheckpointIdentity {
                config_hash: array(&mut r)?,
                key_digest: KeyDigest(array(&mut r)?),
                log: text(&mut r)?,
                schema: u16::try_from(r.u32()?).map_err(|_| CodecError::invalid("schema", "greater than 65535"))?,
            },
            next: NextOffset(r.u64()?),
            bytes: r.u64()?,
            hash: array(&mut r)?,
        };
        r.finish()?;
        Ok(manifest)
    }

    /// The reason why this manifest, stored under `generation`, cannot be used for `shard` under `identity`.
    pub fn refusal(
        &self,
        shard: &ShardId,
        generation: u64,
        identity: &CheckpointIdentity,
        max_next: Option<NextOffset>,
    ) -> Option<CheckpointRefusal> {
        if self.shard != *shard {
            return Some(CheckpointRefusal::Shard(self.shard.clone()));
        }
        if self.generation != generation {
            let cause = format!("generation {} is stored as generation {generation}", self.generation);
            return Some(CheckpointRefusal::Damaged(cause));
        }
        if self.identity.schema != identity.schema {
            return Some(CheckpointRefusal::Schema(self.identity.schema));
        }
        if self.identity.key_digest != identity.key_digest {
            return Some(CheckpointRefusal::HashKey(self.identity.key_digest));
        }
        if self.identity.log != identity.log {
            return Some(CheckpointRefusal::Log(self.identity.log.clone()));
        }
        if self.identity.config_hash != identity.config_hash {
            return Some(CheckpointRefusal::Config);
        }
        max_next.filter(|max| self.next > *max).map(|_| CheckpointRefusal::Ahead(self.next))
    }
}

fn array<const N: usize>(r: &mut Reader<'_>) -> Result<[u8; N], CodecError> {
    r.raw(N)?.try_into().map_err(|_| CodecError::Truncated)
}

fn text(r: &mut Reader<'_>) -> Result<String, CodecError> {
    let bytes = r.bytes()?.to_vec();
    String::from_utf8(bytes).map_err(|_| CodecError::invalid("text", "not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> CheckpointManifest {
        CheckpointManifest {
            shard: ShardId { stream: "clicks".into(), partition: 3 },
            generation: 7,
            identity: CheckpointIdentity {
                config_hash: [1; 32],
                key_digest: KeyDigest([2; 8]),
                log: "clicks@1".into(),
                schema: 4,
            },
            next: NextOffset(99),
            bytes: 5000,
            hash: [6; 32],
        }
    }

    #[test]
    fn manifest_round_trips_and_matches_the_golden_hash() {
        let bytes = manifest().encode();
        assert_eq!(CheckpointManifest::decode(&bytes), Ok(manifest()));
        let golden = "ee6b216953a474b5ce7005957a0bc1bfb00b4dc1584624a0c49c8ff173a036c8";
        assert_eq!(blake3::hash(&bytes).to_hex().as_str(), golden);
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_detected() {
        let bytes = manifest().encode();
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(CheckpointManifest::decode(&bad).is_err(), "bit {bit}");
        }
        assert!((0..bytes.len()).all(|length| CheckpointManifest::decode(&bytes[..length]).is_err()));
    }
}
