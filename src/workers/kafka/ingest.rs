//! Events that arrive by HTTP while the log is a topic: they are written to the topic and answered with the decision that
//! is made at their offset.
//!
//! A record may be read back and folded before its delivery report arrives. While writes are in flight the outcomes of the
//! partition are kept, so that the decision is known once the offset is.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;

use tokio::sync::oneshot;

use crate::kafka::{DeliveryReport, Fault, Output, Producer, Remedy, SendOutcome, Settings, TopicPartition};
use crate::workers::messages::{RecordError, RecordReceipt, Submission};

/// Outcomes kept per partition while writes are in flight.
const MAX_KEPT: usize = 200_000;
/// The largest event that is sent; brokers may still reject it.
const MAX_BYTES: usize = 2 << 20;

type Reply = oneshot::Sender<Result<Vec<RecordReceipt>, RecordError>>;

struct PendingRequest {
    slot: usize,
    receipts: Vec<Option<RecordReceipt>>,
    reply: Option<Reply>,
}

/// One event of one request.
#[derive(Debug, Clone, Copy)]
struct PendingEvent {
    request: u64,
    index: usize,
}

/// Writes events to topics and matches them with their decisions.
#[derive(Default)]
pub(super) struct Ingest {
    producer: Option<Producer>,
    requests: BTreeMap<u64, PendingRequest>,
    /// Events whose offset is not known yet, by tag.
    sent: BTreeMap<usize, (usize, PendingEvent)>,
    /// Events whose outcome is not known yet, by slot and offset.
    written: BTreeMap<(usize, u64), PendingEvent>,
    /// Outcomes since the oldest write in flight, by slot.
    outcomes: BTreeMap<usize, VecDeque<RecordReceipt>>,
    next: u64,
}

impl Ingest {
    /// Whether a client waits for a decision.
    pub(super) fn is_busy(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Sends events to the topic.
    pub(super) fn send(
        &mut self,
        settings: &Settings,
        part: &TopicPartition,
        slot: usize,
        events: &[Submission],
        reply: Reply,
    ) {
        let count = events.len();
        match self.try_send(settings, part, slot, events) {
            Ok(request) => {
                self.requests.insert(request, PendingRequest { slot, receipts: vec![None; count], reply: Some(reply) });
            }
            Err(fault) => {
                tracing::warn!(%part, %fault, "events not written");
                // Who asked may be gone.
                let _ = reply.send(Err(RecordError::Log(fault.to_string())));
            }
        }
    }

    fn try_send(
        &mut self,
        settings: &Settings,
        part: &TopicPartition,
        slot: usize,
        events: &[Submission],
    ) -> Result<u64, Fault> {
        self.next += 1;
        let request = self.next;
        let end = |message: String| Fault::new("producing", Remedy::End, message);
        let topic = CString::new(&*part.topic).map_err(|error| end(error.to_string()))?;
        let producer = match self.producer.take() {
            Some(producer) => producer,
            None => Producer::with_delivery_reports(settings, MAX_BYTES)?,
        };
        let producer = self.producer.insert(producer);
        for (index, event) in events.iter().enumerate() {
            let tag = 1 + (request as usize).wrapping_mul(events.len().max(1_048_576)) + index;
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
            self.sent.insert(tag, (slot, PendingEvent { request, index }));
            match producer.send(&output)? {
                SendOutcome::Queued => {}
                SendOutcome::TooLarge => return Err(end("the event is larger than a topic takes".into())),
            }
        }
        self.outcomes.entry(slot).or_default();
        Ok(request)
    }

    /// Notes the outcome of a folded record.
    pub(super) fn note_outcome(&mut self, slot: usize, recorded: RecordReceipt) {
        if let Some(event) = self.written.remove(&(slot, recorded.offset)) {
            self.complete(event, recorded);
        } else if let Some(kept) = self.outcomes.get_mut(&slot) {
            kept.push_back(recorded);
            if kept.len() > MAX_KEPT {
                kept.pop_front();
            }
        }
    }

    /// Handles delivery reports, and forgets clients that have given up.
    pub(super) fn poll(&mut self) {
        let Some(producer) = &self.producer else { return };
        producer.poll();
        for DeliveryReport { tag, offset } in producer.delivery_reports() {
            let Some((slot, event)) = self.sent.remove(&tag) else { continue };
            match offset {
                Err(why) => self.fail(event.request, RecordError::Log(why)),
                Ok(offset) => {
                    let known = self.outcomes.get(&slot).and_then(|kept| kept.iter().find(|one| one.offset == offset));
                    match known.copied() {
                        Some(recorded) => self.complete(event, recorded),
                        None => drop(self.written.insert((slot, offset), event)),
                    }
                }
            }
        }
        self.requests.retain(|_, request| request.reply.as_ref().is_some_and(|reply| !reply.is_closed()));
        let requests = &self.requests;
        self.sent.retain(|_, (_, event)| requests.contains_key(&event.request));
        self.written.retain(|_, event| requests.contains_key(&event.request));
        let sent = &self.sent;
        self.outcomes.retain(|slot, _| sent.values().any(|(other, _)| other == slot));
    }

    fn complete(&mut self, event: PendingEvent, recorded: RecordReceipt) {
        let Some(request) = self.requests.get_mut(&event.request) else { return };
        request.receipts[event.index] = Some(recorded);
        let all: Option<Vec<RecordReceipt>> = request.receipts.iter().copied().collect();
        if let (Some(all), Some(reply)) = (all, request.reply.take()) {
            let _ = reply.send(Ok(all));
        }
    }

    fn fail(&mut self, request: u64, error: RecordError) {
        if let Some(reply) = self.requests.get_mut(&request).and_then(|request| request.reply.take()) {
            let _ = reply.send(Err(error));
        }
    }

    /// The slot is another's: its decisions will not be made here.
    pub(super) fn abandon(&mut self, slot: usize) {
        self.requests.retain(|_, request| request.slot != slot);
    }
}
