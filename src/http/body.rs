//! Bodies: a request's is of the type that it must be, whole, in time and within its limit, or a problem; an answer's is
//! JSON.

use std::future::poll_fn;
use std::pin::Pin;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::deadline::Deadline;
use super::problem::{Kind, Problem};
use ebb_sketch::units;

/// Reads the body of a request that must be JSON. Nothing is read when the head already tells that it cannot be taken.
pub(super) async fn read_json(request: Request, most_bytes: usize, deadline: &mut Deadline) -> Result<Bytes, Problem> {
    let is_json =
        |media: &str| media == "application/json" || media.starts_with("application/") && media.ends_with("+json");
    require(request.headers(), is_json, "send content-type: application/json")?;
    read(request, most_bytes, deadline).await
}

/// As [`read_json`], of a request that must be plain bytes.
pub(super) async fn read_bytes(request: Request, most_bytes: usize, deadline: &mut Deadline) -> Result<Bytes, Problem> {
    let is_bytes = |media: &str| media == "application/octet-stream";
    require(request.headers(), is_bytes, "send content-type: application/octet-stream")?;
    read(request, most_bytes, deadline).await
}

async fn read(request: Request, most_bytes: usize, deadline: &mut Deadline) -> Result<Bytes, Problem> {
    let body = request.into_body();
    // A declared length; what comes in chunks is measured while it is read.
    if body.size_hint().lower() > most_bytes as u64 {
        return Err(too_large(most_bytes));
    }
    match deadline.wait_for(collect(body, most_bytes)).await {
        Some(bytes) => bytes,
        None => Err(Problem::new(Kind::BodyTimeout, "send the whole body at once and without pauses")),
    }
}

fn require(headers: &HeaderMap, is_right: impl Fn(&str) -> bool, right: &'static str) -> Result<(), Problem> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if let Some(encoding) = text(header::CONTENT_ENCODING)
        && !encoding.eq_ignore_ascii_case("identity")
    {
        let detail = "bodies are not decompressed here; send the body as it is, without content-encoding";
        return Err(Problem::new(Kind::UnsupportedEncoding, detail));
    }
    let declared = text(header::CONTENT_TYPE).unwrap_or_default();
    let media = declared.split(';').next().unwrap_or_default().trim();
    // Nearly all write it in small letters.
    if is_right(media) || is_right(&media.to_ascii_lowercase()) {
        Ok(())
    } else {
        Err(Problem::new(Kind::UnsupportedMediaType, right))
    }
}

async fn collect(mut body: Body, most_bytes: usize) -> Result<Bytes, Problem> {
    let mut first: Option<Bytes> = None;
    let mut whole = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|_| {
            Problem::new(Kind::BrokenBody, "the connection or the chunks broke off before the end of the body")
        })?;
        let Ok(data) = frame.into_data() else { continue };
        let held = first.as_ref().map_or(whole.len(), Bytes::len);
        if held + data.len() > most_bytes {
            return Err(too_large(most_bytes));
        }
        // Most bodies come in one piece, which needs no copy.
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

fn too_large(most_bytes: usize) -> Problem {
    let most = units::Bytes(most_bytes as u64);
    Problem::new(Kind::BodyTooLarge, format!("a body may have at most {most}; send less at once"))
}

/// Most answers are no longer.
const ANSWER_BYTES: usize = 512;

/// An answer as JSON.
pub(super) fn json(answer: &impl Serialize) -> Response {
    let mut body = Vec::with_capacity(ANSWER_BYTES);
    serde_json::to_writer(&mut body, answer).expect("answers are texts and numbers: they have a JSON form");
    let mut response = body.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
