//! Collects the connection errors of a client: a rejected password, an invalid certificate, a closed port.
//!
//! A call that cannot reach a broker only reports a timeout; librdkafka passes the cause to its error callback instead.

use std::sync::{Mutex, PoisonError};

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;

/// Keeps the latest connection error until a call succeeds.
#[derive(Debug, Default)]
pub(super) struct ConnectionErrors {
    latest: Mutex<Option<String>>,
}

impl ConnectionErrors {
    pub(super) fn latest(&self) -> Option<String> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn clear(&self) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl ClientContext for ConnectionErrors {
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "metadata client error");
        // This one only summarizes the errors reported before it.
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown) {
            return;
        }
        // The suffix counts attempts and milliseconds: with it, the same cause would look new every time.
        let cause = reason.rsplit_once(" (after ").map_or(reason, |(cause, _)| cause);
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(cause.to_owned());
    }
}

impl ProducerContext for ConnectionErrors {
    type DeliveryOpaque = ();

    /// A metadata client produces nothing.
    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_cause_is_kept_until_cleared_and_not_replaced_by_a_summary() {
        let errors = ConnectionErrors::default();
        let reason = "a wrong password (after 3ms in state AUTH_REQ, 2 identical error(s) suppressed)";
        errors.error(KafkaError::Global(RDKafkaErrorCode::Authentication), reason);
        errors.error(KafkaError::Global(RDKafkaErrorCode::AllBrokersDown), "1/1 brokers are down");
        assert_eq!(errors.latest().as_deref(), Some("a wrong password"));
        errors.clear();
        assert_eq!(errors.latest(), None);
    }
}
