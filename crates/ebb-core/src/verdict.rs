//! How a record ends: its verdict, the reason of a rejection, and the counts of both.

use std::fmt;

/// Why a record was rejected.
///
/// The set is closed, because [`Reason::name`] is a metric label and a Kafka header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The record has no payload.
    Empty,
    /// The payload is not UTF-8, or contains a byte order mark, a NUL or a lone surrogate.
    Encoding,
    /// The payload is not exactly one JSON document.
    Parse,
    /// The payload is too large, too deep, or has too many fields.
    Limits,
    /// An object of the payload contains the same key twice.
    DuplicateKey,
    /// A configured field is missing, has the wrong type, or names an unknown importance class.
    Schema,
    /// The event time is too far after the record's timestamp.
    Future,
}

impl Reason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Reason; 7] = [
        Reason::Empty,
        Reason::Encoding,
        Reason::Parse,
        Reason::Limits,
        Reason::DuplicateKey,
        Reason::Schema,
        Reason::Future,
    ];

    /// The name in metrics, headers and JSON.
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

    /// One sentence for the person who sent the event.
    pub fn description(self) -> &'static str {
        match self {
            Reason::Empty => "the event has no payload",
            Reason::Encoding => "the event contains text that is not valid Unicode, or a NUL character",
            Reason::Parse => "the event is not exactly one JSON document, or contains a number that is out of range",
            Reason::Limits => "the event is too large, too deeply nested, or has too many or too long field names",
            Reason::DuplicateKey => "an object in the event contains the same key twice",
            Reason::Schema => {
                "a configured field is missing from the event, has the wrong type, or names an unknown importance class"
            }
            Reason::Future => "the event time is further in the future than the stream allows",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What was decided about a record. Every record ends as exactly one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The item was not seen within the window.
    Unique,
    /// The item was seen within the window.
    Duplicate,
    /// The event is older than the filter can judge; it is never reported as unique.
    Late,
    /// The record is malformed or its time is implausible; no view was changed.
    Rejected(Reason),
}

impl Verdict {
    /// The name in metrics, headers and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Unique => "unique",
            Verdict::Duplicate => "duplicate",
            Verdict::Late => "late",
            Verdict::Rejected(_) => "rejected",
        }
    }
}

/// Number of records by verdict, since the beginning of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerdictCounts {
    /// Records that were unique.
    pub unique: u64,
    /// Records that were duplicates.
    pub duplicate: u64,
    /// Records that were too old to judge.
    pub late: u64,
    rejected: [u64; Reason::ALL.len()],
}

impl VerdictCounts {
    /// Counts one record.
    pub fn add(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Unique => self.unique += 1,
            Verdict::Duplicate => self.duplicate += 1,
            Verdict::Late => self.late += 1,
            Verdict::Rejected(reason) => self.rejected[reason as usize] += 1,
        }
    }

    /// Number of records that were rejected for `reason`.
    pub fn rejected(&self, reason: Reason) -> u64 {
        self.rejected[reason as usize]
    }

    /// Number of records that were not rejected.
    pub(crate) fn accepted(&self) -> u64 {
        self.unique + self.duplicate + self.late
    }

    /// Number of all records.
    pub fn total(&self) -> u64 {
        self.as_array().iter().sum()
    }

    /// All counts in the order in which snapshots store them.
    pub(crate) fn as_array(&self) -> [u64; 3 + Reason::ALL.len()] {
        let mut all = [0; 3 + Reason::ALL.len()];
        all[..3].copy_from_slice(&[self.unique, self.duplicate, self.late]);
        all[3..].copy_from_slice(&self.rejected);
        all
    }

    pub(crate) fn from_array(all: [u64; 3 + Reason::ALL.len()]) -> Self {
        let mut counts = Self { unique: all[0], duplicate: all[1], late: all[2], ..Self::default() };
        counts.rejected.copy_from_slice(&all[3..]);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lists_reasons_in_the_order_of_their_discriminants() {
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
    }

    #[test]
    fn each_verdict_increments_one_count() {
        let mut counts = VerdictCounts::default();
        let verdicts = [Verdict::Unique, Verdict::Duplicate, Verdict::Late, Verdict::Rejected(Reason::Future)];
        verdicts.into_iter().for_each(|verdict| counts.add(verdict));
        assert_eq!((counts.unique, counts.duplicate, counts.late, counts.rejected(Reason::Future)), (1, 1, 1, 1));
        assert_eq!(counts.total(), 4);
        assert_eq!(VerdictCounts::from_array(counts.as_array()), counts);
    }
}
