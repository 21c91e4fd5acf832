//! Bytes and a secret key in, a 128-bit fingerprint out: the only hash of items in the crate.
//!
//! Those who send items are adversaries: with a public hash they could choose items that fill a filter or collide with a
//! rival's (pollution attacks). SipHash-1-3 under a secret 128-bit key is a PRF, so the cells an item falls on cannot be
//! predicted from outside. The secret itself never enters a snapshot, an answer or a log line: only its [`KeyPrint`] does.

use std::fmt;

use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// What stands for an item, a key or an id after the edge: nothing behind the edge sees their bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Fingerprint(pub u128);

impl Fingerprint {
    /// The upper half: by convention it chooses the place (line, slot, partition).
    pub fn high(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The lower half: by convention it chooses the cells within the place.
    pub fn low(self) -> u64 {
        self.0 as u64
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({:032x})", self.0)
    }
}

/// A public name for a secret key: enough to refuse state made under another key, useless for computing fingerprints.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyPrint(pub [u8; 8]);

impl fmt::Debug for KeyPrint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPrint({:016x})", u64::from_be_bytes(self.0))
    }
}

/// The secret under which items are hashed.
#[derive(Clone, PartialEq, Eq)]
pub struct HashKey([u8; 16]);

impl HashKey {
    pub fn new(secret: [u8; 16]) -> Self {
        Self(secret)
    }

    /// The secret itself, to be written where only its owner reads.
    pub fn expose(&self) -> [u8; 16] {
        self.0
    }

    /// The fingerprint of one byte string.
    pub fn fingerprint(&self, bytes: &[u8]) -> Fingerprint {
        Fingerprint(SipHasher13::new_with_key(&self.0).hash(bytes).as_u128())
    }

    /// Begins the fingerprint of a list of texts.
    pub fn begin(&self, domain: Domain) -> Fingerprinting {
        let mut state = SipHasher13::new_with_key(&self.0);
        state.write_u64(domain as u64);
        Fingerprinting(state)
    }

    /// One-way: derived with BLAKE3, so that knowing it does not help to know the key.
    pub fn print(&self) -> KeyPrint {
        let hash = blake3::derive_key("ebb 2026 hash key print", &self.0);
        KeyPrint(std::array::from_fn(|i| hash[i]))
    }
}

/// The keys of a service: one, or for a while more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashKeys {
    pub current: HashKey,
    /// The key before it, for as long as something recorded under it is remembered.
    pub previous: Option<HashKey>,
    /// The key that chooses partitions where it is another: items must be found where they were recorded, so that this one
    /// stays the first of all.
    pub routing: Option<HashKey>,
}

impl From<HashKey> for HashKeys {
    fn from(current: HashKey) -> Self {
        Self { current, previous: None, routing: None }
    }
}

/// What is hashed: an id can never be mistaken for an item. The numbers are part of all state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    Item = 1,
    Key = 2,
    Id = 3,
    Label = 4,
}

/// A fingerprint being made of texts, one after the other. No two different lists of (kind, text) give the same bytes.
#[derive(Clone)]
pub struct Fingerprinting(SipHasher13);

impl Fingerprinting {
    /// Kind and length go first, so that texts cannot be shifted into one another.
    pub fn text(&mut self, kind: u8, text: &str) {
        self.0.write_u64(text.len() as u64 | u64::from(kind) << 56);
        self.0.write(text.as_bytes());
    }

    pub fn end(&self) -> Fingerprint {
        Fingerprint(self.0.finish128().as_u128())
    }
}

impl fmt::Debug for Fingerprinting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprinting(…)")
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashKey({:?})", self.print())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_depend_on_every_byte_and_on_the_key() {
        let key = HashKey::new([7; 16]);
        let print = key.fingerprint(b"ip,ad,user");
        assert_eq!(print, key.fingerprint(b"ip,ad,user"));
        assert_ne!(print, key.fingerprint(b"ip,ad,users"));
        assert_ne!(print, HashKey::new([8; 16]).fingerprint(b"ip,ad,user"));
    }

    #[test]
    fn fingerprints_never_change_between_releases() {
        // SipHash-1-3-128 under the bytes 0..16: snapshots hold cells chosen by these values, so they are kept for ever.
        let key = HashKey::new(std::array::from_fn(|i| i as u8));
        assert_eq!(key.fingerprint(b"").0, 0x0130_30dd_6adb_62fd_bea5_8827_b2bc_7ee7);
        assert_eq!(key.fingerprint(b"ebb").0, 0x87df_0485_f486_0506_96dd_fac7_751a_ddee);
        assert_eq!(key.print(), KeyPrint([129, 237, 43, 22, 139, 82, 161, 48]));
    }

    #[test]
    fn lists_of_texts_differ_by_kind_order_cut_and_domain() {
        let key = HashKey::new([7; 16]);
        let of = |domain, texts: &[(u8, &str)]| {
            let mut making = key.begin(domain);
            texts.iter().for_each(|(kind, text)| making.text(*kind, text));
            making.end()
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
