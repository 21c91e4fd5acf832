//! Reads partitions without joining a group: a whole partition up to its current end, or the committed records at the
//! end of a log.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message as _};
use rdkafka::{ClientContext, Offset, TopicPartitionList};

use super::event::TopicPartition;
use super::fault::{self, Fault, Remedy};
use super::group::{CommittedOffset, committed_offset};
use super::raw::{self, PartitionQueue};
use super::settings::Settings;

const READ_TOPIC: &str = "reading a topic";
const POLL_INTERVAL: Duration = Duration::from_millis(200);
const TAIL_POLL_INTERVAL: Duration = Duration::from_millis(1);
const TAIL_BATCH: usize = 1_000;

/// Logs errors at debug level: reaching the end of a partition is reported as one.
struct ReaderContext;

impl ClientContext for ReaderContext {
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "reader error");
    }
}

impl ConsumerContext for ReaderContext {}

/// A record of a compacted topic.
#[derive(Debug, Clone, Copy)]
pub struct TopicRecord<'a> {
    pub key: &'a [u8],
    /// `None` is a tombstone: the key was deleted.
    pub payload: Option<&'a [u8]>,
    /// The value of the first header.
    pub header: &'a [u8],
}

impl<'a> TopicRecord<'a> {
    fn new(message: &'a BorrowedMessage<'_>) -> Self {
        let header = message.headers().and_then(|headers| headers.try_get(0)?.value);
        Self { key: message.key().unwrap_or_default(), payload: message.payload(), header: header.unwrap_or_default() }
    }
}

/// Passes every record of the partition to `visit`, committed or not; fails unless the end is reached within `timeout`.
pub fn read_partition(
    settings: &Settings,
    partition: &TopicPartition,
    timeout: Duration,
    mut visit: impl FnMut(TopicRecord<'_>),
) -> Result<(), Fault> {
    let fault = |error: KafkaError| Fault::new(READ_TOPIC, Remedy::Retry, error);
    let consumer: BaseConsumer<ReaderContext> = settings.reader().create_with_context(ReaderContext).map_err(fault)?;
    let (start, end) =
        consumer.fetch_watermarks(&partition.topic, partition.partition as i32, timeout).map_err(fault)?;
    if start >= end {
        return Ok(());
    }
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&partition.topic, partition.partition as i32, Offset::Offset(start)).map_err(fault)?;
    consumer.assign(&list).map_err(fault)?;
    let begun = Instant::now();
    loop {
        match consumer.poll(POLL_INTERVAL) {
            None | Some(Err(KafkaError::MessageConsumption(_))) => {}
            Some(Err(KafkaError::PartitionEOF(_))) => return Ok(()),
            Some(Err(error)) => return Err(fault(error)),
            Some(Ok(message)) => visit(TopicRecord::new(&message)),
        }
        if begun.elapsed() > timeout {
            return Err(end_not_reached(partition));
        }
    }
}

/// The group's committed offset as of the last decided transaction. Unlike [`Group::committed`](super::Group::committed)
/// it does not wait for pending transactional offset commits.
pub fn committed_offset_ignoring_pending(
    settings: &Settings,
    partition: &TopicPartition,
    timeout: Duration,
) -> Result<Option<CommittedOffset>, Fault> {
    let fault = |error: KafkaError| Fault::new("reading the committed offset", Remedy::Retry, error);
    let consumer: BaseConsumer<ReaderContext> = settings.reader().create_with_context(ReaderContext).map_err(fault)?;
    let mut list = TopicPartitionList::new();
    list.add_partition(&partition.topic, partition.partition as i32);
    consumer.committed_offsets(list, timeout).and_then(|found| committed_offset(&found)).map_err(fault)
}

/// The boundaries of a partition's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnds {
    pub log_start: u64,
    /// Every transaction before this offset is committed or aborted.
    pub last_stable: u64,
    /// The offset after the last record, whether its transaction is decided or not.
    pub high_watermark: u64,
}

/// Reads committed records at the end of partitions.
pub struct TailReader {
    inner: BaseConsumer<ReaderContext>,
    timeout: Duration,
}

impl std::fmt::Debug for TailReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TailReader")
    }
}

impl TailReader {
    pub fn new(settings: &Settings, timeout: Duration) -> Result<Self, Fault> {
        let created = settings.tail_reader().create_with_context(ReaderContext);
        Ok(Self { inner: created.map_err(|error| Fault::new(READ_TOPIC, Remedy::Retry, error))?, timeout })
    }

    /// The log start offset and the last stable offset.
    pub fn stable_range(&self, partition: &TopicPartition) -> Result<(u64, u64), Fault> {
        let response = self.inner.fetch_watermarks(&partition.topic, partition.partition as i32, self.timeout);
        let (log_start, last_stable) = response.map_err(|error| Fault::idempotent(READ_TOPIC, &error))?;
        Ok((log_start.max(0) as u64, last_stable.max(0) as u64))
    }

    /// Passes the last header named `header` of every committed record at or after `from` to `visit`. `from` must lie
    /// within the log.
    pub fn read(
        &self,
        partition: &TopicPartition,
        from: u64,
        header: &str,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<LogEnds, Fault> {
        // Read first: transactions that are decided during the read may lie before the read position.
        let (log_start, last_stable) = self.stable_range(partition)?;
        let retryable = |error: KafkaError| Fault::idempotent(READ_TOPIC, &error);
        let mut queue = self.assign(partition, from)?;
        let begun = Instant::now();
        let mut is_at_end = false;
        while !is_at_end {
            for message in queue.take() {
                match message.error() {
                    None => message.last_header(header).into_iter().for_each(&mut visit),
                    Some(RDKafkaErrorCode::PartitionEOF) => is_at_end = true,
                    Some(code) if fault::is_permanent(code) => return Err(Fault::new(READ_TOPIC, Remedy::End, code)),
                    Some(code) => return Err(Fault::new(READ_TOPIC, Remedy::Retry, code)),
                }
            }
            if begun.elapsed() > self.timeout {
                return Err(end_not_reached(partition));
            }
            // Records arrive in the partition's own queue; this serves the client's callbacks.
            self.inner.poll(TAIL_POLL_INTERVAL);
        }
        let high_watermark =
            raw::known_end(self.inner.client().native_ptr(), &partition.topic, partition.partition as i32);
        self.inner.unassign().map_err(retryable)?;
        Ok(LogEnds { log_start, last_stable, high_watermark: high_watermark.unwrap_or(last_stable).max(last_stable) })
    }

    fn assign(&self, partition: &TopicPartition, from: u64) -> Result<PartitionQueue, Fault> {
        let retryable = |error: KafkaError| Fault::idempotent(READ_TOPIC, &error);
        let (topic, index) = (&partition.topic, partition.partition as i32);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, index, Offset::Offset(from as i64)).map_err(retryable)?;
        let queue = PartitionQueue::of(self.inner.client().native_ptr(), topic, index, TAIL_BATCH);
        let queue = queue.ok_or_else(|| Fault::new(READ_TOPIC, Remedy::Retry, format!("{partition} has no queue")))?;
        self.inner.assign(&list).map_err(retryable)?;
        Ok(queue)
    }
}

fn end_not_reached(partition: &TopicPartition) -> Fault {
    Fault::new(READ_TOPIC, Remedy::Retry, format!("{partition} was not read to its end in time"))
}
