//! Output topics: where a record goes after its verdict, and the headers that are added to it.
//!
//! Key, value, headers and timestamp are copied byte for byte. Added after the record's own headers: its source
//! (`ebb-source`: topic/partition/offset), the verdict (`ebb-verdict`) and, if known, the probability that it is a repeat
//! (`ebb-posterior`) and its decayed count (`ebb-count`). A rejected record also carries the reason and the headers that
//! Kafka Streams gives to dead letters. Every record of one source partition goes to one partition of an output.

use std::ffi::{CStr, CString};
use std::fmt::Write as _;

use smallvec::SmallVec;

use crate::kafka::{Fault, Message, Output, Producer, Remedy, SendOutcome, TopicPartition};
use ebb_core::{Outcome, Verdict};

/// A topic that outputs go to.
#[derive(Debug, Clone)]
pub struct Target {
    pub topic: CString,
    pub partitions: u32,
    /// Compaction may delete outputs, so that they cannot be counted.
    pub is_compacted: bool,
}

impl Target {
    /// All records of a source partition go to one partition.
    fn partition_of(&self, source: u32) -> i32 {
        (source % self.partitions.max(1)) as i32
    }
}

/// The topics of a stream's verdicts; records of a verdict without a topic are only counted.
#[derive(Debug, Clone, Default)]
pub struct OutputTopics {
    pub unique: Option<Target>,
    pub duplicate: Option<Target>,
    pub late: Option<Target>,
    pub rejected: Option<Target>,
}

/// Header with the source of a record.
pub(super) const SOURCE: &str = "ebb-source";
/// Reason header of a record that is too large for its output topic.
pub const OVERSIZE: &str = "oversize";
/// Takes the place of the exception class in Kafka Streams' dead letters.
const EXCEPTION: &str = "ebb.Rejected";

impl OutputTopics {
    pub fn is_empty(&self) -> bool {
        self.targets().next().is_none()
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = &Target> {
        [&self.unique, &self.duplicate, &self.late, &self.rejected].into_iter().flatten()
    }

    /// Every partition that outputs of this source partition go to.
    pub(super) fn partitions(&self, source: &TopicPartition) -> impl Iterator<Item = (&CStr, i32)> {
        let partition = source.partition;
        self.targets().map(move |target| (&*target.topic, target.partition_of(partition)))
    }

    /// Whether there is a topic for this verdict.
    pub(super) fn has_topic(&self, verdict: Verdict) -> bool {
        self.target(verdict).is_some()
    }

    fn target(&self, verdict: Verdict) -> Option<&Target> {
        match verdict {
            Verdict::Unique => self.unique.as_ref(),
            Verdict::Duplicate => self.duplicate.as_ref(),
            Verdict::Late => self.late.as_ref(),
            Verdict::Rejected(_) => self.rejected.as_ref(),
        }
    }
}

/// Writes outputs; reuses its buffers from one record to the next.
#[derive(Debug, Default)]
pub(super) struct Emitter {
    /// Topic, partition and offset.
    source: String,
    /// Length of topic and partition in it.
    prefix_length: usize,
    posterior: String,
    count: String,
}

type Headers<'a> = SmallVec<[(&'static str, &'a [u8]); 10]>;

impl Emitter {
    /// Sets the partition that the next records come from.
    pub(super) fn set_source(&mut self, part: &TopicPartition) {
        self.source.clear();
        // Writing to a string cannot fail.
        let _ = write!(self.source, "{}/{}/", part.topic, part.partition);
        self.prefix_length = self.source.len();
    }

    /// Queues the output of a record, if its verdict has a topic; returns its size in bytes.
    pub(super) fn emit(
        &mut self,
        producer: &mut Producer,
        outputs: &OutputTopics,
        part: &TopicPartition,
        message: &Message,
        outcome: &Outcome,
    ) -> Result<usize, Fault> {
        let Some(target) = outputs.target(outcome.verdict) else { return Ok(0) };
        self.write(message, outcome);
        let reason = match outcome.verdict {
            Verdict::Rejected(reason) => Some((reason.name(), reason.description())),
            Verdict::Unique | Verdict::Duplicate | Verdict::Late => None,
        };
        let headers = self.headers(outcome.verdict, reason);
        let output = Output {
            topic: &target.topic,
            partition: target.partition_of(part.partition),
            key: message.key(),
            payload: message.payload(),
            timestamp_ms: message.timestamp_ms(),
            source: Some(message),
            headers: &headers,
            tag: 0,
        };
        match producer.send(&output)? {
            SendOutcome::Queued => Ok(output.key.map_or(0, <[u8]>::len) + output.payload.map_or(0, <[u8]>::len)),
            SendOutcome::TooLarge => {
                self.emit_stub(producer, outputs.rejected.as_ref().unwrap_or(target), part, outcome, &output)
            }
        }
    }

    /// Queues a stub for a record that is too large: no value, none of its own headers, and a reason.
    fn emit_stub(
        &self,
        producer: &mut Producer,
        target: &Target,
        part: &TopicPartition,
        outcome: &Outcome,
        output: &Output<'_>,
    ) -> Result<usize, Fault> {
        let why = "the record with its headers is larger than the output topic allows; read it at its source";
        let headers = self.headers(outcome.verdict, Some((OVERSIZE, why)));
        let stub = Output {
            topic: &target.topic,
            partition: target.partition_of(part.partition),
            key: None,
            payload: None,
            source: None,
            headers: &headers,
            ..*output
        };
        match producer.send(&stub)? {
            SendOutcome::Queued => Ok(0),
            SendOutcome::TooLarge => {
                Err(Fault::new("producing", Remedy::End, format!("{part}: the output topic accepts no record")))
            }
        }
    }

    fn write(&mut self, message: &Message, outcome: &Outcome) {
        self.source.truncate(self.prefix_length);
        self.posterior.clear();
        self.count.clear();
        // Writing to a string cannot fail.
        let _ = write!(self.source, "{}", message.offset());
        let answer = outcome.answer.as_ref();
        if let Some(belief) = answer.and_then(|answer| answer.belief.as_ref()) {
            let _ = write!(self.posterior, "{}", belief.inside);
        }
        if let Some(count) = answer.and_then(|answer| answer.frequency.as_ref()) {
            let _ = write!(self.count, "{}", count.value);
        }
    }

    fn headers(&self, verdict: Verdict, reason: Option<(&'static str, &'static str)>) -> Headers<'_> {
        let mut headers = Headers::new();
        headers.push((SOURCE, self.source.as_bytes()));
        headers.push(("ebb-verdict", verdict.name().as_bytes()));
        for (name, text) in [("ebb-posterior", &self.posterior), ("ebb-count", &self.count)] {
            if !text.is_empty() {
                headers.push((name, text.as_bytes()));
            }
        }
        if let Some((reason, why)) = reason {
            let mut place = self.source.rsplitn(3, '/').map(str::as_bytes);
            let mut last = || place.next().unwrap_or_default();
            let (offset, partition, topic) = (last(), last(), last());
            headers.extend([
                ("ebb-reason", reason.as_bytes()),
                ("__streams.errors.exception", EXCEPTION.as_bytes()),
                ("__streams.errors.message", why.as_bytes()),
                ("__streams.errors.topic", topic),
                ("__streams.errors.partition", partition),
                ("__streams.errors.offset", offset),
            ]);
        }
        headers
    }
}
