//! Reads one partition from its beginning to its present end, outside of any group.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::message::{Headers, Message as _};
use rdkafka::{ClientContext, Offset, TopicPartitionList};

use super::consumer::Part;
use super::fault::{Fault, Remedy};
use super::settings::Settings;

const CALL: &str = "reading a topic";
const TURN: Duration = Duration::from_millis(200);

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
    part: &Part,
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
