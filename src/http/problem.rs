//! Mistakes as RFC 9457 problems. Each kind has one `type`, for ever: programs may act on it.
//!
//! What the statuses tell apart: 400 cannot be read at all, 422 can be read but is no question, 404 asks for what is not
//! there, 409 is a good question that this stream, as it is configured and as far as it has come, does not answer.

use std::borrow::Cow;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

/// Declares each kind once: its status, the last segment of its `type`, and its title.
macro_rules! kinds {
    ($($kind:ident = $status:literal $name:literal $title:literal;)*) => {
        /// What can go wrong with a request. Closed: the names are part of the API.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Kind {
            $($kind,)*
        }

        impl Kind {
            pub(super) const ALL: &[Kind] = &[$(Kind::$kind,)*];

            /// The last segment of the `type`, the status and the title.
            pub(super) fn parts(self) -> (&'static str, u16, &'static str) {
                match self {
                    $(Kind::$kind => ($name, $status, $title),)*
                }
            }
        }
    };
}

kinds! {
    InvalidQuery = 400 "invalid-query" "The query is not a question";
    InvalidPath = 400 "invalid-path" "The path is not text";
    BrokenBody = 400 "broken-body" "The body did not arrive whole";
    InvalidUtf8 = 400 "invalid-utf-8" "The body is not UTF-8";
    InvalidJson = 400 "invalid-json" "The body is not JSON";
    InvalidExport = 400 "invalid-export" "The body is not one export after the other";
    TokenMissing = 401 "token-missing" "A token is needed";
    TokenUnknown = 401 "token-unknown" "The token is not known";
    TokenReadOnly = 403 "token-read-only" "The token may not do this";
    UnknownPath = 404 "unknown-path" "There is nothing at this path";
    UnknownStream = 404 "unknown-stream" "There is no such stream";
    UnknownAggregate = 404 "unknown-aggregate" "There is no such aggregate";
    UnknownKey = 404 "unknown-key" "Nothing is known of this key";
    UnknownPartition = 404 "unknown-partition" "The stream has no such partition";
    UnknownProblem = 404 "unknown-problem" "There is no such type of problem";
    MethodNotAllowed = 405 "method-not-allowed" "The path does not take this method";
    BodyTimeout = 408 "body-timeout" "The body did not arrive in time";
    Unanswerable = 409 "unanswerable" "The aggregate cannot answer this";
    WindowTooLong = 409 "window-too-long" "The memory does not reach back that far";
    OtherWindow = 409 "window-kind" "The stream's window is of another kind";
    NotReached = 409 "not-reached" "The log has not come that far";
    ForeignExport = 409 "foreign-export" "An export does not belong to this aggregate";
    DuplicateExport = 409 "duplicate-export" "Events would be counted twice";
    BodyTooLarge = 413 "body-too-large" "The body is too large";
    UnsupportedMediaType = 415 "unsupported-media-type" "The body is not declared as what it must be";
    UnsupportedEncoding = 415 "unsupported-encoding" "The body is encoded";
    Elsewhere = 421 "elsewhere" "Another instance answers for this";
    InvalidQuestion = 422 "invalid-question" "The body is JSON, but not a question";
    ConflictingFields = 422 "conflicting-fields" "Fields contradict each other";
    BatchTooLarge = 422 "batch-too-large" "The batch has too many events";
    InvalidWindow = 422 "invalid-window" "The window is not a span";
    NotReady = 503 "not-ready" "The service is not ready yet";
    RestoreFailed = 503 "restore-failed" "A part of the memory could not be restored";
    JournalUnavailable = 503 "journal-unavailable" "Events cannot be recorded now";
    Stopping = 503 "stopping" "The service is stopping";
    CheckpointFailed = 503 "checkpoint-failed" "The checkpoint could not be stored";
    AnswerTimeout = 504 "answer-timeout" "There was no answer in time";
}

impl Kind {
    /// What RFC 6750 has the `www-authenticate` header say.
    fn challenge(self) -> Option<&'static str> {
        match self {
            Kind::TokenMissing => Some("Bearer realm=\"ebb\""),
            Kind::TokenUnknown => Some("Bearer realm=\"ebb\", error=\"invalid_token\""),
            Kind::TokenReadOnly => Some("Bearer realm=\"ebb\", error=\"insufficient_scope\", scope=\"write\""),
            _ => None,
        }
    }
}

/// How long a client should leave a service alone that cannot answer yet.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// One mistake, told to the one who made it.
#[derive(Debug)]
pub(super) struct Problem {
    kind: Kind,
    /// What was wrong and what would be right.
    detail: Cow<'static, str>,
    /// Line and column of the body, from 1.
    position: Option<(usize, usize)>,
}

/// A problem as RFC 9457 has it.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct Wire<'a> {
    /// Stable: programs may act on it. Found under the path that it is, too.
    #[schema(schema_with = type_schema)]
    r#type: String,
    title: &'a str,
    status: u16,
    /// What was wrong and what would be right.
    detail: &'a str,
    /// Of the body, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
}

fn type_schema() -> utoipa::openapi::schema::Object {
    let types = Kind::ALL.iter().map(|kind| path(kind.parts().0));
    utoipa::openapi::ObjectBuilder::new()
        .schema_type(utoipa::openapi::schema::Type::String)
        .enum_values(Some(types))
        .build()
}

fn path(name: &str) -> String {
    format!("/problems/{name}")
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
            r#type: path(name),
            title,
            status,
            detail: &self.detail,
            line: self.position.map(|(line, _)| line),
            column: self.position.map(|(_, column)| column),
        };
        let body = serde_json::to_vec(&wire).expect("a problem is texts and numbers: it has a JSON form");
        let status = StatusCode::from_u16(status).expect("the statuses of problems are those of HTTP");
        let mut response = (status, body).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, PROBLEM_JSON);
        if status == StatusCode::SERVICE_UNAVAILABLE || self.kind == Kind::NotReached {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        if let Some(challenge) = self.kind.challenge() {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if self.kind == Kind::UnsupportedEncoding {
            response.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        response
    }
}
