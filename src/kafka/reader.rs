//! Reads partitions outside of any group: one from its beginning to its present end, or what is committed at the end of
//! some.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Headers, Message as _};
use rdkafka::{ClientContext, Offset, TopicPartitionList};

use super::event::TopicPartition;
use super::fault::{self, Fault, Remedy};
use super::group::{CommittedOffset, committed_offset};
use super::raw::{self, PartitionQueue};
use super::settings::Settings;

const CALL: &str = "reading a topic";
const TURN: Duration = Duration::from_millis(200);
const SHORT_TURN: Duration = Duration::from_millis(1);
const BATCH: usize = 1_000;

/// Reaching the end is no error worth a line.
struct Quiet;

impl ClientContext for Quiet {
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "reader");
    }
}

impl ConsumerContext for Quiet {}

/// A record as it was read.
#[derive(Debug, Clone, Copy)]
pub struct Read<'a> {
    pub key: &'a [u8],
    /// Absent: the key was deleted.
    pub payload: Option<&'a [u8]>,
    /// The value of the first header.
    pub header: &'a [u8],
}

/// Shows every record, committed or not, to `see`; an error when the end is not reached within `patience`.
pub fn read_all(
    settings: &Settings,
    part: &TopicPartition,
    patience: Duration,
    mut see: impl FnMut(Read<'_>),
) -> Result<(), Fault> {
    let fault = |error: KafkaError| Fault::new(CALL, Remedy::Retry, error);
    let consumer: BaseConsumer<Quiet> = settings.reader().create_with_context(Quiet).map_err(fault)?;
    let (first, end) = consumer.fetch_watermarks(&part.topic, part.partition as i32, patience).map_err(fault)?;
    if first >= end {
        return Ok(());
    }
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&part.topic, part.partition as i32, Offset::Offset(first)).map_err(fault)?;
    consumer.assign(&list).map_err(fault)?;
    let begun = Instant::now();
    loop {
        match consumer.poll(TURN) {
            None | Some(Err(KafkaError::MessageConsumption(_))) => {}
            Some(Err(KafkaError::PartitionEOF(_))) => return Ok(()),
            Some(Err(error)) => return Err(fault(error)),
            Some(Ok(message)) => {
                let header = message.headers().and_then(|headers| headers.try_get(0)?.value);
                see(Read {
                    key: message.key().unwrap_or_default(),
                    payload: message.payload(),
                    header: header.unwrap_or_default(),
                });
            }
        }
        if begun.elapsed() > patience {
            return Err(Fault::new(CALL, Remedy::Retry, format!("{part} was not read to its end in time")));
        }
    }
}

/// What the group has committed of a partition, whatever a transaction that is not decided would make of it.
pub fn committed_so_far(
    settings: &Settings,
    part: &TopicPartition,
    patience: Duration,
) -> Result<Option<CommittedOffset>, Fault> {
    let fault = |error: KafkaError| Fault::new("reading the committed offset", Remedy::Retry, error);
    let consumer: BaseConsumer<Quiet> = settings.reader().create_with_context(Quiet).map_err(fault)?;
    let mut list = TopicPartitionList::new();
    list.add_partition(&part.topic, part.partition as i32);
    consumer.committed_offsets(list, patience).and_then(|found| committed_offset(&found)).map_err(fault)
}

/// Where a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    pub first: u64,
    /// Every transaction before this is committed or given up.
    pub decided: u64,
    /// Behind the last record, decided or not.
    pub written: u64,
}

/// Looks at the ends of logs.
pub struct Tail {
    inner: BaseConsumer<Quiet>,
    patience: Duration,
}

impl std::fmt::Debug for Tail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tail")
    }
}

impl Tail {
    pub fn new(settings: &Settings, patience: Duration) -> Result<Self, Fault> {
        let made = settings.tail().create_with_context(Quiet);
        Ok(Self { inner: made.map_err(|error| Fault::new(CALL, Remedy::Retry, error))?, patience })
    }

    /// Where a log begins, and up to where it is decided.
    pub fn decided(&self, part: &TopicPartition) -> Result<(u64, u64), Fault> {
        let asked = self.inner.fetch_watermarks(&part.topic, part.partition as i32, self.patience);
        let (first, decided) = asked.map_err(|error| Fault::repeatable(CALL, &error))?;
        Ok((first.max(0) as u64, decided.max(0) as u64))
    }

    /// Shows what the last header of this name says in every committed record from `from` on, which lies within the log.
    pub fn read(
        &self,
        part: &TopicPartition,
        from: u64,
        header: &str,
        mut see: impl FnMut(&[u8]),
    ) -> Result<Ends, Fault> {
        let again = |error: KafkaError| Fault::repeatable(CALL, &error);
        let (client, partition) = (self.inner.client().native_ptr(), part.partition as i32);
        // Asked before anything is read: what is decided meanwhile may have been passed.
        let (first, decided) = self.decided(part)?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&part.topic, partition, Offset::Offset(from as i64)).map_err(again)?;
        let queue = PartitionQueue::of(client, &part.topic, partition, BATCH);
        let mut queue = queue.ok_or_else(|| Fault::new(CALL, Remedy::Retry, format!("{part} has no queue")))?;
        self.inner.assign(&list).map_err(again)?;
        let begun = Instant::now();
        let mut is_at_end = false;
        while !is_at_end {
            for message in queue.take() {
                match message.error() {
                    None => message.last_header(header).into_iter().for_each(&mut see),
                    Some(RDKafkaErrorCode::PartitionEOF) => is_at_end = true,
                    Some(code) if fault::is_for_good(code) => return Err(Fault::new(CALL, Remedy::End, code)),
                    Some(code) => return Err(Fault::new(CALL, Remedy::Retry, code)),
                }
            }
            if begun.elapsed() > self.patience {
                return Err(Fault::new(CALL, Remedy::Retry, format!("{part} was not read to its end in time")));
            }
            // Nothing comes this way but what the client has to be served for.
            self.inner.poll(SHORT_TURN);
        }
        let written = raw::known_end(client, &part.topic, partition);
        self.inner.unassign().map_err(again)?;
        Ok(Ends { first, decided, written: written.unwrap_or(decided).max(decided) })
    }
}
