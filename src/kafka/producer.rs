//! Producers: one that commits outputs and offsets in one transaction, and one without transactions.
//!
//! A producer that met any doubt is dropped and replaced: fencing a new one of the same name ends whatever the old one
//! left open, and a late request of the old one is refused by its epoch. Only a transaction that holds nothing is ever
//! aborted by hand.

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
use super::group::{Group, Position, list_of};
use super::raw::{self, Output, Topics};
use super::settings::{Hears, Settings, TRANSACTION_TIMEOUT};

/// How long a full queue is left alone. The client's own poll would spin for as long.
const TURN: Duration = Duration::from_millis(1);
/// What is heard after each commit; each is a connection that was lost, or an output that was not written.
const MOST_TOLD: usize = 16;
/// Failed outputs stay unwritten until they are taken notice of: how long that takes at most.
const SLICE: Duration = Duration::from_millis(10);
/// Most delivered outputs that wait to be asked for.
const MOST_PLACES: usize = 100_000;

/// Where a tagged output was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    pub tag: usize,
    /// The offset, or why it was not written.
    pub offset: Result<u64, String>,
}

#[derive(Debug, Default)]
struct Deliveries {
    failure: Mutex<Option<String>>,
    placed: Mutex<Vec<Placed>>,
    was_disconnected: AtomicBool,
}

impl ClientContext for Deliveries {
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "producer");
        self.was_disconnected.store(true, Ordering::Release);
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, tag: usize) {
        if let Err((error, _)) = result {
            lock(&self.failure).get_or_insert_with(|| error.to_string());
        }
        if tag == 0 {
            return;
        }
        let offset = match result {
            Ok(message) => Ok(message.offset().max(0) as u64),
            Err((error, _)) => Err(error.to_string()),
        };
        let mut placed = lock(&self.placed);
        if placed.len() < MOST_PLACES {
            placed.push(Placed { tag, offset });
        }
    }
}

/// Whether an output was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    Queued,
    /// It is larger than its topic takes.
    TooLarge,
}

/// How sure a commit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    Surely,
    /// It succeeded, but a request of it may still be on its way: the producer must be replaced before the next.
    WithDoubt,
}

/// See the module.
pub struct Producer {
    // Before the producer: what it holds of topics must not outlive it.
    topics: Topics,
    inner: BaseProducer<Deliveries>,
    is_open: bool,
    /// A commit that took longer may have been sent twice: the second may arrive in the next transaction.
    suspicious: Duration,
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("is_open", &self.is_open).finish()
    }
}

impl Producer {
    /// One that commits in transactions, under a name that ends every earlier producer of that name.
    pub fn fence(settings: &Settings, id: &str, most_bytes: usize) -> Result<Self, Fault> {
        let config = settings.transactional(id, most_bytes);
        let inner: BaseProducer<Deliveries> = config
            .create_with_context(Deliveries::default())
            .map_err(|error| Fault::new("making a producer", Remedy::End, error))?;
        inner.init_transactions(TRANSACTION_TIMEOUT).map_err(|error| match &error {
            KafkaError::Transaction(inner) if super::fault::is_for_good(inner.code()) => {
                Fault::new("fencing", Remedy::End, error)
            }
            _ => Fault::new("fencing", Remedy::Retry, error),
        })?;
        Ok(Self::around(inner, settings))
    }

    /// One without transactions: what is sent may be seen before it is known to be whole.
    pub fn plain(settings: &Settings, most_bytes: usize) -> Result<Self, Fault> {
        Self::unfenced(settings, most_bytes, Hears::Failures)
    }

    /// As [`Producer::plain`], and tells where tagged outputs were written.
    pub fn placing(settings: &Settings, most_bytes: usize) -> Result<Self, Fault> {
        Self::unfenced(settings, most_bytes, Hears::All)
    }

    fn unfenced(settings: &Settings, most_bytes: usize, hears: Hears) -> Result<Self, Fault> {
        let made = settings.producer(most_bytes, hears).create_with_context(Deliveries::default());
        let inner = made.map_err(|error| Fault::new("making a producer", Remedy::End, error))?;
        Ok(Self::around(inner, settings))
    }

    fn around(inner: BaseProducer<Deliveries>, settings: &Settings) -> Self {
        Self { topics: Topics::default(), inner, is_open: false, suspicious: settings.request_timeout() / 2 }
    }

    /// Begins a transaction unless one is open.
    pub fn begin(&mut self) -> Result<(), Fault> {
        if !self.is_open {
            self.inner.begin_transaction().map_err(|error| Fault::transaction("beginning a transaction", &error))?;
            self.is_open = true;
        }
        Ok(())
    }

    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Queues an output, waiting while the queue is full.
    pub fn send(&mut self, output: &Output<'_>) -> Result<Sent, Fault> {
        let mut full_since = None;
        loop {
            match raw::produce(self.inner.client().native_ptr(), &mut self.topics, output) {
                Ok(()) => return Ok(Sent::Queued),
                Err(RDKafkaErrorCode::MessageSizeTooLarge) => return Ok(Sent::TooLarge),
                Err(RDKafkaErrorCode::QueueFull)
                    if full_since.get_or_insert_with(Instant::now).elapsed() < TRANSACTION_TIMEOUT =>
                {
                    std::thread::sleep(TURN);
                    self.inner.poll(Duration::ZERO);
                }
                Err(code) => return Err(Fault::new("producing", Remedy::StartOver, code)),
            }
            self.require_delivered()?;
        }
    }

    /// Serves deliveries without waiting.
    pub fn serve(&self) {
        if self.inner.in_flight_count() > 0 {
            self.inner.poll(Duration::ZERO);
        }
    }

    /// Where tagged outputs were written, since this was last asked: of a producer that is placing.
    pub fn placed(&self) -> Vec<Placed> {
        std::mem::take(&mut *lock(&self.inner.context().placed))
    }

    fn require_delivered(&self) -> Result<(), Fault> {
        let failure = lock(&self.inner.context().failure).take();
        failure.map_or(Ok(()), |why| Err(Fault::new("delivering", Remedy::StartOver, why)))
    }

    /// Returns once everything sent is written, or something is not.
    pub fn drain(&self) -> Result<(), Fault> {
        let begun = Instant::now();
        // The safe client's own flush spins, or sleeps for a tenth of a second.
        while !raw::flush(self.inner.client().native_ptr(), SLICE) {
            if begun.elapsed() > TRANSACTION_TIMEOUT {
                return Err(Fault::new("delivering", Remedy::StartOver, "outputs were not written in time"));
            }
            self.inner.poll(Duration::ZERO);
        }
        self.require_delivered()
    }

    /// Puts positions into the open transaction.
    pub fn add_offsets(&self, group: &Group, positions: &[Position]) -> Result<(), Fault> {
        const CALL: &str = "sending offsets to the transaction";
        let over = |message: String| Fault::new(CALL, Remedy::StartOver, message);
        let list = list_of(positions).map_err(|error| over(error.to_string()))?;
        let metadata = group.inner.group_metadata().ok_or_else(|| over("not a member of the group".into()))?;
        // What was asked for before this is no later membership than the one that is settled.
        group.require_settled()?;
        repeat(|| self.inner.send_offsets_to_transaction(&list, &metadata, TRANSACTION_TIMEOUT), CALL)
    }

    /// Gives the open transaction up, and with it what an earlier producer of this name left open in the same logs.
    pub fn abort(&mut self) -> Result<(), Fault> {
        repeat(|| self.inner.abort_transaction(TRANSACTION_TIMEOUT), "giving a transaction up")?;
        self.is_open = false;
        Ok(())
    }

    /// Commits the open transaction.
    pub fn commit(&mut self) -> Result<Committed, Fault> {
        let begun = Instant::now();
        repeat(|| self.inner.commit_transaction(TRANSACTION_TIMEOUT), "committing the transaction")?;
        self.is_open = false;
        let took = begun.elapsed();
        // What happened to connections is only told to those who poll, one thing at a time.
        (0..MOST_TOLD).for_each(|_| self.inner.poll(Duration::ZERO));
        let was_disconnected = self.inner.context().was_disconnected.swap(false, Ordering::AcqRel);
        let is_doubtful = was_disconnected || took > self.suspicious;
        Ok(if is_doubtful { Committed::WithDoubt } else { Committed::Surely })
    }
}

/// The same call again while librdkafka says that it may be repeated.
fn repeat(call: impl Fn() -> Result<(), KafkaError>, name: &'static str) -> Result<(), Fault> {
    let begun = Instant::now();
    loop {
        match call().map_err(|error| Fault::transaction(name, &error)) {
            Ok(()) => return Ok(()),
            Err(fault) if fault.remedy == Remedy::Retry && begun.elapsed() < TRANSACTION_TIMEOUT => {
                tracing::debug!(%fault, "again");
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(fault) => return Err(Fault { remedy: Remedy::StartOver, ..fault }),
        }
    }
}
