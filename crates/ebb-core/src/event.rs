//! What a record becomes, and what becomes of it.

use std::fmt;

use smallvec::SmallVec;

use ebb_sketch::hash::Fingerprint;

/// A position in a log, exclusive: the offset that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NextOffset(pub u64);

/// One record of the log, as the log holds it.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    pub offset: u64,
    /// When the log took the record: by the broker or, embedded, by the journal.
    pub timestamp_ms: i64,
    pub payload: &'a [u8],
}

/// What a payload says, hashed at the edge: behind it nothing sees the bytes of items, keys and ids.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// What must not repeat; the key is part of it.
    pub item: Fingerprint,
    /// Whose state it is.
    pub key: Option<Fingerprint>,
    /// When it happened; without it the record's timestamp counts.
    pub time_ms: Option<i64>,
    /// Which observation it is; without it the record's position counts.
    pub id: Option<Fingerprint>,
    pub value: Option<f64>,
    pub weight: Option<f64>,
    pub importance: Option<f64>,
    /// In the order of [`crate::EventSpec::numbers`].
    pub numbers: Numbers,
    /// Texts that aggregates list by name, in the order of [`crate::EventSpec::labels`].
    pub labels: Vec<Box<str>>,
    /// While a hash key is exchanged.
    pub former: Option<Former>,
    /// What chooses the partition.
    pub route: Fingerprint,
}

/// The same under the previous hash key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Former {
    pub item: Fingerprint,
    pub key: Option<Fingerprint>,
}

/// Numbers that the configuration names by their paths: costs, and what aggregates add up.
pub type Numbers = SmallVec<[Option<f64>; 4]>;

/// Why a record was rejected. Closed: it is a metric label and a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// No payload at all.
    Empty,
    /// Not UTF-8, a byte order mark, a NUL, or half a surrogate pair.
    Encoding,
    /// Not one JSON document.
    Parse,
    /// Too large, too deep, or too many fields.
    Limits,
    /// The same key twice in one object.
    DuplicateKey,
    /// A configured field is missing or of the wrong type.
    Schema,
    /// Dated too far after the record's own timestamp.
    Future,
}

impl Reason {
    pub const ALL: [Reason; 7] = [
        Reason::Empty,
        Reason::Encoding,
        Reason::Parse,
        Reason::Limits,
        Reason::DuplicateKey,
        Reason::Schema,
        Reason::Future,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Reason::Empty => "empty",
            Reason::Encoding => "encoding",
            Reason::Parse => "parse",
            Reason::Limits => "limits",
            Reason::DuplicateKey => "duplicate_key",
            Reason::Schema => "schema",
            Reason::Future => "future",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Every record ends as exactly one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Unique,
    Duplicate,
    /// Too old for the memory to say; never silently unique.
    Late,
    Rejected(Reason),
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Unique => "unique",
            Verdict::Duplicate => "duplicate",
            Verdict::Late => "late",
            Verdict::Rejected(_) => "rejected",
        }
    }
}

/// How many records ended how, since the beginning of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub unique: u64,
    pub duplicate: u64,
    pub late: u64,
    rejected: [u64; Reason::ALL.len()],
}

impl Counts {
    pub fn add(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Unique => self.unique += 1,
            Verdict::Duplicate => self.duplicate += 1,
            Verdict::Late => self.late += 1,
            Verdict::Rejected(reason) => self.rejected[reason as usize] += 1,
        }
    }

    pub fn rejected(&self, reason: Reason) -> u64 {
        self.rejected[reason as usize]
    }

    /// Those that changed the memory.
    pub(super) fn accepted(&self) -> u64 {
        self.unique + self.duplicate + self.late
    }

    pub fn total(&self) -> u64 {
        self.as_array().iter().sum()
    }

    /// In a fixed order, for the snapshot.
    pub(super) fn as_array(&self) -> [u64; 3 + Reason::ALL.len()] {
        let mut all = [0; 3 + Reason::ALL.len()];
        all[..3].copy_from_slice(&[self.unique, self.duplicate, self.late]);
        all[3..].copy_from_slice(&self.rejected);
        all
    }

    pub(super) fn from_array(all: [u64; 3 + Reason::ALL.len()]) -> Self {
        let mut counts = Self { unique: all[0], duplicate: all[1], late: all[2], ..Self::default() };
        counts.rejected.copy_from_slice(&all[3..]);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stand_in_the_order_of_their_numbers() {
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
    }

    #[test]
    fn every_verdict_is_counted_once() {
        let mut counts = Counts::default();
        let verdicts = [Verdict::Unique, Verdict::Duplicate, Verdict::Late, Verdict::Rejected(Reason::Future)];
        verdicts.into_iter().for_each(|verdict| counts.add(verdict));
        assert_eq!((counts.unique, counts.duplicate, counts.late, counts.rejected(Reason::Future)), (1, 1, 1, 1));
        assert_eq!(counts.total(), 4);
        assert_eq!(Counts::from_array(counts.as_array()), counts);
    }
}
