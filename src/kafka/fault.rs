//! What went wrong with the brokers, by what is to be done about it.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use thiserror::Error;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// The same call again: nothing is lost.
    Retry,
    /// Give the transaction up, go back to what is committed, and begin again with a new producer.
    StartOver,
    /// This client can do nothing any more.
    End,
}

/// A call that did not succeed.
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

    /// An error of a transactional call: unclassified ones leave the producer in doubt, so that it is given up.
    pub(super) fn transaction(call: &'static str, error: &KafkaError) -> Self {
        let remedy = match error {
            KafkaError::Transaction(error) if error.is_retriable() => Remedy::Retry,
            _ => Remedy::StartOver,
        };
        Self::new(call, remedy, error)
    }

    /// An error of a call that only reads, or that may be repeated without harm.
    pub(super) fn repeatable(call: &'static str, error: &KafkaError) -> Self {
        let remedy = match error.rdkafka_error_code() {
            Some(code) if is_for_good(code) => Remedy::End,
            _ => Remedy::Retry,
        };
        Self::new(call, remedy, error)
    }
}

/// Errors that no waiting mends.
pub(super) fn is_for_good(code: RDKafkaErrorCode) -> bool {
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
