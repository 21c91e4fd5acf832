//! Errors of Kafka calls, classified by what the caller must do next.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use thiserror::Error;

/// What the caller must do after a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Repeat the call: it had no effect.
    Retry,
    /// Abandon the transaction and its producer, and resume from the committed offsets with a new producer.
    StartOver,
    /// Stop: no call of this client can succeed any more.
    End,
}

/// A failed call.
#[derive(Debug, Clone, Error)]
#[error("{call}: {message}")]
pub struct Fault {
    pub remedy: Remedy,
    pub call: &'static str,
    pub message: String,
}

impl Fault {
    pub fn new(call: &'static str, remedy: Remedy, message: impl ToString) -> Self {
        Self { remedy, call, message: message.to_string() }
    }

    /// An error of a transactional call. Unless librdkafka marks it as retriable, the outcome is unknown and the producer
    /// must be replaced.
    pub(super) fn transaction(call: &'static str, error: &KafkaError) -> Self {
        let remedy = match error {
            KafkaError::Transaction(error) if error.is_retriable() => Remedy::Retry,
            _ => Remedy::StartOver,
        };
        Self::new(call, remedy, error)
    }

    /// An error of an idempotent call: it may be repeated unless the error is permanent.
    pub(super) fn idempotent(call: &'static str, error: &KafkaError) -> Self {
        let remedy = match error.rdkafka_error_code() {
            Some(code) if is_permanent(code) => Remedy::End,
            _ => Remedy::Retry,
        };
        Self::new(call, remedy, error)
    }
}

/// Whether retrying cannot help.
pub(super) fn is_permanent(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::Fatal
            | Code::FencedInstanceId
            | Code::UnreleasedInstanceId
            | Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::TransactionalIdAuthorizationFailed
            | Code::SaslAuthenticationFailed
            | Code::UnsupportedVersion
            | Code::InvalidConfig
            | Code::InvalidGroupId
            | Code::InconsistentGroupProtocol
    )
}
