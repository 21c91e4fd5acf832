//! Calls that the safe client does not have: consuming one partition in batches, producing a record with its headers byte
//! for byte, flushing without polling, reading topic ids, the group membership and the length of the consumer's queue.
//! This file is unsafe because all of it handles librdkafka's own pointers.
//!
//! Batches are consumed only by the poll thread, which also answers rebalances and seeks, so that these calls never
//! overlap (librdkafka's batch calls lost messages when they did).
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::time::Duration;

use ebb_core::partition::Membership;
use rdkafka::bindings as sys;
use rdkafka::types::{RDKafka, RDKafkaErrorCode, RDKafkaRespErr};

/// One consumed record, in librdkafka's memory.
#[derive(Debug)]
pub struct Message(NonNull<sys::rd_kafka_message_t>);

// SAFETY: a message is not tied to the thread that consumed it, and is never changed after that.
unsafe impl Send for Message {}
// SAFETY: as above; all access is by reading.
unsafe impl Sync for Message {}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a consume call and is destroyed once.
        unsafe { sys::rd_kafka_message_destroy(self.0.as_ptr()) }
    }
}

impl Message {
    fn get(&self) -> &sys::rd_kafka_message_t {
        // SAFETY: valid until dropped.
        unsafe { self.0.as_ref() }
    }

    /// The error that librdkafka returned in place of a record, if any.
    pub(super) fn error(&self) -> Option<RDKafkaErrorCode> {
        let error = self.get().err;
        (error != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).then(|| error.into())
    }

    pub fn offset(&self) -> u64 {
        self.get().offset.max(0) as u64
    }

    /// The record's timestamp; -1 if it has none.
    pub fn timestamp_ms(&self) -> i64 {
        // SAFETY: the message is valid, and the kind of timestamp is not asked for.
        unsafe { sys::rd_kafka_message_timestamp(self.0.as_ptr(), ptr::null_mut()) }
    }

    pub fn payload(&self) -> Option<&[u8]> {
        let message = self.get();
        bytes(message.payload, message.len)
    }

    pub fn key(&self) -> Option<&[u8]> {
        let message = self.get();
        bytes(message.key, message.key_len)
    }

    fn headers(&self) -> *mut sys::rd_kafka_headers_t {
        let mut headers = ptr::null_mut();
        // SAFETY: the message is valid and keeps owning its headers.
        let error = unsafe { sys::rd_kafka_message_headers(self.0.as_ptr(), &mut headers) };
        if error == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR { headers } else { ptr::null_mut() }
    }

    /// The value of the last header of this name.
    pub(super) fn last_header(&self, name: &str) -> Option<&[u8]> {
        let name = CString::new(name).ok()?;
        let (mut value, mut size) = (ptr::null(), 0);
        let headers = NonNull::new(self.headers())?;
        // SAFETY: the headers live as long as the message, the name is terminated, and both outputs are writable.
        let error = unsafe { sys::rd_kafka_header_get_last(headers.as_ptr(), name.as_ptr(), &mut value, &mut size) };
        (error == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).then(|| bytes(value, size)).flatten()
    }
}

fn bytes<'a>(start: *const c_void, length: usize) -> Option<&'a [u8]> {
    if start.is_null() {
        return None;
    }
    // SAFETY: librdkafka gives a pointer to `length` readable bytes; callers bind the lifetime to the message.
    Some(unsafe { std::slice::from_raw_parts(start.cast(), length) })
}

/// The queue of one assigned partition, which receives all its records.
#[derive(Debug)]
pub(super) struct PartitionQueue {
    queue: NonNull<sys::rd_kafka_queue_t>,
    buffer: Vec<*mut sys::rd_kafka_message_t>,
    /// Keeps the queue on the thread that polls.
    _not_sync: PhantomData<*mut ()>,
}

// SAFETY: moved between threads only with the consumer that owns it, before polling begins.
unsafe impl Send for PartitionQueue {}

impl Drop for PartitionQueue {
    fn drop(&mut self) {
        // SAFETY: this is the only reference that is ours.
        unsafe { sys::rd_kafka_queue_destroy(self.queue.as_ptr()) }
    }
}

impl PartitionQueue {
    /// Separates the partition's records from the consumer's common queue; up to `max_batch` are consumed at once. To be
    /// called before the partition is assigned.
    pub(super) fn of(client: *mut RDKafka, topic: &str, partition: i32, max_batch: usize) -> Option<Self> {
        let topic = CString::new(topic).ok()?;
        // SAFETY: the client is alive (the caller holds it), the name is terminated; forwarding to nothing unlinks it.
        let queue = unsafe {
            let queue = NonNull::new(sys::rd_kafka_queue_get_partition(client, topic.as_ptr(), partition))?;
            sys::rd_kafka_queue_forward(queue.as_ptr(), ptr::null_mut());
            queue
        };
        Some(Self { queue, buffer: vec![ptr::null_mut(); max_batch], _not_sync: PhantomData })
    }

    /// A batch of fetched records; does not wait.
    pub(super) fn take(&mut self) -> Vec<Message> {
        // SAFETY: the buffer has room for the given number of pointers; the first `count` are ours afterwards.
        let count = unsafe {
            sys::rd_kafka_consume_batch_queue(self.queue.as_ptr(), 0, self.buffer.as_mut_ptr(), self.buffer.len())
        };
        let batch = &self.buffer[..usize::try_from(count).unwrap_or(0)];
        batch.iter().filter_map(|message| NonNull::new(*message).map(Message)).collect()
    }
}

/// A record to produce.
#[derive(Debug, Clone, Copy)]
pub struct Output<'a> {
    pub topic: &'a CStr,
    pub partition: i32,
    pub key: Option<&'a [u8]>,
    pub payload: Option<&'a [u8]>,
    /// Zero or negative: the time of sending.
    pub timestamp_ms: i64,
    /// The record whose headers are copied first.
    pub source: Option<&'a Message>,
    pub headers: &'a [(&'static str, &'a [u8])],
    /// Returned with the delivery report.
    pub tag: usize,
}

/// A producer's topic handles by name: looking one up for every record would take the client's lock.
#[derive(Debug, Default)]
pub(super) struct Topics(Vec<(CString, NonNull<sys::rd_kafka_topic_t>)>);

// SAFETY: librdkafka's topic handles may be used from any thread.
unsafe impl Send for Topics {}

impl Drop for Topics {
    fn drop(&mut self) {
        for (_, topic) in &self.0 {
            // SAFETY: the reference is ours; the owner of this drops it before the client.
            unsafe { sys::rd_kafka_topic_destroy(topic.as_ptr()) }
        }
    }
}

impl Topics {
    fn get(&mut self, client: *mut RDKafka, name: &CStr) -> Option<NonNull<sys::rd_kafka_topic_t>> {
        if let Some((_, topic)) = self.0.iter().find(|(known, _)| known.as_c_str() == name) {
            return Some(*topic);
        }
        // SAFETY: the client is alive, the name is terminated; without a configuration it uses the client's.
        let topic = NonNull::new(unsafe { sys::rd_kafka_topic_new(client, name.as_ptr(), ptr::null_mut()) })?;
        self.0.push((name.to_owned(), topic));
        Some(topic)
    }
}

/// Appends a record to the producer's queue; everything is copied.
pub(super) fn produce(client: *mut RDKafka, topics: &mut Topics, output: &Output<'_>) -> Result<(), RDKafkaErrorCode> {
    let topic = topics.get(client, output.topic).ok_or(RDKafkaErrorCode::UnknownTopic)?;
    let memory = |bytes: Option<&[u8]>| bytes.map_or((ptr::null(), 0), |bytes| (bytes.as_ptr(), bytes.len()));
    let ((payload, length), (key, key_length)) = (memory(output.payload), memory(output.key));
    // SAFETY: all pointers are valid for the call, and librdkafka copies what they point to. The headers are ours until
    // the call succeeds, and librdkafka's from then on.
    unsafe {
        let headers = match output.source.map_or(ptr::null_mut(), Message::headers) {
            none if none.is_null() => sys::rd_kafka_headers_new(output.headers.len()),
            headers => sys::rd_kafka_headers_copy(headers),
        };
        for (name, value) in output.headers {
            sys::rd_kafka_header_add(
                headers,
                name.as_ptr().cast(),
                name.len() as isize,
                value.as_ptr().cast(),
                value.len() as isize,
            );
        }
        let error = sys::rd_kafka_producev(
            client,
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_RKT,
            topic.as_ptr(),
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_PARTITION,
            output.partition,
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_MSGFLAGS,
            sys::RD_KAFKA_MSG_F_COPY as c_int,
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_VALUE,
            payload.cast::<c_void>(),
            length,
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_KEY,
            key.cast::<c_void>(),
            key_length,
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_OPAQUE,
            output.tag as *mut c_void,
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_TIMESTAMP,
            output.timestamp_ms.max(0),
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_HEADERS,
            headers,
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_END,
        );
        if error == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Ok(());
        }
        sys::rd_kafka_headers_destroy(headers);
        Err(error.into())
    }
}

/// Waits until every queued record is written or has failed, without lingering; returns whether all of them were written.
/// Failures that were not polled count as not written.
pub(super) fn flush(client: *mut RDKafka, wait: Duration) -> bool {
    let wait_ms = c_int::try_from(wait.as_millis()).unwrap_or(c_int::MAX);
    // SAFETY: the client is alive.
    unsafe { sys::rd_kafka_flush(client, wait_ms) == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR }
}

/// The end of the log as of the last fetch.
pub(super) fn known_end(client: *mut RDKafka, topic: &str, partition: i32) -> Option<u64> {
    let topic = CString::new(topic).ok()?;
    let (mut low, mut high) = (0, -1);
    // SAFETY: the client is alive, the name is terminated, and both outputs are writable.
    let error = unsafe { sys::rd_kafka_get_watermark_offsets(client, topic.as_ptr(), partition, &mut low, &mut high) };
    (error == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).then(|| u64::try_from(high).ok()).flatten()
}

/// The membership that librdkafka's own thread has now, if the client is a member.
pub(super) fn membership(client: *mut RDKafka) -> Option<Membership> {
    // SAFETY: the client is alive; the returned metadata is ours, and destroyed once, after its last use.
    unsafe {
        let metadata = NonNull::new(sys::rd_kafka_consumer_group_metadata(client))?.as_ptr();
        let generation = sys::rd_kafka_consumer_group_metadata_generation_id(metadata);
        let member =
            CStr::from_ptr(sys::rd_kafka_consumer_group_metadata_member_id(metadata)).to_string_lossy().into_owned();
        sys::rd_kafka_consumer_group_metadata_destroy(metadata);
        (generation > 0 && !member.is_empty()).then_some(Membership { member, generation })
    }
}

/// Number of events in the consumer's queue that were not polled yet.
pub(super) fn queued_events(client: *mut RDKafka) -> usize {
    // SAFETY: the client is alive; the reference is ours, and released once.
    unsafe {
        let Some(queue) = NonNull::new(sys::rd_kafka_queue_get_consumer(client)) else { return 0 };
        let length = sys::rd_kafka_queue_length(queue.as_ptr());
        sys::rd_kafka_queue_destroy(queue.as_ptr());
        length
    }
}

/// The id of the topic that has this name now; 0 if the brokers are too old to have topic ids.
pub(super) fn topic_id(client: *mut RDKafka, topic: &str, timeout_ms: c_int) -> Result<u128, RDKafkaErrorCode> {
    let name = CString::new(topic).map_err(|_| RDKafkaErrorCode::InvalidTopic)?;
    // SAFETY: the client is alive, the name is terminated, and everything created here is destroyed here, after its last use.
    unsafe {
        let names = sys::rd_kafka_TopicCollection_of_topic_names([name.as_ptr()].as_mut_ptr(), 1);
        let kind = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
        let options = sys::rd_kafka_AdminOptions_new(client, kind);
        sys::rd_kafka_AdminOptions_set_request_timeout(options, timeout_ms, ptr::null_mut(), 0);
        let queue = sys::rd_kafka_queue_new(client);
        sys::rd_kafka_DescribeTopics(client, names, options, queue);
        let id = match NonNull::new(sys::rd_kafka_queue_poll(queue, timeout_ms)) {
            None => Err(RDKafkaErrorCode::OperationTimedOut),
            Some(event) => {
                let id = described_id(event.as_ptr());
                sys::rd_kafka_event_destroy(event.as_ptr());
                id
            }
        };
        sys::rd_kafka_queue_destroy(queue);
        sys::rd_kafka_AdminOptions_destroy(options);
        sys::rd_kafka_TopicCollection_destroy(names);
        id
    }
}

/// # Safety
/// The event must be alive, and be the result of describing one topic.
unsafe fn described_id(event: *mut sys::rd_kafka_event_t) -> Result<u128, RDKafkaErrorCode> {
    let checked = |error: RDKafkaRespErr| match error {
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
        error => Err(RDKafkaErrorCode::from(error)),
    };
    // SAFETY: results and their parts live as long as the event; there is one for each described topic.
    unsafe {
        checked(sys::rd_kafka_event_error(event))?;
        let mut count = 0;
        let result = sys::rd_kafka_event_DescribeTopics_result(event);
        let topics = sys::rd_kafka_DescribeTopics_result_topics(result, &mut count);
        if topics.is_null() || count == 0 {
            return Err(RDKafkaErrorCode::UnknownTopicOrPartition);
        }
        checked(sys::rd_kafka_error_code(sys::rd_kafka_TopicDescription_error(*topics)))?;
        let id = sys::rd_kafka_TopicDescription_topic_id(*topics);
        let (high, low) = (sys::rd_kafka_Uuid_most_significant_bits(id), sys::rd_kafka_Uuid_least_significant_bits(id));
        Ok(u128::from(high as u64) << 64 | u128::from(low as u64))
    }
}
