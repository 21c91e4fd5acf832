//! Authentication with bearer tokens.

use std::path::PathBuf;

use axum::body::Body;
use axum::http::{Method, Request};
use ebb::http::{Routes, Tokens};
use tempfile::TempDir;

use super::server::eventually;
use super::support::{Service, TestResponse, event, logged, send_request};

const WRITER: &str = "writer-token-0123456789";
const READER: &str = "reader-token-0123456789";

/// A service with a tokens file.
struct TokenService {
    service: Service,
    tokens: Tokens,
    file: PathBuf,
    _dir: TempDir,
}

impl TokenService {
    async fn start() -> Self {
        let service = Service::start().await;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens");
        std::fs::write(&file, format!("billing write {WRITER}\nviewer read {READER}\n")).unwrap();
        let failures = service.api.metrics.http_reload_failures.with_label_values(&["tokens"]);
        Self { tokens: Tokens::load(&file, failures).unwrap(), service, file, _dir: dir }
    }

    async fn send(&self, routes: Routes, path: &str, authorization: &[&str], body: Option<String>) -> TestResponse {
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        for value in authorization {
            request = request.header("authorization", *value);
        }
        let router = routes.with_tokens(Some(self.tokens.clone())).into_router();
        send_request(router, request.body(body.map_or(Body::empty(), Body::from)).unwrap()).await
    }

    async fn get(&self, path: &str, authorization: &[&str]) -> TestResponse {
        self.send(Routes::all(self.service.api.clone()), path, authorization, None).await
    }

    async fn decide(&self, token: &str, record: bool) -> TestResponse {
        let body = format!(r#"{{"event":{},"record":{record}}}"#, event("a", 0));
        let routes = Routes::all(self.service.api.clone());
        self.send(routes, "/v1/streams/clicks/decide", &[&format!("Bearer {token}")], Some(body)).await
    }

    fn refusals(&self, reason: &str) -> u64 {
        self.service.api.metrics.http_refusals.with_label_values(&[reason]).get()
    }

    async fn is_accepted(&self, token: &str) -> bool {
        self.get("/v1/streams", &[&format!("Bearer {token}")]).await.status == 200
    }
}

#[tokio::test]
async fn only_probes_and_description_are_served_without_a_token() {
    let service = TokenService::start().await;
    let paths = ["/v1/streams", "/v1/streams/clicks", "/v1/streams/clicks/aggregates/visits/count", "/metrics"];
    for path in paths {
        let missing = service.get(path, &[]).await;
        assert_eq!(missing.problem(401), "token-missing", "{path}");
        assert_eq!(missing.header("www-authenticate"), "Bearer realm=\"ebb\"");
        let unknown = service.get(path, &["Bearer reader-token-0123456780"]).await;
        assert_eq!(unknown.problem(401), "token-unknown", "{path}");
        assert_eq!(unknown.header("www-authenticate"), "Bearer realm=\"ebb\", error=\"invalid_token\"");
        assert_eq!(service.get(path, &[&format!("Bearer {READER}")]).await.status, 200, "{path}");
    }
    assert_eq!(service.decide("", false).await.problem(401), "token-unknown");
    for path in ["/livez", "/readyz", "/healthz", "/openapi.json", "/docs", "/problems"] {
        assert_eq!(service.get(path, &[]).await.status, 200, "{path}");
    }
    assert_eq!((service.refusals("missing"), service.refusals("unknown")), (4, 5));
    let unauthorised = service.service.api.metrics.http_requests.with_label_values(&["/v1/streams", "401"]).get();
    assert_eq!(unauthorised, 2, "refused requests are counted as requests");
}

#[tokio::test]
async fn read_token_cannot_record() {
    let service = TokenService::start().await;
    let refused = service.decide(READER, true).await;
    assert_eq!(refused.problem(403), "token-read-only");
    assert!(refused.header("www-authenticate").contains("insufficient_scope"));
    assert_eq!(service.refusals("scope"), 1);
    assert_eq!(service.decide(READER, false).await.json()["verdict"], "unique");
    assert_eq!(service.decide(READER, false).await.json()["verdict"], "unique", "the question was not recorded");
    assert_eq!(service.decide(WRITER, true).await.json()["verdict"], "unique");
    assert_eq!(service.decide(READER, false).await.json()["verdict"], "duplicate");
}

#[tokio::test]
async fn admin_listener_serves_only_probes_and_metrics_without_tokens() {
    let service = TokenService::start().await;
    for path in ["/livez", "/readyz", "/metrics"] {
        let answer = service.send(Routes::admin(service.service.api.clone()), path, &[], None).await;
        assert_eq!(answer.status, 200, "{path}");
    }
    let admin = Routes::admin(service.service.api.clone());
    service.send(admin, "/v1/streams", &[&format!("Bearer {WRITER}")], None).await.problem(404);
    for path in ["/livez", "/metrics"] {
        let routes = Routes::service(service.service.api.clone());
        service.send(routes, path, &[&format!("Bearer {WRITER}")], None).await.problem(404);
    }
}

#[tokio::test]
async fn token_must_be_a_single_bearer_header() {
    let service = TokenService::start().await;
    let bearer = format!("Bearer {READER}");
    for good in [bearer.clone(), format!("bEARER {READER}")] {
        assert_eq!(service.get("/v1/streams", &[&good]).await.status, 200, "{good}");
    }
    let basic = format!("Basic {READER}");
    let bad: [&[&str]; 7] =
        [&[&basic], &[READER], &["Bearer"], &[""], &["Bearer "], &[&bearer, &bearer], &[&bearer, "Bearer x"]];
    for bad in bad {
        assert_eq!(service.get("/v1/streams", bad).await.status, 401, "{bad:?}");
    }
    for near in [&bearer[..bearer.len() - 1], &format!("{bearer}0"), &format!("Bearer  {READER}")] {
        assert_eq!(service.get("/v1/streams", &[near]).await.problem(401), "token-unknown", "{near}");
    }
}

#[tokio::test]
async fn tokens_are_reloaded_and_an_invalid_file_is_ignored() {
    let service = TokenService::start().await;
    let failures = service.service.api.metrics.http_reload_failures.with_label_values(&["tokens"]);
    std::fs::write(&service.file, "viewer read hunter2\n").unwrap();
    eventually("the invalid file was noticed", || failures.get() == 1).await;
    assert!(service.is_accepted(READER).await);
    assert!(!logged().contains("hunter2"));
    let next = "another-token-0123456789";
    std::fs::write(&service.file, format!("viewer read {next}\n")).unwrap();
    let started = std::time::Instant::now();
    while !service.is_accepted(next).await {
        assert!(started.elapsed() < super::server::HANG_TIMEOUT, "the file is not reloaded");
        tokio::task::yield_now().await;
    }
    assert!(!service.is_accepted(READER).await, "a removed token is refused");
    std::fs::remove_file(&service.file).unwrap();
    eventually("the missing file was noticed", || failures.get() == 2).await;
    assert!(service.is_accepted(next).await);
}

#[tokio::test]
async fn log_contains_the_caller_name_and_never_the_token() {
    let service = TokenService::start().await;
    service.decide(WRITER, true).await.json();
    service.decide(READER, true).await.problem(403);
    service.get("/v1/streams", &["Bearer unknown-token-0123456789"]).await.problem(401);
    let logged = logged();
    assert!(logged.contains("caller=\"billing\""), "the name is logged");
    for secret in [WRITER, READER, "unknown-token-0123456789"] {
        assert!(!logged.contains(secret), "{secret}");
        assert!(!service.service.api.metrics.text().contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn read_token_lists_checkpoints_but_cannot_store_them() {
    let service = TokenService::start().await;
    let routes = || Routes::all(service.service.api.clone());
    let take = async |token: &str| {
        service.send(routes(), "/v1/checkpoint", &[&format!("Bearer {token}")], Some(String::new())).await
    };
    assert_eq!(take(READER).await.problem(403), "token-read-only");
    assert_eq!(take(WRITER).await.status, 200);
    assert_eq!(service.get("/v1/checkpoint", &[&format!("Bearer {READER}")]).await.status, 200);
}
