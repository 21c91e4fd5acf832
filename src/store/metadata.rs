//! Small named values, such as the number of partitions a stream was created with.

use ebb_sketch::codec::{CodecError, Kind, Reader, Writer};

use super::{CHUNK_BYTES, Store, StoreError, keys};

const METADATA: Kind = *b"sfct";
const VERSION: u16 = 1;

impl Store {
    /// The value last stored under `name`.
    pub fn get_metadata(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let key = keys::metadata(name);
        let value = self.reads.read(move |db| db.get(key))?;
        value.map(|value| decode(&value).map_err(|error| StoreError::Damaged(error.to_string()))).transpose()
    }

    /// Stores a value, which is on disk when this returns.
    pub fn put_metadata(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        let encoded = encode(value);
        let bytes = name.len() + encoded.len();
        if bytes > CHUNK_BYTES {
            return Err(StoreError::TooLarge { what: "metadata with its name", bytes, max: CHUNK_BYTES });
        }
        self.require_space(bytes, self.options.reserve_bytes)?;
        let key = keys::metadata(name);
        self.writes.commit(move |batch| batch.insert(key, encoded))
    }
}

pub(super) fn encode(value: &[u8]) -> Vec<u8> {
    let mut w = Writer::new(METADATA, VERSION);
    w.bytes(value);
    w.seal()
}

pub(super) fn decode(encoded: &[u8]) -> Result<Vec<u8>, CodecError> {
    let mut r = Reader::open(METADATA, VERSION, encoded)?;
    let value = r.bytes()?.to_vec();
    r.finish().map(|()| value)
}
