//! Mistakes as RFC 9457 problems. Each kind has one `type`, for ever: programs may act on it.

use std::borrow::Cow;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// What can go wrong with a request. Closed: the names are part of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    UnknownPath,
    UnknownStream,
    UnknownAggregate,
    UnknownKey,
    InvalidQuery,
    Unanswerable,
    InvalidPath,
    MethodNotAllowed,
    UnsupportedMediaType,
    UnsupportedEncoding,
    BodyTooLarge,
    BodyTimeout,
    BrokenBody,
    InvalidUtf8,
    InvalidJson,
    InvalidQuestion,
    ConflictingFields,
    BatchTooLarge,
    InvalidWindow,
    WindowTooLong,
    OtherWindow,
    NotReady,
    RestoreFailed,
    JournalUnavailable,
    Stopping,
    AnswerTimeout,
    Elsewhere,
}

/// How long a client should leave a service alone that cannot answer yet.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

impl Kind {
    /// The last segment of the `type`, the status and the title.
    fn parts(self) -> (&'static str, StatusCode, &'static str) {
        match self {
            Kind::UnknownPath => ("unknown-path", StatusCode::NOT_FOUND, "There is nothing at this path"),
            Kind::UnknownStream => ("unknown-stream", StatusCode::NOT_FOUND, "There is no such stream"),
            Kind::UnknownAggregate => ("unknown-aggregate", StatusCode::NOT_FOUND, "There is no such aggregate"),
            Kind::UnknownKey => ("unknown-key", StatusCode::NOT_FOUND, "Nothing is known of this key"),
            Kind::InvalidQuery => ("invalid-query", StatusCode::BAD_REQUEST, "The query is not a question"),
            Kind::Unanswerable => {
                ("unanswerable", StatusCode::UNPROCESSABLE_ENTITY, "The aggregate cannot answer this")
            }
            Kind::InvalidPath => ("invalid-path", StatusCode::BAD_REQUEST, "The path is not text"),
            Kind::MethodNotAllowed => {
                ("method-not-allowed", StatusCode::METHOD_NOT_ALLOWED, "The path does not take this method")
            }
            Kind::UnsupportedMediaType => {
                ("unsupported-media-type", StatusCode::UNSUPPORTED_MEDIA_TYPE, "The body is not declared as JSON")
            }
            Kind::UnsupportedEncoding => {
                ("unsupported-encoding", StatusCode::UNSUPPORTED_MEDIA_TYPE, "The body is encoded")
            }
            Kind::BodyTooLarge => ("body-too-large", StatusCode::PAYLOAD_TOO_LARGE, "The body is too large"),
            Kind::BodyTimeout => ("body-timeout", StatusCode::REQUEST_TIMEOUT, "The body did not arrive in time"),
            Kind::BrokenBody => ("broken-body", StatusCode::BAD_REQUEST, "The body did not arrive whole"),
            Kind::InvalidUtf8 => ("invalid-utf-8", StatusCode::BAD_REQUEST, "The body is not UTF-8"),
            Kind::InvalidJson => ("invalid-json", StatusCode::BAD_REQUEST, "The body is not JSON"),
            Kind::InvalidQuestion => {
                ("invalid-question", StatusCode::UNPROCESSABLE_ENTITY, "The body is JSON, but not a question")
            }
            Kind::ConflictingFields => {
                ("conflicting-fields", StatusCode::UNPROCESSABLE_ENTITY, "Fields contradict each other")
            }
            Kind::BatchTooLarge => {
                ("batch-too-large", StatusCode::UNPROCESSABLE_ENTITY, "The batch has too many events")
            }
            Kind::InvalidWindow => ("invalid-window", StatusCode::UNPROCESSABLE_ENTITY, "The window is not a span"),
            Kind::WindowTooLong => {
                ("window-too-long", StatusCode::UNPROCESSABLE_ENTITY, "The memory does not reach back that far")
            }
            Kind::OtherWindow => {
                ("window-kind", StatusCode::UNPROCESSABLE_ENTITY, "The stream's window is of another kind")
            }
            Kind::NotReady => ("not-ready", StatusCode::SERVICE_UNAVAILABLE, "The service is not ready yet"),
            Kind::RestoreFailed => {
                ("restore-failed", StatusCode::SERVICE_UNAVAILABLE, "A part of the memory could not be restored")
            }
            Kind::JournalUnavailable => {
                ("journal-unavailable", StatusCode::SERVICE_UNAVAILABLE, "Events cannot be recorded now")
            }
            Kind::Stopping => ("stopping", StatusCode::SERVICE_UNAVAILABLE, "The service is stopping"),
            Kind::Elsewhere => ("elsewhere", StatusCode::MISDIRECTED_REQUEST, "Another instance answers for this"),
            Kind::AnswerTimeout => ("answer-timeout", StatusCode::GATEWAY_TIMEOUT, "There was no answer in time"),
        }
    }
}

/// One mistake, told to the one who made it.
#[derive(Debug)]
pub(super) struct Problem {
    kind: Kind,
    /// What was wrong and what would be right.
    detail: Cow<'static, str>,
    /// Line and column of the body, from 1.
    position: Option<(usize, usize)>,
}

#[derive(Serialize)]
struct Wire<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
}

impl Problem {
    pub(super) fn new(kind: Kind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, detail: detail.into(), position: None }
    }

    pub(super) fn at(self, line: usize, column: usize) -> Self {
        Self { position: Some((line, column)), ..self }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (name, status, title) = self.kind.parts();
        let wire = Wire {
            r#type: format!("/problems/{name}"),
            title,
            status: status.as_u16(),
            detail: &self.detail,
            line: self.position.map(|(line, _)| line),
            column: self.position.map(|(_, column)| column),
        };
        let body = serde_json::to_vec(&wire).expect("a problem is texts and numbers: it has a JSON form");
        let mut response = (status, body).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, PROBLEM_JSON);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        if self.kind == Kind::UnsupportedEncoding {
            response.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        response
    }
}
