//! Request bodies, read completely within their deadline and size limit, and JSON response bodies.

use std::future::poll_fn;
use std::pin::Pin;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::deadline::RequestDeadline;
use super::problem::{Problem, ProblemKind};
use ebb_sketch::units;

/// Reads a JSON body. The headers are checked before any of the body is read.
pub(super) async fn read_json(
    request: Request,
    max_bytes: usize,
    deadline: &mut RequestDeadline,
) -> Result<Bytes, Problem> {
    let is_json =
        |media: &str| media == "application/json" || media.starts_with("application/") && media.ends_with("+json");
    check_headers(request.headers(), is_json, "send content-type: application/json")?;
    read(request, max_bytes, deadline).await
}

/// Reads a binary body, as [`read_json`] does.
pub(super) async fn read_bytes(
    request: Request,
    max_bytes: usize,
    deadline: &mut RequestDeadline,
) -> Result<Bytes, Problem> {
    let is_binary = |media: &str| media == "application/octet-stream";
    check_headers(request.headers(), is_binary, "send content-type: application/octet-stream")?;
    read(request, max_bytes, deadline).await
}

async fn read(request: Request, max_bytes: usize, deadline: &mut RequestDeadline) -> Result<Bytes, Problem> {
    let body = request.into_body();
    // The declared length; chunked bodies are measured while they are read.
    if body.size_hint().lower() > max_bytes as u64 {
        return Err(too_large(max_bytes));
    }
    match deadline.run(collect(body, max_bytes)).await {
        Some(bytes) => bytes,
        None => Err(Problem::new(ProblemKind::BodyTimeout, "send the whole body at once and without pauses")),
    }
}

fn check_headers(headers: &HeaderMap, is_accepted: impl Fn(&str) -> bool, remedy: &'static str) -> Result<(), Problem> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if let Some(encoding) = text(header::CONTENT_ENCODING)
        && !encoding.eq_ignore_ascii_case("identity")
    {
        let detail = "compressed bodies are not supported; send the body without content-encoding";
        return Err(Problem::new(ProblemKind::UnsupportedEncoding, detail));
    }
    let declared = text(header::CONTENT_TYPE).unwrap_or_default();
    let media = declared.split(';').next().unwrap_or_default().trim();
    // Nearly all clients send lower case: the copy is made only for the others.
    if is_accepted(media) || is_accepted(&media.to_ascii_lowercase()) {
        Ok(())
    } else {
        Err(Problem::new(ProblemKind::UnsupportedMediaType, remedy))
    }
}

async fn collect(mut body: Body, max_bytes: usize) -> Result<Bytes, Problem> {
    let mut first: Option<Bytes> = None;
    let mut whole = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|_| {
            Problem::new(
                ProblemKind::BrokenBody,
                "the connection or the chunked encoding ended before the body was complete",
            )
        })?;
        let Ok(data) = frame.into_data() else { continue };
        let received = first.as_ref().map_or(whole.len(), Bytes::len);
        if received + data.len() > max_bytes {
            return Err(too_large(max_bytes));
        }
        // Most bodies arrive in one frame, which needs no copy.
        match first.take() {
            None if whole.is_empty() => first = Some(data),
            None => whole.extend_from_slice(&data),
            Some(before) => {
                whole.extend_from_slice(&before);
                whole.extend_from_slice(&data);
            }
        }
    }
    Ok(first.unwrap_or_else(|| whole.into()))
}

fn too_large(max_bytes: usize) -> Problem {
    let max = units::Bytes(max_bytes as u64);
    Problem::new(ProblemKind::BodyTooLarge, format!("the limit is {max}; send several smaller requests"))
}

/// Parses a body as one JSON document.
pub(super) fn parse_json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let detail = format!("byte {} of the body is not valid UTF-8", error.valid_up_to());
        Problem::new(ProblemKind::InvalidUtf8, detail)
    })?;
    serde_json::from_str(text).map_err(|error| json_problem(&error))
}

fn json_problem(error: &serde_json::Error) -> Problem {
    let kind = if error.is_data() { ProblemKind::InvalidQuestion } else { ProblemKind::InvalidJson };
    // The problem has fields for the position, which serde_json appends to its message.
    let message = error.to_string();
    let detail = message.split(" at line ").next().unwrap_or_default().to_owned();
    Problem::new(kind, detail).at(error.line(), error.column())
}

/// Most responses are no longer than this.
const RESPONSE_BYTES: usize = 512;

/// A JSON response.
pub(super) fn json(response: &impl Serialize) -> Response {
    let mut body = Vec::with_capacity(RESPONSE_BYTES);
    serde_json::to_writer(&mut body, response).expect("responses have no maps with keys other than strings");
    let mut response = body.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
