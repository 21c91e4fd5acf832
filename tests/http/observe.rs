//! Metrics, logs and ids of requests.

use axum::body::Body;
use axum::http::Request;

use super::support::{Service, event, logged, send_request};

#[tokio::test]
async fn requests_are_counted_by_route_and_unknown_paths_share_one_label() {
    let service = Service::start().await;
    service.decide("clicks", &format!(r#"{{"event":{}}}"#, event("a", 0))).await.json();
    service.decide("clacks", "{}").await.problem(404);
    let series = |text: &str| text.lines().filter(|line| line.starts_with("ebb_http_")).count();
    service.get("/unknown/path").await.problem(404);
    let before = series(&service.api.metrics.text());
    for number in 0..500 {
        service.get(&format!("/unknown/path/{number}")).await.problem(404);
        service.get(&format!("/v1/streams/unknown-{number}/decide")).await.problem(405);
        service.decide(&format!("unknown-{number}"), "{}").await.problem(404);
    }
    let text = service.api.metrics.text();
    let decide = "/v1/streams/{stream}/decide";
    for (route, status, count) in [(decide, 200, 1), (decide, 404, 501), (decide, 405, 500), ("other", 404, 501)] {
        let line = format!(r#"ebb_http_requests_total{{route="{route}",status="{status}"}} {count}"#);
        assert!(text.contains(&line), "{line} is not in {text}");
    }
    assert!(text.contains(&format!(r#"ebb_http_request_duration_seconds_count{{route="{decide}"}} 1002"#)), "{text}");
    assert_eq!(series(&text), before + 1, "only the 405 of a known route adds a series");
}

#[tokio::test]
async fn request_id_is_kept_or_generated() {
    let service = Service::start().await;
    let send = |id: &[u8]| {
        let request = Request::get("/livez").header("x-request-id", id).body(Body::empty()).unwrap();
        send_request(service.router(), request)
    };
    assert_eq!(send(b"order-17/a:b").await.header("x-request-id"), "order-17/a:b");
    assert_eq!(service.get("/nowhere").await.header("x-request-id").len(), 16, "an error response has one too");
    let (one, two) = (service.get("/livez").await, service.get("/livez").await);
    assert_ne!(one.header("x-request-id"), two.header("x-request-id"));
    let long = [b'a'; 129];
    for hostile in [&b"a b"[..], b"{\"a\":1}", b"", b"\xff\xfe", &long] {
        let response = send(hostile).await;
        assert!(response.header("x-request-id").bytes().all(|byte| byte.is_ascii_hexdigit()), "{hostile:?}");
    }
}

#[tokio::test]
async fn client_input_is_not_logged_except_the_request_id() {
    let service = Service::start().await;
    let secret = "203.0.113.77";
    let bodies = [
        format!(r#"{{"event":{}}}"#, event(secret, 0)),
        format!(r#"{{"event":{},"record":true}}"#, event(secret, 0)),
        format!(r#"{{"event":{{"ip":"{secret}"}},"record":true}}"#),
        format!(r#"{{"event":{},"{secret}":1}}"#, event(secret, 0)),
        format!(r#"{{"event":{{}},"window":"{secret}"}}"#),
        format!("{{{secret}"),
    ];
    for body in bodies {
        let request = Request::post("/v1/streams/clicks/decide").header("content-type", "application/json");
        let request = request.header("x-request-id", "traced-id-1").body(Body::from(body)).unwrap();
        send_request(service.router(), request).await;
    }
    service.get(&format!("/v1/streams/{secret}?q={secret}")).await;
    service.get(&format!("/{secret}")).await;
    let logged = logged();
    assert!(logged.contains("traced-id-1"), "the log is captured");
    assert!(!logged.contains(secret));
}
