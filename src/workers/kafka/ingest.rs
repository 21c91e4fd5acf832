//! Events that come by HTTP in front of a topic: written to the topic like any others, and answered with the decision
//! that was made at the offset where they landed.
//!
//! The record may be folded before its writer hears where it is. While writes are on their way, the outcomes of the
//! shard are kept, so that the answer is there when the offset becomes known.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;

use tokio::sync::oneshot;

use super::super::message::{RecordError, Recorded, Submission};
use crate::kafka::{DeliveryReport, Fault, Output, Producer, Remedy, SendOutcome, Settings, TopicPartition};

/// Outcomes kept while a write is on its way; an older one means that the answer is not known.
const MOST_KEPT: usize = 200_000;
/// The largest event that is sent: brokers may still refuse it.
const MOST_BYTES: usize = 2 << 20;

type Reply = oneshot::Sender<Result<Vec<Recorded>, RecordError>>;

struct Request {
    shard: usize,
    recorded: Vec<Option<Recorded>>,
    reply: Option<Reply>,
}

/// One event of one request.
#[derive(Debug, Clone, Copy)]
struct Seat {
    request: u64,
    place: usize,
}

/// See the module.
#[derive(Default)]
pub(super) struct Ingest {
    producer: Option<Producer>,
    requests: BTreeMap<u64, Request>,
    /// Events whose offset is not known yet, by tag.
    sent: BTreeMap<usize, (usize, Seat)>,
    /// Events whose outcome is not known yet, by shard and offset.
    landed: BTreeMap<(usize, u64), Seat>,
    /// Outcomes since the oldest write that is on its way, by shard.
    kept: BTreeMap<usize, VecDeque<Recorded>>,
    next: u64,
}

impl Ingest {
    /// Whether anybody waits.
    pub(super) fn is_busy(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Sends events to the topic.
    pub(super) fn send(
        &mut self,
        settings: &Settings,
        part: &TopicPartition,
        shard: usize,
        events: &[Submission],
        reply: Reply,
    ) {
        let count = events.len();
        match self.try_send(settings, part, shard, events) {
            Ok(request) => {
                self.requests.insert(request, Request { shard, recorded: vec![None; count], reply: Some(reply) });
            }
            Err(fault) => {
                tracing::warn!(%part, %fault, "events not written");
                // Who asked may be gone.
                let _ = reply.send(Err(RecordError::Journal(fault.to_string())));
            }
        }
    }

    fn try_send(
        &mut self,
        settings: &Settings,
        part: &TopicPartition,
        shard: usize,
        events: &[Submission],
    ) -> Result<u64, Fault> {
        self.next += 1;
        let request = self.next;
        let end = |message: String| Fault::new("producing", Remedy::End, message);
        let topic = CString::new(&*part.topic).map_err(|error| end(error.to_string()))?;
        let producer = match self.producer.take() {
            Some(producer) => producer,
            None => Producer::with_delivery_reports(settings, MOST_BYTES)?,
        };
        let producer = self.producer.insert(producer);
        for (place, event) in events.iter().enumerate() {
            let tag = 1 + (request as usize).wrapping_mul(events.len().max(1_048_576)) + place;
            let output = Output {
                topic: &topic,
                partition: part.partition as i32,
                key: None,
                payload: Some(&event.payload),
                timestamp_ms: 0,
                source: None,
                headers: &[],
                tag,
            };
            self.sent.insert(tag, (shard, Seat { request, place }));
            match producer.send(&output)? {
                SendOutcome::Queued => {}
                SendOutcome::TooLarge => return Err(end("the event is larger than a topic takes".into())),
            }
        }
        self.kept.entry(shard).or_default();
        Ok(request)
    }

    /// Takes notice of a folded record.
    pub(super) fn see(&mut self, shard: usize, recorded: Recorded) {
        if let Some(seat) = self.landed.remove(&(shard, recorded.offset)) {
            self.complete(seat, recorded);
        } else if let Some(kept) = self.kept.get_mut(&shard) {
            kept.push_back(recorded);
            if kept.len() > MOST_KEPT {
                kept.pop_front();
            }
        }
    }

    /// Takes notice of what was written meanwhile, and forgets who no longer waits.
    pub(super) fn serve(&mut self) {
        let Some(producer) = &self.producer else { return };
        producer.poll();
        for DeliveryReport { tag, offset } in producer.delivery_reports() {
            let Some((shard, seat)) = self.sent.remove(&tag) else { continue };
            match offset {
                Err(why) => self.fail(seat.request, RecordError::Journal(why)),
                Ok(offset) => {
                    let known = self.kept.get(&shard).and_then(|kept| kept.iter().find(|one| one.offset == offset));
                    match known.copied() {
                        Some(recorded) => self.complete(seat, recorded),
                        None => drop(self.landed.insert((shard, offset), seat)),
                    }
                }
            }
        }
        self.requests.retain(|_, request| request.reply.as_ref().is_some_and(|reply| !reply.is_closed()));
        let requests = &self.requests;
        self.sent.retain(|_, (_, seat)| requests.contains_key(&seat.request));
        self.landed.retain(|_, seat| requests.contains_key(&seat.request));
        let sent = &self.sent;
        self.kept.retain(|shard, _| sent.values().any(|(other, _)| other == shard));
    }

    fn complete(&mut self, seat: Seat, recorded: Recorded) {
        let Some(request) = self.requests.get_mut(&seat.request) else { return };
        request.recorded[seat.place] = Some(recorded);
        let all: Option<Vec<Recorded>> = request.recorded.iter().copied().collect();
        if let (Some(all), Some(reply)) = (all, request.reply.take()) {
            let _ = reply.send(Ok(all));
        }
    }

    fn fail(&mut self, request: u64, error: RecordError) {
        if let Some(reply) = self.requests.get_mut(&request).and_then(|request| request.reply.take()) {
            let _ = reply.send(Err(error));
        }
    }

    /// The shard is another's: its decisions will not be made here.
    pub(super) fn leave(&mut self, shard: usize) {
        self.requests.retain(|_, request| request.shard != shard);
    }
}
