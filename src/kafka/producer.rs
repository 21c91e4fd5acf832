//! Producers: transactional ones, which commit outputs and offsets together, and idempotent ones without transactions.
//!
//! A transactional producer whose last commit has an uncertain outcome is dropped and replaced: a new producer with the
//! same transactional id aborts what the old one left open, and the broker rejects late requests of the old epoch. For
//! that reason only empty transactions are ever aborted explicitly.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::{BaseProducer, Producer as _, ProducerContext};

use super::context::lock;
use super::fault::{Fault, Remedy};
use super::group::{Group, OffsetCommit, list_of};
use super::raw::{self, Output, Topics};
use super::settings::{ReportMode, Settings, TRANSACTION_TIMEOUT};

/// Pause while the send queue is full. librdkafka's own poll would spin for as long.
const FULL_QUEUE_PAUSE: Duration = Duration::from_millis(1);
/// Callbacks served after each commit; each is a lost connection or a failed delivery.
const MAX_CALLBACKS_PER_COMMIT: usize = 16;
/// Interval at which a flush serves delivery failures: librdkafka counts a failed message as unsent until then.
const FLUSH_INTERVAL: Duration = Duration::from_millis(10);
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Delivery reports kept until the caller collects them; further ones are dropped.
const MAX_DELIVERY_REPORTS: usize = 100_000;
const DELIVER: &str = "delivering";
const CREATE_PRODUCER: &str = "creating a producer";

/// Where a tagged output was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryReport {
    pub tag: usize,
    /// The offset, or the delivery error.
    pub offset: Result<u64, String>,
}

#[derive(Debug, Default)]
struct ProducerState {
    delivery_error: Mutex<Option<String>>,
    reports: Mutex<Vec<DeliveryReport>>,
    was_disconnected: AtomicBool,
}

impl ClientContext for ProducerState {
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "producer error");
        self.was_disconnected.store(true, Ordering::Release);
    }
}

impl ProducerContext for ProducerState {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, tag: usize) {
        if let Err((error, _)) = result {
            lock(&self.delivery_error).get_or_insert_with(|| error.to_string());
        }
        if tag == 0 {
            return;
        }
        let offset = match result {
            Ok(message) => Ok(message.offset().max(0) as u64),
            Err((error, _)) => Err(error.to_string()),
        };
        let mut reports = lock(&self.reports);
        if reports.len() < MAX_DELIVERY_REPORTS {
            reports.push(DeliveryReport { tag, offset });
        }
    }
}

/// Whether an output was accepted for sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOutcome {
    Queued,
    /// The output exceeds the topic's record size limit.
    TooLarge,
}

/// The outcome of a successful commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitOutcome {
    Clean,
    /// Committed, but a repeated commit request may still be in flight and could end the next transaction: replace the
    /// producer first.
    ReplaceProducer,
}

/// A Kafka producer with or without transactions.
pub struct Producer {
    // Declared before `inner`: topic handles must be destroyed before their client.
    topics: Topics,
    inner: BaseProducer<ProducerState>,
    has_open_transaction: bool,
    /// A commit that takes longer may have been sent twice.
    commit_retry_threshold: Duration,
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("has_open_transaction", &self.has_open_transaction).finish()
    }
}

impl Producer {
    /// Creates a transactional producer and fences all earlier ones with the same transactional id.
    pub fn transactional(settings: &Settings, id: &str, max_record_bytes: usize) -> Result<Self, Fault> {
        let config = settings.transactional_producer(id, max_record_bytes);
        let inner: BaseProducer<ProducerState> = config
            .create_with_context(ProducerState::default())
            .map_err(|error| Fault::new(CREATE_PRODUCER, Remedy::End, error))?;
        inner.init_transactions(TRANSACTION_TIMEOUT).map_err(|error| match &error {
            KafkaError::Transaction(inner) if super::fault::is_permanent(inner.code()) => {
                Fault::new("fencing", Remedy::End, error)
            }
            _ => Fault::new("fencing", Remedy::Retry, error),
        })?;
        Ok(Self::new(inner, settings))
    }

    /// Creates a producer without transactions: readers see each record as soon as it is written.
    pub fn idempotent(settings: &Settings, max_record_bytes: usize) -> Result<Self, Fault> {
        Self::without_transactions(settings, max_record_bytes, ReportMode::Failures)
    }

    /// Like [`Producer::idempotent`], and collects the [`DeliveryReport`]s of tagged outputs.
    pub fn with_delivery_reports(settings: &Settings, max_record_bytes: usize) -> Result<Self, Fault> {
        Self::without_transactions(settings, max_record_bytes, ReportMode::All)
    }

    fn without_transactions(settings: &Settings, max_record_bytes: usize, reports: ReportMode) -> Result<Self, Fault> {
        let created = settings.producer(max_record_bytes, reports).create_with_context(ProducerState::default());
        let inner = created.map_err(|error| Fault::new(CREATE_PRODUCER, Remedy::End, error))?;
        Ok(Self::new(inner, settings))
    }

    fn new(inner: BaseProducer<ProducerState>, settings: &Settings) -> Self {
        let commit_retry_threshold = settings.request_timeout() / 2;
        Self { topics: Topics::default(), inner, has_open_transaction: false, commit_retry_threshold }
    }

    /// Begins a transaction unless one is open.
    pub fn begin_transaction(&mut self) -> Result<(), Fault> {
        if !self.has_open_transaction {
            self.inner.begin_transaction().map_err(|error| Fault::transaction("beginning a transaction", &error))?;
            self.has_open_transaction = true;
        }
        Ok(())
    }

    pub fn has_open_transaction(&self) -> bool {
        self.has_open_transaction
    }

    /// Queues an output; blocks while the queue is full.
    pub fn send(&mut self, output: &Output<'_>) -> Result<SendOutcome, Fault> {
        let mut full_since = None;
        loop {
            match raw::produce(self.inner.client().native_ptr(), &mut self.topics, output) {
                Ok(()) => return Ok(SendOutcome::Queued),
                Err(RDKafkaErrorCode::MessageSizeTooLarge) => return Ok(SendOutcome::TooLarge),
                Err(RDKafkaErrorCode::QueueFull)
                    if full_since.get_or_insert_with(Instant::now).elapsed() < TRANSACTION_TIMEOUT =>
                {
                    std::thread::sleep(FULL_QUEUE_PAUSE);
                    self.inner.poll(Duration::ZERO);
                }
                Err(code) => return Err(Fault::new("producing", Remedy::StartOver, code)),
            }
            self.check_deliveries()?;
        }
    }

    /// Serves delivery callbacks without blocking.
    pub fn poll(&self) {
        if self.inner.in_flight_count() > 0 {
            self.inner.poll(Duration::ZERO);
        }
    }

    /// Takes the delivery reports collected since the last call. Always empty unless the producer was created by
    /// [`Producer::with_delivery_reports`].
    pub fn delivery_reports(&self) -> Vec<DeliveryReport> {
        std::mem::take(&mut *lock(&self.inner.context().reports))
    }

    fn check_deliveries(&self) -> Result<(), Fault> {
        let error = lock(&self.inner.context().delivery_error).take();
        error.map_or(Ok(()), |error| Err(Fault::new(DELIVER, Remedy::StartOver, error)))
    }

    /// Blocks until every queued output is written; fails on the first that is not.
    pub fn flush(&self) -> Result<(), Fault> {
        let begun = Instant::now();
        // rdkafka's own flush spins, or sleeps for 100 ms.
        while !raw::flush(self.inner.client().native_ptr(), FLUSH_INTERVAL) {
            if begun.elapsed() > TRANSACTION_TIMEOUT {
                return Err(Fault::new(DELIVER, Remedy::StartOver, "outputs were not written in time"));
            }
            self.inner.poll(Duration::ZERO);
        }
        self.check_deliveries()
    }

    /// Adds the offsets to the open transaction.
    pub fn send_offsets(&self, group: &Group, positions: &[OffsetCommit]) -> Result<(), Fault> {
        const CALL: &str = "sending offsets to the transaction";
        let fault = |message: String| Fault::new(CALL, Remedy::StartOver, message);
        let list = list_of(positions).map_err(|error| fault(error.to_string()))?;
        let metadata = group.inner.group_metadata().ok_or_else(|| fault("not a member of the group".into()))?;
        // Checked after the metadata was read, so that the metadata cannot belong to a newer generation.
        group.require_settled()?;
        retry(CALL, || self.inner.send_offsets_to_transaction(&list, &metadata, TRANSACTION_TIMEOUT))
    }

    /// Aborts the open transaction, and with it what an earlier producer with the same id left open in its partitions.
    pub fn abort_transaction(&mut self) -> Result<(), Fault> {
        retry("aborting a transaction", || self.inner.abort_transaction(TRANSACTION_TIMEOUT))?;
        self.has_open_transaction = false;
        Ok(())
    }

    pub fn commit_transaction(&mut self) -> Result<CommitOutcome, Fault> {
        let begun = Instant::now();
        retry("committing the transaction", || self.inner.commit_transaction(TRANSACTION_TIMEOUT))?;
        self.has_open_transaction = false;
        let elapsed = begun.elapsed();
        // Each poll serves one callback, and lost connections are only reported by callbacks.
        (0..MAX_CALLBACKS_PER_COMMIT).for_each(|_| self.inner.poll(Duration::ZERO));
        let was_disconnected = self.inner.context().was_disconnected.swap(false, Ordering::AcqRel);
        let may_have_been_repeated = was_disconnected || elapsed > self.commit_retry_threshold;
        Ok(if may_have_been_repeated { CommitOutcome::ReplaceProducer } else { CommitOutcome::Clean })
    }
}

/// Repeats a transactional call while librdkafka marks its error as retriable.
fn retry(call: &'static str, attempt: impl Fn() -> Result<(), KafkaError>) -> Result<(), Fault> {
    let begun = Instant::now();
    loop {
        match attempt().map_err(|error| Fault::transaction(call, &error)) {
            Ok(()) => return Ok(()),
            Err(fault) if fault.remedy == Remedy::Retry && begun.elapsed() < TRANSACTION_TIMEOUT => {
                tracing::debug!(%fault, "transactional call failed, retrying");
                std::thread::sleep(RETRY_PAUSE);
            }
            Err(fault) => return Err(Fault { remedy: Remedy::StartOver, ..fault }),
        }
    }
}
