//! Status of streams, probes and metrics.

use axum::body::Body;
use axum::http::Request;
use ebb::http::Routes;
use ebb_core::{ClassScale, FilterSpec, Reason, StableViewSpec};
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::stable::StableSpec;
use ebb_sketch::filter::structure::stable::importance::{ImportanceRule, ImportanceScale};
use serde_json::json;

use super::support::{Service, event, send_request};

#[tokio::test]
async fn streams_are_listed_with_their_configuration() {
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
                {"name": "addresses", "method": "robust", "epsilon": 0.1, "horizon": "10m", "keys": 8},
            ],
        })
    };
    let (mut clicks, counted) = (stream("clicks", "10m"), stream("counted", "100 events"));
    clicks["frequency"] = json!("forward");
    assert_eq!(listed, json!({"streams": [clicks, counted]}));
}

#[tokio::test]
async fn stream_status_includes_its_shards() {
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
        assert_eq!(shard.get("checkpoint"), None, "none was stored");
        assert_eq!(shard["lag"], 0);
    }
}

#[tokio::test]
async fn filter_that_forgets_at_random_reports_its_forgetting_instead_of_a_window() {
    let filter = StableSpec::new(CellLayout::Lines(16), 4, 20, 7, ImportanceRule::MultiClass).unwrap();
    let scale = ClassScale::Linear(ImportanceScale::new(7.0, 7).unwrap());
    let view = StableViewSpec { window_events: Some(200), ..StableViewSpec::new(filter, scale) };
    let service = Service::with_filter(FilterSpec::Stable(view)).await;
    let body = format!(r#"{{"event":{},"record":true}}"#, event("10.0.0.1", 0));
    service.decide("clicks", &body).await.json();
    let shown = service.get("/v1/streams/clicks").await.json();
    assert_eq!(shown["dedup"], json!({"seen": "last"}), "it has no window, and every event renews an item");
    for shard in shown["shards"].as_array().unwrap() {
        let forgetting = &shard["forgetting"];
        assert!(forgetting["half_forgotten_events"].as_u64().unwrap() > 10, "{shard}");
        assert!((0.0..=1.0).contains(&forgetting["missed_share"].as_f64().unwrap()), "{shard}");
        let classes = forgetting["classes"].as_array().unwrap();
        let shares: f64 = classes.iter().map(|class| class["share"].as_f64().unwrap()).sum();
        assert!((shares - 1.0).abs() < 1e-9 && classes.last().unwrap()["class"] == "7 of 7", "{shard}");
    }
    let question = format!(r#"{{"event":{},"penalty":{{"false_duplicate":1,"missed_duplicate":1}}}}"#, event("a", 0));
    let refused = service.decide("clicks", &question).await;
    assert!(refused.text.contains("computes no posterior"), "{}", refused.text);
    assert_eq!(refused.problem(422), "invalid-question");
    let timing = service.get("/v1/streams/counted").await.json();
    assert_eq!(timing["shards"][0].get("forgetting"), None);
}

/// Events are rejected at the edge (`schema`, `parse`) and by the shards (`future`): the status and the metrics count both.
#[tokio::test]
async fn stream_status_and_metrics_have_the_same_counts() {
    let service = Service::start().await;
    let future = event("future", 10 * 365 * 86_400);
    let unreadable = r#"17,{"ip":"a"},{"ip":1e999,"campaign":"c","ts":1}"#;
    let events = [event("a", 0), event("a", 1), event("b", 1), unreadable.into(), future].join(",");
    service.decide("clicks", &format!(r#"{{"events":[{events}],"record":true}}"#)).await.json();

    let shown = service.get("/v1/streams/clicks").await.json();
    let metrics = &service.api.metrics;
    let mut rejected = 0;
    for reason in Reason::ALL.map(Reason::name) {
        let in_metrics = metrics.rejected.with_label_values(&["clicks", reason]).get();
        assert_eq!(shown["events"]["rejected"][reason], in_metrics, "{reason}");
        rejected += in_metrics;
    }
    for verdict in ["unique", "duplicate", "late"] {
        let in_metrics = metrics.events.with_label_values(&["clicks", verdict]).get();
        assert_eq!(shown["events"][verdict], in_metrics, "{verdict}");
    }
    assert_eq!(metrics.events.with_label_values(&["clicks", "rejected"]).get(), rejected);
    let expected =
        json!({"schema": 2, "parse": 1, "future": 1, "empty": 0, "encoding": 0, "limits": 0, "duplicate_key": 0});
    assert_eq!(shown["events"]["rejected"], expected);
    assert_eq!((&shown["events"]["unique"], &shown["events"]["duplicate"]), (&json!(2), &json!(1)));
}

/// The counts of a shard are part of its state, which replaying the log must reproduce.
#[tokio::test]
async fn shard_counts_exclude_edge_rejections() {
    let service = Service::start().await;
    let body = format!(r#"{{"events":[17,{}],"record":true}}"#, event("a", 0));
    service.decide("clicks", &body).await.json();
    let shown = service.get("/v1/streams/clicks").await.json();
    for shard in shown["shards"].as_array().unwrap() {
        assert_eq!(shard["events"]["rejected"]["schema"], 0, "{shard}");
    }
}

#[tokio::test]
async fn metrics_are_in_the_prometheus_text_format() {
    let service = Service::start().await;
    let metrics = service.get("/metrics").await;
    assert_eq!(metrics.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    assert!(metrics.text.contains("# TYPE ebb_ready gauge"), "{}", metrics.text);
}

#[tokio::test]
async fn admin_routes_are_separate_from_the_service() {
    let service = Service::start().await;
    let admin = || Routes::admin(service.api.clone()).into_router();
    let public = || Routes::service(service.api.clone()).into_router();
    let get = |path: &str| Request::get(path).body(Body::empty()).unwrap();
    for path in ["/livez", "/readyz", "/healthz", "/metrics"] {
        assert_eq!(send_request(admin(), get(path)).await.status, 200, "{path}");
        assert_eq!(send_request(public(), get(path)).await.problem(404), "unknown-path");
    }
    send_request(public(), get("/v1/streams")).await.json();
    assert_eq!(send_request(admin(), get("/v1/streams")).await.problem(404), "unknown-path");
}
