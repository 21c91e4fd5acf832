//! Tokens: who is let in, what for, and what is told of it.

use std::path::PathBuf;

use axum::body::Body;
use axum::http::{Method, Request};
use ebb::http::{Routes, Tokens};
use tempfile::TempDir;

use super::server::eventually;
use super::support::{Answer, Service, ask, event, logged};

const WRITER: &str = "writer-token-0123456789";
const READER: &str = "reader-token-0123456789";

/// A service whose tokens stand in a file.
struct Guarded {
    service: Service,
    tokens: Tokens,
    file: PathBuf,
    _dir: TempDir,
}

impl Guarded {
    async fn start() -> Self {
        let service = Service::start().await;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens");
        std::fs::write(&file, format!("billing write {WRITER}\nviewer read {READER}\n")).unwrap();
        let failures = service.api.metrics.http_reload_failures.with_label_values(&["tokens"]);
        Self { tokens: Tokens::load(&file, failures).unwrap(), service, file, _dir: dir }
    }

    async fn send(&self, routes: Routes, path: &str, authorization: &[&str], body: Option<String>) -> Answer {
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        for value in authorization {
            request = request.header("authorization", *value);
        }
        let router = routes.with_tokens(Some(self.tokens.clone())).into_router();
        ask(router, request.body(body.map_or(Body::empty(), Body::from)).unwrap()).await
    }

    async fn get(&self, path: &str, authorization: &[&str]) -> Answer {
        self.send(Routes::all(self.service.api.clone()), path, authorization, None).await
    }

    async fn decide(&self, token: &str, record: bool) -> Answer {
        let body = format!(r#"{{"event":{},"record":{record}}}"#, event("a", 0));
        let routes = Routes::all(self.service.api.clone());
        self.send(routes, "/v1/streams/clicks/decide", &[&format!("Bearer {token}")], Some(body)).await
    }

    fn refusals(&self, reason: &str) -> u64 {
        self.service.api.metrics.http_refusals.with_label_values(&[reason]).get()
    }

    /// Answered with 200 since the file was read again.
    async fn is_let_in(&self, token: &str) -> bool {
        self.get("/v1/streams", &[&format!("Bearer {token}")]).await.status == 200
    }
}

#[tokio::test]
async fn nothing_but_probes_and_the_description_is_answered_without_a_known_token() {
    let guarded = Guarded::start().await;
    let paths = ["/v1/streams", "/v1/streams/clicks", "/v1/streams/clicks/aggregates/visits/count", "/metrics"];
    for path in paths {
        let missing = guarded.get(path, &[]).await;
        assert_eq!(missing.problem(401), "token-missing", "{path}");
        assert_eq!(missing.header("www-authenticate"), "Bearer realm=\"ebb\"");
        let unknown = guarded.get(path, &["Bearer reader-token-0123456780"]).await;
        assert_eq!(unknown.problem(401), "token-unknown", "{path}");
        assert_eq!(unknown.header("www-authenticate"), "Bearer realm=\"ebb\", error=\"invalid_token\"");
        assert_eq!(guarded.get(path, &[&format!("Bearer {READER}")]).await.status, 200, "{path}");
    }
    assert_eq!(guarded.decide("", false).await.problem(401), "token-unknown");
    for path in ["/livez", "/readyz", "/healthz", "/openapi.json", "/docs", "/problems"] {
        assert_eq!(guarded.get(path, &[]).await.status, 200, "{path}");
    }
    assert_eq!((guarded.refusals("missing"), guarded.refusals("unknown")), (4, 5));
    let unauthorised = guarded.service.api.metrics.http_requests.with_label_values(&["/v1/streams", "401"]).get();
    assert_eq!(unauthorised, 2, "refusals are counted as requests, too");
}

#[tokio::test]
async fn a_token_that_may_only_read_does_not_record() {
    let guarded = Guarded::start().await;
    let refused = guarded.decide(READER, true).await;
    assert_eq!(refused.problem(403), "token-read-only");
    assert!(refused.header("www-authenticate").contains("insufficient_scope"));
    assert_eq!(guarded.refusals("scope"), 1);
    assert_eq!(guarded.decide(READER, false).await.json()["verdict"], "unique");
    assert_eq!(guarded.decide(READER, false).await.json()["verdict"], "unique", "nothing was recorded");
    assert_eq!(guarded.decide(WRITER, true).await.json()["verdict"], "unique");
    assert_eq!(guarded.decide(READER, false).await.json()["verdict"], "duplicate");
}

#[tokio::test]
async fn the_admin_port_needs_no_token_and_has_nothing_but_probes_and_metrics() {
    let guarded = Guarded::start().await;
    for path in ["/livez", "/readyz", "/metrics"] {
        let answer = guarded.send(Routes::admin(guarded.service.api.clone()), path, &[], None).await;
        assert_eq!(answer.status, 200, "{path}");
    }
    let admin = Routes::admin(guarded.service.api.clone());
    guarded.send(admin, "/v1/streams", &[&format!("Bearer {WRITER}")], None).await.problem(404);
    for path in ["/livez", "/metrics"] {
        let service = Routes::service(guarded.service.api.clone());
        guarded.send(service, path, &[&format!("Bearer {WRITER}")], None).await.problem(404);
    }
}

#[tokio::test]
async fn a_token_is_taken_only_in_the_form_of_one_bearer() {
    let guarded = Guarded::start().await;
    let bearer = format!("Bearer {READER}");
    for good in [bearer.clone(), format!("bEARER {READER}")] {
        assert_eq!(guarded.get("/v1/streams", &[&good]).await.status, 200, "{good}");
    }
    let basic = format!("Basic {READER}");
    let bad: [&[&str]; 7] =
        [&[&basic], &[READER], &["Bearer"], &[""], &["Bearer "], &[&bearer, &bearer], &[&bearer, "Bearer x"]];
    for bad in bad {
        assert_eq!(guarded.get("/v1/streams", bad).await.status, 401, "{bad:?}");
    }
    for near in [&bearer[..bearer.len() - 1], &format!("{bearer}0"), &format!("Bearer  {READER}")] {
        assert_eq!(guarded.get("/v1/streams", &[near]).await.problem(401), "token-unknown", "{near}");
    }
}

#[tokio::test]
async fn tokens_are_exchanged_without_a_restart_and_a_bad_file_changes_nothing() {
    let guarded = Guarded::start().await;
    let failures = guarded.service.api.metrics.http_reload_failures.with_label_values(&["tokens"]);
    std::fs::write(&guarded.file, "viewer read hunter2\n").unwrap();
    eventually("the bad file was noticed", || failures.get() == 1).await;
    assert!(guarded.is_let_in(READER).await);
    assert!(!logged().contains("hunter2"));
    let next = "another-token-0123456789";
    std::fs::write(&guarded.file, format!("viewer read {next}\n")).unwrap();
    let started = std::time::Instant::now();
    while !guarded.is_let_in(next).await {
        assert!(started.elapsed() < super::server::FOR_EVER, "the file is not read again");
        tokio::task::yield_now().await;
    }
    assert!(!guarded.is_let_in(READER).await, "what is no longer on the list is no longer let in");
    std::fs::remove_file(&guarded.file).unwrap();
    eventually("the lost file was noticed", || failures.get() == 2).await;
    assert!(guarded.is_let_in(next).await);
}

#[tokio::test]
async fn a_caller_is_logged_by_name_and_its_token_never() {
    let guarded = Guarded::start().await;
    guarded.decide(WRITER, true).await.json();
    guarded.decide(READER, true).await.problem(403);
    guarded.get("/v1/streams", &["Bearer unknown-token-0123456789"]).await.problem(401);
    let logged = logged();
    assert!(logged.contains("caller=\"billing\""), "the name is told");
    for secret in [WRITER, READER, "unknown-token-0123456789"] {
        assert!(!logged.contains(secret), "{secret}");
        assert!(!guarded.service.api.metrics.text().contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn who_may_only_read_takes_no_checkpoints_but_looks_at_them() {
    let guarded = Guarded::start().await;
    let routes = || Routes::all(guarded.service.api.clone());
    let take = async |token: &str| {
        guarded.send(routes(), "/v1/checkpoint", &[&format!("Bearer {token}")], Some(String::new())).await
    };
    assert_eq!(take(READER).await.problem(403), "token-read-only");
    assert_eq!(take(WRITER).await.status, 200);
    assert_eq!(guarded.get("/v1/checkpoint", &[&format!("Bearer {READER}")]).await.status, 200);
}
