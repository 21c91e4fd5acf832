//! Streams and probes.

use axum::body::Body;
use axum::http::Request;
use ebb::http::Routes;
use serde_json::json;

use super::support::{Service, ask, event};

#[tokio::test]
async fn streams_are_listed_with_what_they_remember() {
    let service = Service::start().await;
    let listed = service.get("/v1/streams").await.json();
    let stream = |name: &str, window: &str| {
        json!({
            "name": name,
            "partitions": 2,
            "event": {"item": ["ip"], "key": "campaign", "time": "ts"},
            "dedup": {"window": window, "seen": "first"},
            "aggregates": [
                {"name": "visits", "method": "robust", "epsilon": 0.1, "horizon": "10m", "keys": 8},
                {"name": "moments", "method": "forward", "epsilon": 0.1, "horizon": "10m"},
            ],
        })
    };
    let (mut clicks, counted) = (stream("clicks", "10m"), stream("counted", "100 events"));
    clicks["frequency"] = json!("forward");
    assert_eq!(listed, json!({"streams": [clicks, counted]}));
}

#[tokio::test]
async fn a_stream_shows_its_shards_in_figures() {
    let service = Service::start().await;
    let events: Vec<String> = (0..100).map(|i| event(&format!("10.0.0.{}", i % 80), 0)).collect();
    let body = format!(r#"{{"events":[{}],"record":true}}"#, events.join(","));
    service.decide("clicks", &body).await.json();
    let future = format!(r#"{{"event":{},"record":true}}"#, event("a", 10 * 365 * 86_400));
    service.decide("clicks", &future).await.json();
    let shown = service.get("/v1/streams/clicks").await.json();
    assert_eq!(shown["name"], "clicks");
    let shards = shown["shards"].as_array().unwrap();
    assert_eq!(shards.len(), 2);
    let sum = |part: &dyn Fn(&serde_json::Value) -> u64| shards.iter().map(part).sum::<u64>();
    assert_eq!(sum(&|shard| shard["events"]["unique"].as_u64().unwrap()), 80);
    assert_eq!(sum(&|shard| shard["events"]["duplicate"].as_u64().unwrap()), 20);
    assert_eq!(sum(&|shard| shard["events"]["rejected"]["future"].as_u64().unwrap()), 1);
    assert_eq!(sum(&|shard| shard["as_of"]["next"].as_u64().unwrap()), 101);
    for (partition, shard) in shards.iter().enumerate() {
        assert_eq!(shard["as_of"]["partition"], partition);
        assert!(shard["fill"].as_f64().unwrap() > 0.0 && shard["false_duplicate_rate"].is_f64(), "{shard}");
        assert!(shard["memory_bytes"].as_u64().unwrap() >= 64 << 10, "{shard}");
        assert_eq!(shard.get("checkpoint"), None, "none was taken");
        assert_eq!(shard["lag"], 0);
    }
}

#[tokio::test]
async fn metrics_are_in_the_text_format() {
    let service = Service::start().await;
    let metrics = service.get("/metrics").await;
    assert_eq!(metrics.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    assert!(metrics.text.contains("# TYPE ebb_ready gauge"), "{}", metrics.text);
}

#[tokio::test]
async fn the_admin_routes_stand_apart_from_the_service() {
    let service = Service::start().await;
    let admin = || Routes::admin(service.api.clone()).into_router();
    let public = || Routes::service(service.api.clone()).into_router();
    let get = |path: &str| Request::get(path).body(Body::empty()).unwrap();
    for path in ["/livez", "/readyz", "/healthz", "/metrics"] {
        assert_eq!(ask(admin(), get(path)).await.status, 200, "{path}");
        assert_eq!(ask(public(), get(path)).await.problem(404), "unknown-path");
    }
    ask(public(), get("/v1/streams")).await.json();
    assert_eq!(ask(admin(), get("/v1/streams")).await.problem(404), "unknown-path");
}
