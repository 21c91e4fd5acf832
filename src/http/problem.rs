//! Errors as RFC 9457 problems. The `type` of each kind is part of the API and never changes.
//!
//! Status codes: 400 for a request that cannot be read, 422 for a readable request that is invalid, 404 for something that
//! does not exist, 409 for a valid request that this stream cannot answer with its configuration or at its position.

use std::borrow::Cow;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

/// Declares each kind once: its status, the last segment of its `type`, and its title.
macro_rules! problem_kinds {
    ($($kind:ident = $status:literal $slug:literal $title:literal;)*) => {
        /// Every kind of error that a request can be answered with.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum ProblemKind {
            $($kind,)*
        }

        impl ProblemKind {
            pub(super) const ALL: &[ProblemKind] = &[$(ProblemKind::$kind,)*];

            /// The last segment of the `type`.
            pub(super) fn slug(self) -> &'static str {
                match self {
                    $(ProblemKind::$kind => $slug,)*
                }
            }

            pub(super) fn status(self) -> u16 {
                match self {
                    $(ProblemKind::$kind => $status,)*
                }
            }

            pub(super) fn title(self) -> &'static str {
                match self {
                    $(ProblemKind::$kind => $title,)*
                }
            }
        }
    };
}

problem_kinds! {
    InvalidQuery = 400 "invalid-query" "Invalid query parameters";
    InvalidPath = 400 "invalid-path" "The path is not UTF-8";
    BrokenBody = 400 "broken-body" "The body is incomplete";
    InvalidUtf8 = 400 "invalid-utf-8" "The body is not UTF-8";
    InvalidJson = 400 "invalid-json" "The body is not valid JSON";
    InvalidExport = 400 "invalid-export" "The body is not a sequence of exports";
    TokenMissing = 401 "token-missing" "Missing bearer token";
    TokenUnknown = 401 "token-unknown" "Unknown bearer token";
    TokenReadOnly = 403 "token-read-only" "The token does not permit writing";
    UnknownPath = 404 "unknown-path" "Unknown path";
    UnknownStream = 404 "unknown-stream" "Unknown stream";
    UnknownAggregate = 404 "unknown-aggregate" "Unknown aggregate";
    UnknownKey = 404 "unknown-key" "Unknown key";
    UnknownPartition = 404 "unknown-partition" "Unknown partition";
    UnknownProblem = 404 "unknown-problem" "Unknown problem type";
    MethodNotAllowed = 405 "method-not-allowed" "Method not allowed";
    BodyTimeout = 408 "body-timeout" "The body was not received in time";
    Unanswerable = 409 "unanswerable" "The stream is not configured to answer this";
    WindowTooLong = 409 "window-too-long" "The window exceeds the configured window";
    OtherWindow = 409 "window-kind" "The window has a different unit than the configured window";
    NotReached = 409 "not-reached" "The requested offset was not reached in time";
    ForeignExport = 409 "foreign-export" "An export is from a different aggregate";
    DuplicateExport = 409 "duplicate-export" "The exports overlap";
    BodyTooLarge = 413 "body-too-large" "The body is too large";
    UnsupportedMediaType = 415 "unsupported-media-type" "Unsupported content type";
    UnsupportedEncoding = 415 "unsupported-encoding" "Unsupported content encoding";
    Elsewhere = 421 "elsewhere" "The partition is not assigned to this instance";
    InvalidQuestion = 422 "invalid-question" "Invalid request body";
    ConflictingFields = 422 "conflicting-fields" "Conflicting fields";
    BatchTooLarge = 422 "batch-too-large" "The batch has too many events";
    InvalidWindow = 422 "invalid-window" "Invalid window";
    NotReady = 503 "not-ready" "The service is not ready";
    RestoreFailed = 503 "restore-failed" "A shard could not be restored";
    JournalUnavailable = 503 "journal-unavailable" "The journal cannot be written";
    Stopping = 503 "stopping" "The service is shutting down";
    CheckpointFailed = 503 "checkpoint-failed" "The checkpoint could not be stored";
    AnswerTimeout = 504 "answer-timeout" "The request timed out";
}

impl ProblemKind {
    /// The `type`: a path at which the kind is described.
    pub(super) fn uri(self) -> String {
        format!("/problems/{}", self.slug())
    }

    /// The `www-authenticate` header of RFC 6750.
    fn challenge(self) -> Option<&'static str> {
        CHALLENGES.iter().find(|(kind, _)| *kind == self).map(|(_, challenge)| *challenge)
    }
}

const CHALLENGES: [(ProblemKind, &str); 3] = [
    (ProblemKind::TokenMissing, "Bearer realm=\"ebb\""),
    (ProblemKind::TokenUnknown, "Bearer realm=\"ebb\", error=\"invalid_token\""),
    (ProblemKind::TokenReadOnly, "Bearer realm=\"ebb\", error=\"insufficient_scope\", scope=\"write\""),
];
/// Value of `retry-after` while the service cannot answer yet.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// The error that a request is answered with.
#[derive(Debug)]
pub(super) struct Problem {
    kind: ProblemKind,
    /// What is wrong and how to correct it.
    detail: Cow<'static, str>,
    /// Line and column of the body, from 1.
    position: Option<(usize, usize)>,
}

/// The RFC 9457 representation of a problem.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct ProblemResponse<'a> {
    /// Stable identifier of the kind of problem; also a path that describes it.
    #[schema(schema_with = type_schema)]
    r#type: String,
    title: &'a str,
    status: u16,
    /// What is wrong and how to correct it.
    detail: &'a str,
    /// Line of the body, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// Column of the body, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
}

fn type_schema() -> utoipa::openapi::schema::Object {
    utoipa::openapi::ObjectBuilder::new()
        .schema_type(utoipa::openapi::schema::Type::String)
        .enum_values(Some(ProblemKind::ALL.iter().map(|kind| kind.uri())))
        .build()
}

impl Problem {
    pub(super) fn new(kind: ProblemKind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, detail: detail.into(), position: None }
    }

    pub(super) fn at(self, line: usize, column: usize) -> Self {
        Self { position: Some((line, column)), ..self }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let kind = self.kind;
        let problem = ProblemResponse {
            r#type: kind.uri(),
            title: kind.title(),
            status: kind.status(),
            detail: &self.detail,
            line: self.position.map(|(line, _)| line),
            column: self.position.map(|(_, column)| column),
        };
        let body = serde_json::to_vec(&problem).expect("a problem consists of strings and numbers");
        let status = StatusCode::from_u16(kind.status()).expect("every kind has a valid HTTP status");
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
        if status == StatusCode::SERVICE_UNAVAILABLE || kind == ProblemKind::NotReached {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        if let Some(challenge) = kind.challenge() {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if kind == ProblemKind::UnsupportedEncoding {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        response
    }
}
