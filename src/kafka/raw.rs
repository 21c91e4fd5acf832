//! The two things the safe client has no call for: taking records of one partition in batches, and passing a record on
//! with its headers byte for byte. This file is unsafe because both mean handling librdkafka's own pointers.
//!
//! Batches are taken by the poll thread alone, which also answers rebalances: taking and assigning never overlap, and
//! nothing ever seeks (librdkafka's batch calls lost messages when they did).
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use rdkafka::bindings as sys;
use rdkafka::types::{RDKafka, RDKafkaErrorCode, RDKafkaRespErr};

/// One consumed record, in librdkafka's memory.
#[derive(Debug)]
pub struct Message(NonNull<sys::rd_kafka_message_t>);

// SAFETY: a message is not tied to the thread that took it, and is never changed after it was taken.
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

    /// What stands in place of a record, if so.
    pub(super) fn error(&self) -> Option<RDKafkaErrorCode> {
        let error = self.get().err;
        (error != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).then(|| error.into())
    }

    pub fn offset(&self) -> u64 {
        self.get().offset.max(0) as u64
    }

    /// As the log holds it; -1 where it holds none.
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

    /// What the record takes in a log, about.
    pub fn size(&self) -> usize {
        let mut size = self.key().map_or(0, <[u8]>::len) + self.payload().map_or(0, <[u8]>::len);
        self.each_header(|name, value| size += name.len() + value.map_or(0, <[u8]>::len) + 10);
        size
    }

    fn headers(&self) -> *mut sys::rd_kafka_headers_t {
        let mut headers = ptr::null_mut();
        // SAFETY: the message is valid and keeps owning its headers.
        let error = unsafe { sys::rd_kafka_message_headers(self.0.as_ptr(), &mut headers) };
        if error == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR { headers } else { ptr::null_mut() }
    }

    /// Every header, in order.
    pub fn each_header(&self, mut see: impl FnMut(&[u8], Option<&[u8]>)) {
        let headers = self.headers();
        if headers.is_null() {
            return;
        }
        // SAFETY: the headers live as long as the message; indices are asked for up to their number.
        unsafe {
            for index in 0..sys::rd_kafka_header_cnt(headers) {
                let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
                sys::rd_kafka_header_get_all(headers, index, &mut name, &mut value, &mut size);
                see(CStr::from_ptr(name).to_bytes(), bytes(value, size));
            }
        }
    }
}

fn bytes<'a>(start: *const c_void, length: usize) -> Option<&'a [u8]> {
    if start.is_null() {
        return None;
    }
    // SAFETY: librdkafka gives a pointer to `length` readable bytes; callers bind the lifetime to the message.
    Some(unsafe { std::slice::from_raw_parts(start.cast(), length) })
}

/// The queue of one assigned partition. Its records come here and nowhere else.
#[derive(Debug)]
pub(super) struct PartitionQueue {
    queue: NonNull<sys::rd_kafka_queue_t>,
    buffer: Vec<*mut sys::rd_kafka_message_t>,
    /// Stays with the thread that polls.
    _here: PhantomData<*mut ()>,
}

// SAFETY: moved between threads only with the consumer that owns it, before polling begins.
unsafe impl Send for PartitionQueue {}

impl Drop for PartitionQueue {
    fn drop(&mut self) {
        // SAFETY: the reference was ours.
        unsafe { sys::rd_kafka_queue_destroy(self.queue.as_ptr()) }
    }
}

impl PartitionQueue {
    /// Takes the partition's records out of the consumer's common queue. Called before the partition is assigned.
    pub(super) fn of(client: *mut RDKafka, topic: &str, partition: i32, most: usize) -> Option<Self> {
        let topic = CString::new(topic).ok()?;
        // SAFETY: the client is alive (the caller holds it), the name is terminated; forwarding to nothing unlinks it.
        let queue = unsafe {
            let queue = NonNull::new(sys::rd_kafka_queue_get_partition(client, topic.as_ptr(), partition))?;
            sys::rd_kafka_queue_forward(queue.as_ptr(), ptr::null_mut());
            queue
        };
        Some(Self { queue, buffer: vec![ptr::null_mut(); most], _here: PhantomData })
    }

    /// What has been fetched, up to a batch; does not wait.
    pub(super) fn take(&mut self) -> Vec<Message> {
        // SAFETY: the buffer holds as many pointers as are said; the first `count` are ours afterwards.
        let count = unsafe {
            sys::rd_kafka_consume_batch_queue(self.queue.as_ptr(), 0, self.buffer.as_mut_ptr(), self.buffer.len())
        };
        let taken = &self.buffer[..usize::try_from(count).unwrap_or(0)];
        taken.iter().filter_map(|message| NonNull::new(*message).map(Message)).collect()
    }
}

/// A record to be produced.
#[derive(Debug, Clone, Copy)]
pub struct Output<'a> {
    pub topic: &'a CStr,
    pub partition: i32,
    pub key: Option<&'a [u8]>,
    pub payload: Option<&'a [u8]>,
    /// 0 and below: the time of sending.
    pub timestamp_ms: i64,
    /// Whose headers come first.
    pub source: Option<&'a Message>,
    pub headers: &'a [(&'static str, &'a [u8])],
    /// Comes back with the delivery.
    pub tag: usize,
}

/// Hands a record to the producer's queue; everything is copied.
pub(super) fn produce(client: *mut RDKafka, output: &Output<'_>) -> Result<(), RDKafkaErrorCode> {
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
            sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_TOPIC,
            output.topic.as_ptr(),
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

/// How far the log reaches, as the last fetch said.
pub(super) fn known_end(client: *mut RDKafka, topic: &str, partition: i32) -> Option<u64> {
    let topic = CString::new(topic).ok()?;
    let (mut low, mut high) = (0, -1);
    // SAFETY: the client is alive, the name is terminated, and both places may be written.
    let error = unsafe { sys::rd_kafka_get_watermark_offsets(client, topic.as_ptr(), partition, &mut low, &mut high) };
    (error == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).then(|| u64::try_from(high).ok()).flatten()
}
