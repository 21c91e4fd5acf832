//! Which outputs of a partition consumers can really read (K8).
//!
//! A commit is one decision, but brokers carry it out log by log, and have been seen to skip a log: one without a leader at
//! that moment was taken for deleted (Apache Kafka 4.3.1). Then outputs are missing although the group's offset covers
//! them, or are readable although it does not. So the offset alone is not trusted. With its offset every commit stores
//! where its transaction began, how many outputs there are from there on, and where the output logs ended before
//! ([`CommitNote`]). The next owner of the partition reads the outputs back and counts them. What is missing is emitted
//! again; what is readable is not.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::cursor::KafkaSource;
use super::log::KafkaLog;
use super::{Delivery, outputs};
use crate::kafka::{CommittedOffset, Fault, LogEnds, Remedy, TRANSACTION_TIMEOUT, TailReader, TopicPartition};
use crate::workers::slot::PartitionSlot;
use crate::workers::worker::Worker;
use ebb_core::NextOffset;

/// Longest time to read the outputs of a partition.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// After this the brokers have decided every transaction that was open, or never will.
pub(super) const DECISION_TIMEOUT: Duration = TRANSACTION_TIMEOUT.saturating_add(Duration::from_secs(5));
/// How far the first read goes back beyond twice the number of outputs, and how much further each next one.
const FIRST_READ: u64 = 256;
const READ_GROWTH: u64 = 16;
/// How far back outputs are read at most. Only outputs that many partitions share are ever as long.
const MAX_READ: u64 = 1 << 20;
const NOTE_TAG: &str = "ebb1";

/// What a commit says about its transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::workers) struct CommitNote {
    /// The first record that its outputs can come from.
    since: NextOffset,
    /// Number of outputs of records from there up to the offset.
    outputs: u64,
    /// Where each output log ended before outputs of records from `since` on were written.
    ends: Vec<u64>,
}

impl CommitNote {
    fn encode(&self, digest: u64) -> String {
        let mut note = format!("{NOTE_TAG} {digest:016x} {} {}", self.since.0, self.outputs);
        // Writing to a string cannot fail.
        self.ends.iter().for_each(|end| _ = write!(note, " {end}"));
        note
    }

    /// None if it was written by another program, for another log or for other outputs.
    fn decode(note: &str, digest: u64, outputs: usize) -> Option<Self> {
        let mut words = note.split(' ');
        let is_ours = words.next() == Some(NOTE_TAG) && words.next() == Some(&format!("{digest:016x}"));
        let mut numbers = words.map(|word| word.parse::<u64>().ok());
        let (since, count) = (numbers.next()??, numbers.next()??);
        let ends: Vec<u64> = numbers.collect::<Option<_>>()?;
        (is_ours && ends.len() == outputs).then_some(Self { since: NextOffset(since), outputs: count, ends })
    }
}

/// Which outputs of a partition are still to be emitted, and what the next commit says about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutputLedger {
    /// Records from here on are emitted, unless their output is readable already.
    pub(super) emit_from: NextOffset,
    /// Source offsets of outputs that are readable already.
    readable: BTreeSet<u64>,
    note: CommitNote,
    /// Something was emitted again that the committed offset covers: it needs a commit although the offset stays.
    pub(super) needs_commit: bool,
}

impl OutputLedger {
    pub(super) fn new(emit_from: NextOffset, ends: Vec<u64>) -> Self {
        let note = CommitNote { since: emit_from, outputs: 0, ends };
        Self { emit_from, readable: BTreeSet::new(), note, needs_commit: false }
    }

    /// Counts an output; returns whether it is to be emitted.
    pub(super) fn enter(&mut self, offset: u64, committed: NextOffset) -> bool {
        self.note.outputs += 1;
        let is_new = self.readable.is_empty() || !self.readable.contains(&offset);
        self.needs_commit |= is_new && offset < committed.0;
        is_new
    }

    /// Everything so far is committed.
    pub(super) fn note_committed(&mut self, committed: NextOffset) {
        (self.note.since, self.note.outputs, self.needs_commit) = (committed, 0, false);
        // Outputs of later records lie behind the old ends.
        self.readable = self.readable.split_off(&committed.0);
    }
}

/// The outputs of a partition as they were read back.
#[derive(Debug)]
struct ReadableOutputs {
    /// Source offsets of the outputs that consumers can read.
    sources: BTreeSet<u64>,
    ends: Vec<LogEnds>,
    /// Whether nothing was missed: no retention, no compaction, nothing too far back.
    is_complete: bool,
}

impl ReadableOutputs {
    fn high_watermarks(&self) -> Vec<u64> {
        self.ends.iter().map(|end| end.high_watermark).collect()
    }
}

impl KafkaSource {
    /// Distinguishes the log and its outputs from others.
    fn digest(&self) -> u64 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.topic_id.map_or(0, |id| id.0).to_be_bytes());
        for partition in self.output_partitions() {
            hasher.update(format!("{partition}\n").as_bytes());
        }
        u64::from_be_bytes(std::array::from_fn(|index| hasher.finalize().as_bytes()[index]))
    }

    fn output_partitions(&self) -> Vec<TopicPartition> {
        let partitions = self.stream.outputs.partitions(&self.partition);
        let named = |(topic, partition): (&std::ffi::CStr, i32)| TopicPartition {
            topic: topic.to_string_lossy().as_ref().into(),
            partition: partition as u32,
        };
        partitions.map(named).collect()
    }

    /// Whether every transaction that was open when the outputs were first read is decided. Other partitions that share an
    /// output continue to write to it.
    fn is_decided(&mut self, ends: &[LogEnds]) -> bool {
        let first = self.attempt.output_ends.get_or_insert_with(|| ends.iter().map(|end| end.high_watermark).collect());
        ends.iter().zip(first).all(|(now, first)| now.last_stable >= now.high_watermark.min(*first))
    }
}

impl PartitionSlot<KafkaLog> {
    /// What a commit of this partition stores with its offset.
    pub(super) fn commit_note(&self) -> String {
        match &self.loaded {
            Some(loaded) if self.source.stream.delivery == Delivery::ExactlyOnce => {
                loaded.cursor.ledger.note.encode(self.source.digest())
            }
            Some(_) | None => String::new(),
        }
    }
}

impl Worker<KafkaLog> {
    /// The ledger of a partition without a committed offset, which starts at `start`.
    pub(super) fn first_ledger(&mut self, slot: usize, start: NextOffset) -> Result<OutputLedger, Fault> {
        let readable = self.readable_outputs(slot, None)?;
        Ok(OutputLedger::new(start, readable.map_or_else(Vec::new, |readable| readable.high_watermarks())))
    }

    /// Compares the committed offset of a partition with its outputs.
    pub(super) fn ledger(&mut self, slot: usize, committed: &CommittedOffset) -> Result<OutputLedger, Fault> {
        let source = &self.slots[slot].source;
        let outputs = source.output_partitions().len();
        let note =
            CommitNote::decode(&committed.note, source.digest(), outputs).filter(|note| note.since <= committed.next);
        let note = self.log.rules.trusted_note(note);
        let Some(readable) = self.readable_outputs(slot, note.as_ref())? else {
            return Ok(OutputLedger::new(committed.next, Vec::new()));
        };
        let ends = readable.high_watermarks();
        let Some(note) = note else { return Ok(OutputLedger::new(committed.next, ends)) };
        let PartitionSlot { id, source, .. } = &mut self.slots[slot];
        let is_decided = source.is_decided(&readable.ends);
        let attempt_since = *source.attempt.since.get_or_insert_with(Instant::now);
        let found = readable.sources.range(note.since.0..committed.next.0).count() as u64;
        if !is_decided && attempt_since.elapsed() < DECISION_TIMEOUT {
            return Err(Fault::new("reading the outputs", Remedy::Retry, "a transaction is not decided yet"));
        }
        let emit_from = match (found == note.outputs, is_decided && readable.is_complete) {
            (true, _) => committed.next,
            (false, true) => {
                let expected = note.outputs;
                tracing::warn!(shard = %id, found, expected, "committed outputs are missing, emitting them again");
                note.since
            }
            (false, false) => {
                tracing::error!(
                    shard = %id, found, expected = note.outputs,
                    "outputs cannot be counted (deleted, compacted, or behind a hanging transaction), trusting the offset"
                );
                committed.next
            }
        };
        let readable: BTreeSet<u64> = readable.sources.into_iter().filter(|source| *source >= emit_from.0).collect();
        let ahead = readable.range(committed.next.0..).count();
        if ahead > 0 {
            tracing::warn!(shard = %id, ahead, "outputs beyond the committed offset are readable, not emitting them again");
        }
        let ends = if readable.is_empty() { ends } else { note.ends };
        Ok(OutputLedger { readable, ..OutputLedger::new(emit_from, ends) })
    }

    /// Reads the outputs of a partition back: where they end, and which of them come from records since the note. None if
    /// there are no transactional outputs, or if this instance may not read them.
    fn readable_outputs(&mut self, slot: usize, note: Option<&CommitNote>) -> Result<Option<ReadableOutputs>, Fault> {
        if self.slots[slot].source.stream.delivery != Delivery::ExactlyOnce {
            return Ok(None);
        }
        match self.read_outputs(slot, note) {
            Ok(readable) => Ok(Some(readable)),
            Err(fault) if fault.remedy == Remedy::End => {
                tracing::warn!(shard = %self.slots[slot].id, %fault, "outputs may not be read, trusting the committed offset");
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }

    fn read_outputs(&mut self, slot: usize, note: Option<&CommitNote>) -> Result<ReadableOutputs, Fault> {
        let source = &self.slots[slot].source;
        let is_complete = !source.stream.outputs.targets().any(|target| target.is_compacted);
        let mut readable = ReadableOutputs { sources: BTreeSet::new(), ends: Vec::new(), is_complete };
        let tail = match self.log.tail_reader.take() {
            Some(tail) => tail,
            None => TailReader::new(&self.log.options.settings, READ_TIMEOUT)?,
        };
        let tail = self.log.tail_reader.insert(tail);
        let prefix = format!("{}/", source.partition);
        for (index, partition) in source.output_partitions().iter().enumerate() {
            let (ends, is_complete) = match note {
                None => (tail.read(partition, tail.stable_range(partition)?.1, outputs::SOURCE, |_| ())?, true),
                Some(note) => {
                    let read =
                        OutputRead { tail, partition, prefix: &prefix, since: note.since, from: note.ends[index] };
                    read.backwards(FIRST_READ + 2 * note.outputs, &mut readable.sources)?
                }
            };
            readable.ends.push(ends);
            readable.is_complete &= is_complete;
        }
        Ok(readable)
    }
}

/// A read of one output log.
struct OutputRead<'a> {
    tail: &'a TailReader,
    partition: &'a TopicPartition,
    /// What the source headers of our outputs begin with.
    prefix: &'a str,
    since: NextOffset,
    /// None of our outputs is before this offset.
    from: u64,
}

impl OutputRead<'_> {
    /// Reads further and further back until an output is older than `since`; returns whether it got there.
    fn backwards(&self, mut distance: u64, sources: &mut BTreeSet<u64>) -> Result<(LogEnds, bool), Fault> {
        loop {
            let (log_start, last_stable) = self.tail.stable_range(self.partition)?;
            let lowest = self.from.max(log_start).min(last_stable);
            let from = last_stable.saturating_sub(distance).max(lowest);
            let (mut oldest, mut found) = (None, Vec::new());
            let ends = self.tail.read(self.partition, from, outputs::SOURCE, |value| {
                if let Some(offset) = source_offset(value, self.prefix) {
                    oldest.get_or_insert(offset);
                    found.extend((offset >= self.since.0).then_some(offset));
                }
            })?;
            // What retention has deleted cannot be counted, nor what was in a log that was recreated.
            let is_all = from == self.from || oldest.is_some_and(|offset| offset < self.since.0);
            if is_all || from == lowest || distance >= MAX_READ {
                sources.extend(found);
                return Ok((ends, is_all));
            }
            distance *= READ_GROWTH;
        }
    }
}

/// The offset in `topic/partition/offset`, if it is of our partition.
fn source_offset(value: &[u8], prefix: &str) -> Option<u64> {
    std::str::from_utf8(value).ok()?.strip_prefix(prefix)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> CommitNote {
        CommitNote { since: NextOffset(40), outputs: 3, ends: vec![7, 0, 12] }
    }

    #[test]
    fn commit_note_decodes_only_for_its_own_log_and_outputs() {
        let text = note().encode(0xABC);
        assert_eq!(CommitNote::decode(&text, 0xABC, 3), Some(note()));
        assert_eq!(CommitNote::decode(&text, 0xABD, 3), None);
        assert_eq!(CommitNote::decode(&text, 0xABC, 2), None);
        for other in ["", "ebb1", "ebb1 0000000000000abc", "ebb1 0000000000000abc 4 x 1 2 3", &text[1..]] {
            assert_eq!(CommitNote::decode(other, 0xABC, 3), None, "{other}");
        }
    }

    #[test]
    fn readable_outputs_are_counted_but_not_emitted_and_missing_ones_need_a_commit() {
        let mut ledger =
            OutputLedger { readable: BTreeSet::from([11, 13]), ..OutputLedger::new(NextOffset(10), vec![5]) };
        let committed = NextOffset(13);
        let emitted: Vec<u64> = (10..15).filter(|offset| ledger.enter(*offset, committed)).collect();
        assert_eq!((emitted, ledger.note.outputs, ledger.needs_commit), (vec![10, 12, 14], 5, true));
        ledger.note_committed(NextOffset(13));
        assert_eq!((ledger.note.since, ledger.note.outputs, ledger.needs_commit), (NextOffset(13), 0, false));
        assert!(!ledger.enter(13, committed) && ledger.enter(11, NextOffset(5)) && !ledger.needs_commit);
    }

    #[test]
    fn source_offset_is_read_only_for_its_own_partition() {
        assert_eq!(source_offset(b"clicks/3/17", "clicks/3/"), Some(17));
        assert_eq!(source_offset(b"clicks/31/17", "clicks/3/"), None);
        assert_eq!(source_offset(b"clicks/3/x", "clicks/3/"), None);
        assert_eq!(source_offset(&[0xFF], "clicks/3/"), None);
    }
}
