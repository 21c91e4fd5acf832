//! Keyed 128-bit fingerprints of items: the only hash of items in the crate.
//!
//! Senders of items are untrusted: with a public hash they could choose items that fill a filter or collide with those of
//! a competitor (pollution attacks). SipHash-1-3 under a secret 128-bit key is a PRF, so the cells of an item cannot be
//! predicted from outside. The secret never enters a snapshot, an answer or a log line; only its [`KeyDigest`] does.

use std::fmt;
use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// The hash of an item, a key or an id. It is computed once, at the edge; the structures never see the bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Fingerprint(pub u128);

impl Fingerprint {
    /// The upper half. By convention it selects the line, slot or partition.
    pub fn high(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The lower half. By convention it selects the cells within a line.
    pub fn low(self) -> u64 {
        self.0 as u64
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({:032x})", self.0)
    }
}

/// One-way digest of a secret key. It identifies the key that state was made under, and cannot be used to hash items.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyDigest(pub [u8; 8]);

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyDigest({:016x})", u64::from_be_bytes(self.0))
    }
}

/// The secret key under which items are hashed.
///
/// ```
/// use ebb_sketch::hash::HashKey;
///
/// let key = HashKey::new([7; 16]);
/// assert_eq!(key.fingerprint(b"click-1"), key.fingerprint(b"click-1"));
/// assert_ne!(key.fingerprint(b"click-1"), HashKey::new([8; 16]).fingerprint(b"click-1"));
/// assert!(format!("{key:?}").starts_with("HashKey(KeyDigest("));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct HashKey([u8; 16]);

impl HashKey {
    /// A key from its 16 secret bytes.
    pub fn new(secret: [u8; 16]) -> Self {
        Self(secret)
    }

    /// The secret bytes, to be stored where only their owner can read them.
    pub fn expose(&self) -> [u8; 16] {
        self.0
    }

    /// The fingerprint of one byte string.
    pub fn fingerprint(&self, bytes: &[u8]) -> Fingerprint {
        Fingerprint(SipHasher13::new_with_key(&self.0).hash(bytes).as_u128())
    }

    /// Starts the fingerprint of a list of texts.
    ///
    /// ```
    /// use ebb_sketch::hash::{Domain, HashKey};
    ///
    /// let of = |parts: [&str; 2]| {
    ///     let mut builder = HashKey::new([7; 16]).builder(Domain::Item);
    ///     parts.iter().for_each(|part| builder.push(1, part));
    ///     builder.finish()
    /// };
    /// assert_ne!(of(["ab", "c"]), of(["a", "bc"]));
    /// ```
    pub fn builder(&self, domain: Domain) -> FingerprintBuilder {
        let mut state = SipHasher13::new_with_key(&self.0);
        state.write_u64(domain as u64);
        FingerprintBuilder(state)
    }

    /// The digest of this key, derived with BLAKE3.
    pub fn digest(&self) -> KeyDigest {
        let hash = blake3::derive_key("ebb 2026 hash key print", &self.0);
        KeyDigest(std::array::from_fn(|i| hash[i]))
    }
}

/// The hash keys of a service: one, and more during a key rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashKeys {
    /// The key that new items are hashed with.
    pub current: HashKey,
    /// The key before it, until everything recorded under it has expired.
    pub previous: Option<HashKey>,
    /// The key that selects partitions, if it is not the current one. It never rotates, because items must be found in the
    /// partition in which they were recorded.
    pub routing: Option<HashKey>,
}

impl From<HashKey> for HashKeys {
    fn from(current: HashKey) -> Self {
        Self { current, previous: None, routing: None }
    }
}

/// Domain separation: equal bytes of different domains have different fingerprints. The numbers are part of all state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// The fields that must not repeat.
    Item = 1,
    /// The key that an event belongs to.
    Key = 2,
    /// The identity of an observation.
    Id = 3,
    /// A label of an aggregate.
    Label = 4,
}

/// Hashes a list of (kind, text) pairs. Different lists never hash the same bytes.
#[derive(Clone)]
pub struct FingerprintBuilder(SipHasher13);

impl FingerprintBuilder {
    /// Appends a text. Kind and length are hashed first, so that no text can continue the one before it.
    pub fn push(&mut self, kind: u8, text: &str) {
        self.0.write_u64(text.len() as u64 | u64::from(kind) << 56);
        self.0.write(text.as_bytes());
    }

    /// The fingerprint of everything pushed so far.
    pub fn finish(&self) -> Fingerprint {
        Fingerprint(self.0.finish128().as_u128())
    }
}

impl fmt::Debug for FingerprintBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FingerprintBuilder(…)")
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashKey({:?})", self.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_depend_on_every_byte_and_on_the_key() {
        let key = HashKey::new([7; 16]);
        let fingerprint = key.fingerprint(b"ip,ad,user");
        assert_eq!(fingerprint, key.fingerprint(b"ip,ad,user"));
        assert_ne!(fingerprint, key.fingerprint(b"ip,ad,users"));
        assert_ne!(fingerprint, HashKey::new([8; 16]).fingerprint(b"ip,ad,user"));
    }

    #[test]
    fn fingerprints_are_stable_across_releases() {
        // SipHash-1-3-128 under the key bytes 0..16. Snapshots depend on these values, so they must never change.
        let key = HashKey::new(std::array::from_fn(|i| i as u8));
        assert_eq!(key.fingerprint(b"").0, 0x0130_30dd_6adb_62fd_bea5_8827_b2bc_7ee7);
        assert_eq!(key.fingerprint(b"ebb").0, 0x87df_0485_f486_0506_96dd_fac7_751a_ddee);
        assert_eq!(key.digest(), KeyDigest([129, 237, 43, 22, 139, 82, 161, 48]));
    }

    #[test]
    fn text_lists_differ_by_kind_order_split_and_domain() {
        let key = HashKey::new([7; 16]);
        let of = |domain, texts: &[(u8, &str)]| {
            let mut builder = key.builder(domain);
            texts.iter().for_each(|(kind, text)| builder.push(*kind, text));
            builder.finish()
        };
        let all = [
            of(Domain::Item, &[(1, "ab"), (1, "c")]),
            of(Domain::Item, &[(1, "a"), (1, "bc")]),
            of(Domain::Item, &[(1, "c"), (1, "ab")]),
            of(Domain::Item, &[(2, "ab"), (1, "c")]),
            of(Domain::Item, &[(1, "abc")]),
            of(Domain::Key, &[(1, "ab"), (1, "c")]),
            of(Domain::Item, &[(1, "ab"), (1, "c"), (1, "")]),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
    }

    #[test]
    fn debug_output_never_shows_the_secret() {
        let shown = format!("{:?}", HashKey::new([0xAB; 16]));
        assert!(!shown.contains("171") && !shown.to_lowercase().contains("abab"), "{shown}");
    }
}
