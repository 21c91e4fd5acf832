//! Decayed counts of items.

use serde_json::{Value, json};

use super::support::{NOW, Service, event};

async fn service_with_item(times: usize) -> Service {
    let service = Service::start().await;
    let events = vec![event("a", 0); times].join(",");
    service.decide("clicks", &format!(r#"{{"events":[{events}],"record":true}}"#)).await.json();
    service
}

fn item(ip: &str) -> String {
    format!("%7B%22ip%22%3A%22{ip}%22%2C%22campaign%22%3A%22c1%22%7D")
}

async fn get_frequency(service: &Service, query: &str) -> Value {
    service.get(&format!("/v1/streams/clicks/frequency?{query}")).await.json()
}

fn is_close(value: &Value, truth: f64) -> bool {
    value.as_f64().is_some_and(|count| count >= truth - 1e-9 && count <= truth * 1.001)
}

#[tokio::test]
async fn item_is_counted_with_decay() {
    let service = service_with_item(3).await;
    let found = get_frequency(&service, &format!("item={}", item("a"))).await;
    assert!(is_close(&found["count"], 3.0), "{found}");
    assert_eq!(found["lower_bound"], false);
    // The epoch of normalised counts is the half-life, so that λ is one half.
    assert!(is_close(&found["normalised"], 1.5), "{found}");
    assert_eq!((&found["as_of"][0]["next"], &found["as_of"][0]["time_ms"]), (&json!(3), &json!(NOW)), "{found}");
    assert_eq!(get_frequency(&service, &format!("item={}", item("b"))).await["count"], 0.0);
    // Advances both shards by an hour, the half-life.
    let later: Vec<String> = (0..20).map(|i| event(&format!("later{i}"), 3600)).collect();
    service.decide("clicks", &format!(r#"{{"events":[{}],"record":true}}"#, later.join(","))).await.json();
    let faded = get_frequency(&service, &format!("item={}", item("a"))).await;
    assert!(is_close(&faded["count"], 1.5), "{faded}");
    let decided = service.decide("clicks", &format!(r#"{{"event":{}}}"#, event("a", 3600))).await.json();
    assert!(is_close(&decided["frequency"]["normalised"], 0.75), "{decided}");
}

#[tokio::test]
async fn batch_is_counted_in_order_and_a_rejected_item_does_not_affect_it() {
    let service = service_with_item(2).await;
    let body = r#"{"items":[{"ip":"a","campaign":"c1"},17,{"ip":"b","campaign":"c1"}]}"#;
    let found = service.post("/v1/streams/clicks/frequency", body).await.json();
    let counts = &found["frequencies"];
    assert!(is_close(&counts[0]["count"], 2.0) && is_close(&counts[0]["normalised"], 1.0), "{found}");
    assert_eq!((&counts[1]["reason"], counts[1].get("count")), (&json!("schema"), None));
    assert_eq!(counts[2]["count"], 0.0);
    assert!(found["as_of"].as_array().is_some_and(|as_of| !as_of.is_empty()), "{found}");
    let none = service.post("/v1/streams/clicks/frequency", r#"{"items":[]}"#).await.json();
    assert_eq!(none, json!({"frequencies": [], "as_of": []}));
}

#[tokio::test]
async fn at_least_waits_for_a_recorded_offset() {
    let limits = ebb::http::HttpLimits { request_timeout: std::time::Duration::from_millis(300), ..Default::default() };
    let service = Service::with_limits(limits).await;
    let recorded = service.decide("clicks", &format!(r#"{{"event":{},"record":true}}"#, event("a", 0))).await.json();
    let partition = recorded["as_of"]["partition"].as_u64().unwrap();
    let own = get_frequency(&service, &format!("item={}&at_least={partition}:0", item("a"))).await;
    assert!(is_close(&own["count"], 1.0), "{own}");
    for at_least in [format!("{partition}:1"), "5".into()] {
        let path = format!("/v1/streams/clicks/frequency?item={}&at_least={at_least}", item("a"));
        assert_eq!(service.get(&path).await.problem(409), "not-reached", "{path}");
        let path = format!("/v1/streams/clicks/aggregates/visits/count?at_least={at_least}");
        assert_eq!(service.get(&path).await.problem(409), "not-reached", "{path}");
    }
    let path = format!("/v1/streams/clicks/aggregates/visits/count?at_least={partition}:0");
    assert_eq!(service.get(&path).await.json()["value"], 1.0);
}

#[tokio::test]
async fn invalid_request_is_refused_with_a_remedy() {
    let service = service_with_item(1).await;
    for (path, status, problem, expected_detail) in [
        ("clicks/frequency", 400, "invalid-query", "item"),
        ("clicks/frequency?item=1&at_least=x", 400, "invalid-query", "partition:offset"),
        ("clicks/frequency?item=1&partition=-1", 400, "invalid-query", "whole number"),
        ("clicks/frequency?item=1&partition=2", 404, "unknown-partition", "2 partitions"),
        ("clicks/frequency?item=1&window=1h", 400, "invalid-query", "unknown field"),
        ("counted/frequency?item=1", 409, "unanswerable", "half_life"),
        ("nope/frequency?item=1", 404, "unknown-stream", "clicks"),
    ] {
        let answer = service.get(&format!("/v1/streams/{path}")).await;
        assert_eq!(answer.problem(status), problem, "{path}: {}", answer.text);
        assert!(answer.detail().contains(expected_detail), "{path}: {}", answer.detail());
    }
    let unread = get_frequency(&service, "item=%7B").await;
    assert_eq!(unread["reason"], "parse", "an unreadable item is answered with its reason");
}
