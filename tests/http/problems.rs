//! Errors are problems, each with its own type.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use ebb::http::{HttpLimits, Routes};
use ebb::store::StoreOptions;
use serde_json::Value;

use super::support::{Service, event, open_gate, send_request};

#[tokio::test]
async fn invalid_body_is_refused_with_a_remedy() {
    let service = Service::start().await;
    let one = event("a", 0);
    let cases = [
        ("", 400, "invalid-json", "EOF"),
        ("{", 400, "invalid-json", "EOF"),
        ("nonsense", 400, "invalid-json", "expected"),
        (r#"{"event":{}} trailing"#, 400, "invalid-json", "trailing"),
        (r#"{"event":NaN}"#, 400, "invalid-json", "expected"),
        ("[]", 422, "invalid-question", "expected"),
        ("{}", 422, "invalid-question", "\"event\""),
        (r#"{"event":null}"#, 422, "invalid-question", "\"event\""),
        (r#"{"evnt":{}}"#, 422, "invalid-question", "`event`"),
        (r#"{"event":{},"event":{}}"#, 422, "invalid-question", "duplicate"),
        (r#"{"event":{},"record":"yes"}"#, 422, "invalid-question", "boolean"),
        (r#"{"event":{},"at_least":-1}"#, 422, "invalid-question", "an offset"),
        (r#"{"event":{},"at_least":"1:"}"#, 422, "invalid-question", "partition:offset"),
        (r#"{"event":{},"at_least":"9:1"}"#, 404, "unknown-partition", "2 partitions"),
        (r#"{"event":{},"partition":9}"#, 404, "unknown-partition", "2 partitions"),
        (r#"{"event":{},"record":true,"explain":true}"#, 422, "conflicting-fields", "explain"),
        (r#"{"event":{},"prior":"half"}"#, 422, "invalid-question", "a number"),
        (r#"{"event":{},"prior":1}"#, 422, "invalid-question", "the nearest is 0.999"),
        (r#"{"event":{},"penalty":{"false_duplicate":1e999,"missed_duplicate":1}}"#, 422, "invalid-question", "finite"),
        (r#"{"events":{}}"#, 422, "invalid-question", "a list of events"),
        (r#"{"event":{},"events":[]}"#, 422, "conflicting-fields", "either"),
        (r#"{"event":{},"record":true,"window":"1m"}"#, 422, "conflicting-fields", "record"),
        (r#"{"event":{},"record":true,"at_least":1}"#, 422, "conflicting-fields", "record"),
        (r#"{"event":{},"window":"soon"}"#, 422, "invalid-window", "10m"),
        (r#"{"event":{},"window":"-3 events"}"#, 422, "invalid-window", "500 events"),
        (r#"{"event":{},"window":"0ms"}"#, 422, "invalid-window", "greater than zero"),
        (r#"{"event":{},"window":"11m"}"#, 409, "window-too-long", "configured window is 10m"),
        (r#"{"events":[],"window":"11m"}"#, 409, "window-too-long", "configured window is 10m"),
        (r#"{"event":{},"window":"5 events"}"#, 409, "window-kind", "window is 10m"),
    ];
    for (body, status, problem, part) in cases {
        let refused = service.decide("clicks", body).await;
        assert_eq!(refused.problem(status), problem, "{body}");
        assert!(refused.detail().contains(part), "{body}: {}", refused.detail());
    }
    service.decide("clicks", &format!(r#"{{"event":{one}}}"#)).await.json();
}

#[tokio::test]
async fn malformed_json_is_refused_with_its_position() {
    let service = Service::start().await;
    let refused = service.decide("clicks", "{\n  \"event\": {},\n  oops\n}").await;
    assert_eq!(refused.problem(400), "invalid-json");
    let problem: Value = serde_json::from_str(&refused.text).unwrap();
    assert_eq!((&problem["line"], &problem["column"]), (&3.into(), &3.into()), "{problem}");
    assert!(!refused.detail().contains("line"), "the position has fields of its own: {}", refused.detail());
}

#[tokio::test]
async fn body_that_is_not_utf_8_is_refused_with_its_position() {
    let service = Service::start().await;
    let refused = service.post("/v1/streams/clicks/decide", &b"{\"event\":\"\xff\"}"[..]).await;
    assert_eq!(refused.problem(400), "invalid-utf-8");
    assert!(refused.detail().contains("byte 10"), "{}", refused.detail());
}

#[tokio::test]
async fn only_uncompressed_json_is_accepted() {
    let service = Service::start().await;
    let body = format!(r#"{{"event":{}}}"#, event("a", 0));
    let send = |kind: &str, encoding: &str| {
        let request = Request::post("/v1/streams/clicks/decide").header("content-type", kind);
        let request = if encoding.is_empty() { request } else { request.header("content-encoding", encoding) };
        send_request(service.router(), request.body(Body::from(body.clone())).unwrap())
    };
    for kind in ["application/json", "Application/JSON; charset=utf-8", "application/vnd.ebb+json"] {
        send(kind, "").await.json();
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "multipart/form-data", ""] {
        assert_eq!(send(kind, "").await.problem(415), "unsupported-media-type", "{kind}");
    }
    send("application/json", "identity").await.json();
    for encoding in ["gzip", "br", "identity, gzip"] {
        let refused = send("application/json", encoding).await;
        assert_eq!(refused.problem(415), "unsupported-encoding");
        assert_eq!(refused.header("accept-encoding"), "identity");
    }
    let bare = Request::post("/v1/streams/clicks/decide").body(Body::from(body.clone())).unwrap();
    assert_eq!(send_request(service.router(), bare).await.problem(415), "unsupported-media-type");
}

#[tokio::test]
async fn unknown_paths_streams_and_methods_are_refused() {
    let service = Service::start().await;
    for path in ["/", "/v1", "/v1/streams/clicks/decide/more", "/nowhere", "/v1/streams/", "/v1//streams", "/LIVEZ"] {
        assert_eq!(service.get(path).await.problem(404), "unknown-path", "{path}");
    }
    let refused = service.decide("clacks", "{}").await;
    assert_eq!(refused.problem(404), "unknown-stream");
    assert!(refused.detail().contains("clicks, counted"), "{}", refused.detail());
    assert_eq!(service.get("/v1/streams/clacks").await.problem(404), "unknown-stream");
    let refused = service.get("/v1/streams/clicks/decide").await;
    assert_eq!(refused.problem(405), "method-not-allowed");
    assert_eq!(refused.header("allow"), "POST");
    let refused = service.post("/readyz", "").await;
    assert_eq!(refused.problem(405), "method-not-allowed");
    assert_eq!(refused.header("allow"), "GET,HEAD");
}

#[tokio::test]
async fn stream_name_that_is_not_utf_8_is_refused() {
    let service = Service::start().await;
    assert_eq!(service.get("/v1/streams/%ff").await.problem(400), "invalid-path");
    for name in ["%00", "clicks%00", "..%2f..%2fetc", "%F0%9F%92%A9", "CLICKS"] {
        assert_eq!(service.get(&format!("/v1/streams/{name}")).await.problem(404), "unknown-stream", "{name}");
    }
}

#[tokio::test]
async fn restoring_service_is_not_ready_and_says_when_to_retry() {
    let service = Service::restoring("gated", HttpLimits::default(), StoreOptions::default());
    let body = format!(r#"{{"event":{}}}"#, event("a", 0));
    for refused in [
        service.decide("gated", &body).await,
        service.get("/readyz").await,
        service.get("/healthz").await,
        service.get("/v1/streams/gated").await,
    ] {
        assert_eq!(refused.problem(503), "not-ready");
        assert_eq!(refused.header("retry-after"), "1");
    }
    assert_eq!(service.get("/livez").await.json()["status"], "live");
    assert_eq!(service.get("/v1/streams").await.json()["streams"][1]["name"], "gated");
    assert!(service.get("/metrics").await.text.contains("\nebb_ready 0\n"));
    open_gate();
    service.api.streams.settled().await;
    assert_eq!(service.get("/readyz").await.json()["status"], "ready");
    assert_eq!(service.get("/healthz").await.json()["status"], "ready");
    assert!(service.get("/metrics").await.text.contains("\nebb_ready 1\n"));
    service.decide("gated", &body).await.json();
}

#[tokio::test]
async fn full_journal_refuses_events_but_not_questions() {
    let full = StoreOptions { reserve_bytes: u64::MAX / 4, ..StoreOptions::default() };
    let service = Service::with(HttpLimits::default(), full).await;
    let refused = service.decide("clicks", &format!(r#"{{"event":{},"record":true}}"#, event("a", 0))).await;
    assert_eq!(refused.problem(503), "journal-unavailable");
    assert_eq!(refused.header("retry-after"), "1");
    let answer = service.decide("clicks", &format!(r#"{{"event":{}}}"#, event("a", 0))).await.json();
    assert_eq!(answer["verdict"], "unique", "an event that was not journalled was not applied");
}

#[tokio::test]
async fn stopped_service_refuses_requests() {
    let service = Service::start().await;
    let router = Routes::all(service.api.clone()).into_router();
    service.workers.stop().await;
    for record in ["true", "false"] {
        let body = format!(r#"{{"event":{},"record":{record}}}"#, event("a", 0));
        let request = Request::post("/v1/streams/clicks/decide").header("content-type", "application/json");
        let refused = send_request(router.clone(), request.body(Body::from(body)).unwrap()).await;
        assert_eq!(refused.problem(503), "stopping");
    }
}

#[tokio::test]
async fn body_size_is_limited() {
    let limits = HttpLimits { max_body_bytes: 1 << 10, request_timeout: Duration::from_secs(5), ..Default::default() };
    let service = Service::with_limits(limits).await;
    let padded = |bytes: usize| {
        let start = r#"{"events":["#;
        format!("{start}{}]}}", " ".repeat(bytes - start.len() - 2))
    };
    service.decide("clicks", &padded(1 << 10)).await.json();
    let refused = service.decide("clicks", &padded((1 << 10) + 1)).await;
    assert_eq!(refused.problem(413), "body-too-large");
    assert!(refused.detail().contains("1KiB"), "{}", refused.detail());
}
