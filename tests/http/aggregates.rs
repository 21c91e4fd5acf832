//! Statistics of aggregates: results, bounds and errors.

use serde_json::{Value, json};

use super::support::{NOW, Service, event};

/// 60 visits in 60 seconds from 20 addresses, a third of them from the first.
async fn service_with_visits() -> Service {
    let service = Service::start().await;
    let events: Vec<String> =
        (0..60).map(|i| event(&format!("10.0.0.{}", if i % 3 == 0 { 0 } else { i % 20 }), i)).collect();
    let body = format!(r#"{{"events":[{}],"record":true}}"#, events.join(","));
    service.decide("clicks", &body).await.json();
    service
}

async fn get_statistic(service: &Service, path: &str) -> Value {
    service.get(&format!("/v1/streams/clicks/aggregates/{path}")).await.json()
}

#[tokio::test]
async fn count_is_available_in_total_by_key_and_for_any_window() {
    let service = service_with_visits().await;
    let whole = get_statistic(&service, "visits/count").await;
    assert_eq!((&whole["value"], &whole["lower"], &whole["upper"]), (&json!(60.0), &json!(60.0), &json!(60.0)));
    assert_eq!(whole["guarantee"], json!({"kind": "exact"}));
    assert_eq!(whole["evidence"]["level"], 0);
    assert_eq!((&whole["decay"], &whole["incomplete"]), (&json!("window:10m"), &json!(false)));
    let as_of = whole["as_of"].as_array().unwrap();
    assert_eq!(as_of.len(), 2, "one entry per partition");
    assert_eq!(as_of.iter().map(|one| one["next"].as_u64().unwrap()).sum::<u64>(), 60);
    assert_eq!(get_statistic(&service, "visits/sum?decay=window:10s").await["value"], 10.0);
    assert_eq!(get_statistic(&service, "visits/count?key=c1").await["value"], 60.0);
    assert_eq!(get_statistic(&service, "visits/count?part=other").await["value"], 0.0);
}

#[tokio::test]
async fn top_items_have_names_and_shares() {
    let service = service_with_visits().await;
    let top = get_statistic(&service, "visits/top?phi=0.25&mode=no-false-positives").await;
    assert_eq!(top["items"][0]["name"], "10.0.0.0");
    assert_eq!(top["items"].as_array().unwrap().len(), 1);
    let share = top["items"][0]["share"].as_f64().unwrap();
    assert!((0.33..0.40).contains(&share), "{top}");
    assert_eq!((&top["mode"], &top["total"]["value"]), (&json!("no-false-positives"), &json!(60.0)));
}

#[tokio::test]
async fn values_have_the_units_of_the_events() {
    let service = service_with_visits().await;
    let close = |found: &Value, truth: i64| {
        assert!((found.as_f64().unwrap() - truth as f64).abs() < 5_000.0, "{found} for {truth}");
    };
    let unique = get_statistic(&service, "moments/count").await["value"].as_f64().unwrap();
    assert!((19.0..=20.0).contains(&unique), "{unique}");
    let mean = get_statistic(&service, "moments/mean").await;
    assert!(mean["value"].as_f64().unwrap() > NOW as f64, "{mean}");
    let quantiles = get_statistic(&service, "moments/quantiles?phi=0.01,1").await;
    close(&quantiles["quantiles"][0]["value"], NOW);
    assert!(quantiles["quantiles"][1]["value"].as_f64() > quantiles["quantiles"][0]["value"].as_f64());
    let rank = get_statistic(&service, &format!("moments/rank?value={}", NOW + 60_000)).await;
    assert_eq!(rank["value"], 1.0);
    let share = get_statistic(&service, &format!("moments/share?where=value%20%3E%20{}", NOW + 60_000)).await;
    assert_eq!(share["value"], 0.0);
}

#[tokio::test]
async fn invalid_request_is_refused_with_a_remedy() {
    let service = service_with_visits().await;
    for (path, status, problem, expected_detail) in [
        ("visit/count", 404, "unknown-aggregate", "visits, moments"),
        ("visits/median", 404, "unknown-path", "sum, count, mean"),
        ("visits/count?key=c2", 404, "unknown-key", "other"),
        ("moments/count?key=c1", 409, "unanswerable", "keys: 1000"),
        ("visits/mean", 409, "unanswerable", "of: value"),
        ("visits/count?decay=window:11m", 409, "unanswerable", "600000"),
        ("moments/count?decay=window:1m", 409, "unanswerable", "rate"),
        ("visits/count?decay=gauss", 400, "invalid-query", "exponential:half_life=10m"),
        ("visits/count?phi=0.5", 400, "invalid-query", "leave it out"),
        ("visits/count?window=1h", 400, "invalid-query", "unknown field"),
        ("visits/count?part=all", 400, "invalid-query", "other"),
        ("visits/count?key=c1&part=other", 409, "unanswerable", "not both"),
        ("visits/top", 400, "invalid-query", "phi=0.5"),
        ("visits/top?phi=0.1,0.2", 400, "invalid-query", "one phi"),
        ("visits/top?phi=0.2&mode=all", 400, "invalid-query", "no-false-negatives"),
        ("moments/quantiles?phi=half", 400, "invalid-query", "0.5,0.99"),
        ("moments/quantiles?phi=2", 400, "invalid-query", "from 0 to 1"),
        ("moments/quantiles?phi=inf", 400, "invalid-query", "from 0 to 1"),
        ("moments/rank?value=inf", 400, "invalid-query", "a number"),
        ("visits/count?at_least=1:", 400, "invalid-query", "partition:offset"),
        ("visits/count?at_least=7:1", 404, "unknown-partition", "2 partitions"),
        ("visits/count?partition=2", 404, "unknown-partition", "2 partitions"),
        ("moments/rank", 400, "invalid-query", "value=10"),
        ("moments/share?where=price", 400, "invalid-query", "value or weight"),
        ("moments/share?where=weight=1", 409, "unanswerable", "weights are not kept"),
    ] {
        let answer = service.get(&format!("/v1/streams/clicks/aggregates/{path}")).await;
        assert_eq!(answer.problem(status), problem, "{path}: {}", answer.text);
        assert!(answer.detail().contains(expected_detail), "{path}: {}", answer.detail());
    }
    let other = service.get("/v1/streams/nope/aggregates/visits/count").await;
    assert_eq!(other.problem(404), "unknown-stream");
}

#[tokio::test]
async fn stream_status_includes_its_aggregates() {
    let service = service_with_visits().await;
    let shown = service.get("/v1/streams/clicks").await.json();
    let visits: Vec<&Value> = shown["shards"].as_array().unwrap().iter().map(|shard| &shard["aggregates"][0]).collect();
    assert_eq!(visits.iter().map(|one| one["events"].as_u64().unwrap()).sum::<u64>(), 60);
    for one in visits {
        assert_eq!((&one["name"], &one["refused"]["late"]), (&json!("visits"), &json!(0)));
        assert_eq!(one["keys"]["own"], 1);
    }
}
