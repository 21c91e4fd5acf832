//! Which outputs of a partition readers really have (K8).
//!
//! A commit is one decision, but brokers carry it out log by log, and have been seen to leave a log out: one without a
//! leader at that moment was taken for deleted (Apache Kafka 4.3.1). Then outputs are missing that the group's offset
//! vouches for, or stand there although it does not. So the offset is not believed alone. Beside it every commit notes
//! where its transaction began, how many outputs readers have from there on, and where the outputs ended before
//! ([`Footing`]); whoever takes the partition on counts them. What is missing is emitted again, what stands there is not.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::super::faults::Mutant;
use super::tenant::Tenant;
use super::worker::KafkaWorker;
use super::{Delivery, outputs};
use crate::kafka::{CommittedOffset, Fault, LogEnds, Remedy, TRANSACTION_TIMEOUT, TailReader, TopicPartition};
use ebb_core::NextOffset;

/// How long a look at the outputs takes at most.
const PATIENCE: Duration = Duration::from_secs(10);
/// After this the brokers have decided every transaction that was open, or never will.
pub(super) const DECIDED_AFTER: Duration = TRANSACTION_TIMEOUT.saturating_add(Duration::from_secs(5));
/// How far back the first look goes, beyond twice the outputs that are looked for, and how much further each next.
const FIRST_LOOK: u64 = 256;
const FURTHER: u64 = 16;
/// What is looked through at most. Only outputs that many partitions share are ever as long.
const MOST_LOOKED: u64 = 1 << 20;
const MARK: &str = "ebb1";

/// What a commit says about its transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Footing {
    /// The first record that its outputs can be of.
    since: NextOffset,
    /// Outputs of records from there up to the offset.
    outputs: u64,
    /// Where each output ended before anything was written of records from `since` on.
    ends: Vec<u64>,
}

impl Footing {
    fn write(&self, print: u64) -> String {
        let mut note = format!("{MARK} {print:016x} {} {}", self.since.0, self.outputs);
        // Writing to a text cannot fail.
        self.ends.iter().for_each(|end| _ = write!(note, " {end}"));
        note
    }

    /// Nothing when it was written by somebody else, for another log or for other outputs.
    fn read(note: &str, print: u64, outputs: usize) -> Option<Self> {
        let mut words = note.split(' ');
        let is_ours = words.next() == Some(MARK) && words.next() == Some(&format!("{print:016x}"));
        let mut numbers = words.map(|word| word.parse::<u64>().ok());
        let (since, count) = (numbers.next()??, numbers.next()??);
        let ends: Vec<u64> = numbers.collect::<Option<_>>()?;
        (is_ours && ends.len() == outputs).then_some(Self { since: NextOffset(since), outputs: count, ends })
    }
}

/// Which outputs of a partition are still to be emitted, and what the next commit says of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ledger {
    /// Records from here on are emitted, unless they stand there already.
    pub(super) emit_from: NextOffset,
    standing: BTreeSet<u64>,
    footing: Footing,
    /// Something was emitted that the offset has vouched for already: it needs a commit all the same.
    pub(super) owes: bool,
}

impl Ledger {
    pub(super) fn new(emit_from: NextOffset, ends: Vec<u64>) -> Self {
        let footing = Footing { since: emit_from, outputs: 0, ends };
        Self { emit_from, standing: BTreeSet::new(), footing, owes: false }
    }

    /// Counts an output; whether it is to be emitted.
    pub(super) fn enter(&mut self, offset: u64, committed: NextOffset) -> bool {
        self.footing.outputs += 1;
        let is_new = self.standing.is_empty() || !self.standing.contains(&offset);
        self.owes |= is_new && offset < committed.0;
        is_new
    }

    /// Everything so far is committed.
    pub(super) fn settle(&mut self, committed: NextOffset) {
        (self.footing.since, self.footing.outputs, self.owes) = (committed, 0, false);
        // What stands behind it is told by the old ends.
        self.standing = self.standing.split_off(&committed.0);
    }
}

/// What is known of a partition's outputs.
#[derive(Debug)]
struct Seen {
    /// Sources of the outputs that readers have.
    sources: BTreeSet<u64>,
    ends: Vec<LogEnds>,
    /// All of it was seen.
    is_whole: bool,
}

impl Seen {
    fn written(&self) -> Vec<u64> {
        self.ends.iter().map(|end| end.high_watermark).collect()
    }
}

impl Tenant {
    /// Tells the log and the outputs from others.
    fn print(&self) -> u64 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.topic_id.map_or(0, |id| id.0).to_be_bytes());
        for place in self.places() {
            hasher.update(format!("{place}\n").as_bytes());
        }
        u64::from_be_bytes(std::array::from_fn(|at| hasher.finalize().as_bytes()[at]))
    }

    fn places(&self) -> Vec<TopicPartition> {
        let places = self.stream.outputs.places(&self.part);
        let part = |(topic, partition): (&std::ffi::CStr, i32)| TopicPartition {
            topic: topic.to_string_lossy().as_ref().into(),
            partition: partition as u32,
        };
        places.map(part).collect()
    }

    /// What a commit of this partition says beside its offset.
    pub(super) fn note(&mut self) -> String {
        if self.stream.delivery != Delivery::ExactlyOnce {
            return String::new();
        }
        let print = self.print();
        self.owned().map(|owned| owned.ledger.footing.write(print)).unwrap_or_default()
    }
}

impl KafkaWorker {
    /// The ledger of a partition that the group knows nothing of: it begins at `start`.
    pub(super) fn first_ledger(&mut self, shard: usize, start: NextOffset) -> Result<Ledger, Fault> {
        let seen = self.look(shard, None)?;
        Ok(Ledger::new(start, seen.map_or_else(Vec::new, |seen| seen.written())))
    }

    /// Holds what the group says of a partition against its outputs.
    pub(super) fn ledger(&mut self, shard: usize, told: &CommittedOffset) -> Result<Ledger, Fault> {
        let tenant = &self.tenants[shard];
        let outputs = tenant.places().len();
        let footing = Footing::read(&told.note, tenant.print(), outputs)
            .filter(|footing| footing.since <= told.next && !Mutant::is_any_on());
        let Some(seen) = self.look(shard, footing.as_ref())? else {
            return Ok(Ledger::new(told.next, Vec::new()));
        };
        let ends = seen.written();
        let Some(footing) = footing else { return Ok(Ledger::new(told.next, ends)) };
        let tenant = &mut self.tenants[shard];
        let is_decided = tenant.is_decided(&seen.ends);
        let tried_since = *tenant.tried_since.get_or_insert_with(Instant::now);
        let found = seen.sources.range(footing.since.0..told.next.0).count() as u64;
        let is_complete = found == footing.outputs;
        if !is_decided && tried_since.elapsed() < DECIDED_AFTER {
            return Err(Fault::new("looking at the outputs", Remedy::Retry, "a transaction is not decided yet"));
        }
        let id = &tenant.id;
        let emit_from = match (is_complete, is_decided && seen.is_whole) {
            (true, _) => told.next,
            (false, true) => {
                tracing::warn!(shard = %id, found, told = footing.outputs, "outputs are missing: emitting them again");
                footing.since
            }
            (false, false) => {
                tracing::error!(
                    shard = %id, found, told = footing.outputs,
                    "outputs cannot all be counted (removed, compacted, or behind a transaction that hangs): the offset is believed"
                );
                told.next
            }
        };
        let standing = seen.sources.into_iter().filter(|source| *source >= emit_from.0).collect::<BTreeSet<_>>();
        let ahead = standing.range(told.next.0..).count();
        if ahead > 0 {
            tracing::warn!(shard = %id, ahead, "outputs stand that the offset does not tell of: not emitting them again");
        }
        let ends = if standing.is_empty() { ends } else { footing.ends };
        Ok(Ledger { standing, ..Ledger::new(emit_from, ends) })
    }

    /// Looks at the outputs of a partition: where they end, and which of them tell of records from the footing on. Nothing
    /// when there are none in transactions, or when they may not be read.
    fn look(&mut self, shard: usize, footing: Option<&Footing>) -> Result<Option<Seen>, Fault> {
        if self.tenants[shard].stream.delivery != Delivery::ExactlyOnce {
            return Ok(None);
        }
        match self.read_outputs(shard, footing) {
            Ok(seen) => Ok(Some(seen)),
            Err(fault) if fault.remedy == Remedy::End => {
                tracing::warn!(shard = %self.tenants[shard].id, %fault, "outputs may not be read: the offset is believed");
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }

    fn read_outputs(&mut self, shard: usize, footing: Option<&Footing>) -> Result<Seen, Fault> {
        let tenant = &self.tenants[shard];
        let is_whole = !tenant.stream.outputs.targets().any(|target| target.is_compacted);
        let mut seen = Seen { sources: BTreeSet::new(), ends: Vec::new(), is_whole };
        let tail = match self.tail.take() {
            Some(tail) => tail,
            None => TailReader::new(&self.links.options.settings, PATIENCE)?,
        };
        let tail = self.tail.insert(tail);
        let source = format!("{}/", tenant.part);
        for (at, place) in tenant.places().iter().enumerate() {
            let (ends, is_whole) = match footing {
                None => (tail.read(place, tail.stable_range(place)?.1, outputs::SOURCE, |_| ())?, true),
                Some(footing) => {
                    let look = Look { tail, place, source: &source, since: footing.since, from: footing.ends[at] };
                    look.back(FIRST_LOOK + 2 * footing.outputs, &mut seen.sources)?
                }
            };
            seen.ends.push(ends);
            seen.is_whole &= is_whole;
        }
        Ok(seen)
    }
}

impl Tenant {
    /// Whether everything that was written when the outputs were first looked at is decided. Whoever shares an output goes
    /// on writing to it.
    fn is_decided(&mut self, ends: &[LogEnds]) -> bool {
        let first = self.first_seen.get_or_insert_with(|| ends.iter().map(|end| end.high_watermark).collect());
        ends.iter().zip(first).all(|(now, first)| now.last_stable >= now.high_watermark.min(*first))
    }
}

/// A look at one output.
struct Look<'a> {
    tail: &'a TailReader,
    place: &'a TopicPartition,
    /// What the sources of our outputs begin with.
    source: &'a str,
    since: NextOffset,
    /// Nothing of ours is before this.
    from: u64,
}

impl Look<'_> {
    /// Goes back until an output is older than what is looked for; whether it got there.
    fn back(&self, mut far: u64, sources: &mut BTreeSet<u64>) -> Result<(LogEnds, bool), Fault> {
        loop {
            let (first, decided) = self.tail.stable_range(self.place)?;
            let least = self.from.max(first).min(decided);
            let from = decided.saturating_sub(far).max(least);
            let (mut oldest, mut found) = (None, Vec::new());
            let ends = self.tail.read(self.place, from, outputs::SOURCE, |value| {
                if let Some(offset) = offset_of(value, self.source) {
                    oldest.get_or_insert(offset);
                    found.extend((offset >= self.since.0).then_some(offset));
                }
            })?;
            // What retention has removed cannot be counted, nor can what stood in a log that was made anew.
            let is_all = from == self.from || oldest.is_some_and(|offset| offset < self.since.0);
            if is_all || from == least || far >= MOST_LOOKED {
                sources.extend(found);
                return Ok((ends, is_all));
            }
            far *= FURTHER;
        }
    }
}

/// The offset in `topic/partition/offset`, when it is of our partition.
fn offset_of(value: &[u8], source: &str) -> Option<u64> {
    std::str::from_utf8(value).ok()?.strip_prefix(source)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footing() -> Footing {
        Footing { since: NextOffset(40), outputs: 3, ends: vec![7, 0, 12] }
    }

    #[test]
    fn a_footing_is_read_as_it_was_written_and_only_for_its_log_and_outputs() {
        let note = footing().write(0xABC);
        assert_eq!(Footing::read(&note, 0xABC, 3), Some(footing()));
        assert_eq!(Footing::read(&note, 0xABD, 3), None);
        assert_eq!(Footing::read(&note, 0xABC, 2), None);
        for strange in ["", "ebb1", "ebb1 0000000000000abc", "ebb1 0000000000000abc 4 x 1 2 3", &note[1..]] {
            assert_eq!(Footing::read(strange, 0xABC, 3), None, "{strange}");
        }
    }

    #[test]
    fn what_stands_is_counted_and_not_emitted_and_what_was_vouched_for_is_owed() {
        let mut ledger = Ledger { standing: BTreeSet::from([11, 13]), ..Ledger::new(NextOffset(10), vec![5]) };
        let committed = NextOffset(13);
        let emitted: Vec<u64> = (10..15).filter(|offset| ledger.enter(*offset, committed)).collect();
        assert_eq!((emitted, ledger.footing.outputs, ledger.owes), (vec![10, 12, 14], 5, true));
        ledger.settle(NextOffset(13));
        assert_eq!((ledger.footing.since, ledger.footing.outputs, ledger.owes), (NextOffset(13), 0, false));
        assert!(!ledger.enter(13, committed) && ledger.enter(11, NextOffset(5)) && !ledger.owes);
    }

    #[test]
    fn sources_are_told_by_their_partition() {
        assert_eq!(offset_of(b"clicks/3/17", "clicks/3/"), Some(17));
        assert_eq!(offset_of(b"clicks/31/17", "clicks/3/"), None);
        assert_eq!(offset_of(b"clicks/3/x", "clicks/3/"), None);
        assert_eq!(offset_of(&[0xFF], "clicks/3/"), None);
    }
}
