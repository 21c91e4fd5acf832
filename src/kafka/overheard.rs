//! What librdkafka says about its connections while nobody answers: a refused password, a certificate that does not hold,
//! a closed port. Calls only say that the time is up; the reason comes by another way, and is kept here.

use std::sync::{Mutex, PoisonError};

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;

/// The newest reason, until a call succeeds.
#[derive(Debug, Default)]
pub(super) struct Overheard {
    reason: Mutex<Option<String>>,
}

impl Overheard {
    pub(super) fn reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn forget(&self) {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl ClientContext for Overheard {
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "asking");
        // It only counts the reasons that came before it.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            // What follows is how long it took and how often it happened: the same reason would look new every time.
            let reason = reason.rsplit_once(" (after ").map_or(reason, |(reason, _)| reason);
            *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.to_owned());
        }
    }
}

impl ProducerContext for Overheard {
    type DeliveryOpaque = ();

    /// Nothing is produced by whoever only asks.
    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_reason_is_kept_until_it_is_forgotten_and_a_count_of_brokers_is_none() {
        let overheard = Overheard::default();
        let told = "a wrong password (after 3ms in state AUTH_REQ, 2 identical error(s) suppressed)";
        overheard.error(KafkaError::Global(RDKafkaErrorCode::Authentication), told);
        overheard.error(KafkaError::Global(RDKafkaErrorCode::AllBrokersDown), "1/1 brokers are down");
        assert_eq!(overheard.reason().as_deref(), Some("a wrong password"));
        overheard.forget();
        assert_eq!(overheard.reason(), None);
    }
}
