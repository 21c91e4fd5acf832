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
        ("visit/count", 404, "unknown-aggregate", "visits, moments, addresses"),
        ("visits/median", 404, "unknown-path", "sum, count, mean"),
        ("visits/count?key=c2", 404, "unknown-key", "other"),
        ("moments/count?key=c1", 409, "unanswerable", "keys: 1000"),
        ("visits/mean", 409, "unanswerable", "of: value"),
        ("visits/count?decay=window:11m", 409, "unanswerable", "600000"),
        ("moments/count?decay=window:1m", 409, "unanswerable", "rate"),
        ("visits/count?decay=gauss", 400, "invalid-query", "exponential:half_life=10m"),
        ("visits/distinct", 409, "unanswerable", "distinct: FIELD"),
        ("addresses/count", 409, "unanswerable", "ask for distinct"),
        ("addresses/distinct?as_of=0", 409, "unanswerable", "before the newest event"),
        ("moments/count?as_of=0", 409, "unanswerable", "method: robust or cascade"),
        ("moments/count?last=5", 409, "unanswerable", "robust or cascade"),
        ("visits/count?last=0", 400, "invalid-query", "such as 1000"),
        ("visits/count?last=5&decay=window:1m", 400, "invalid-query", "leave out decay"),
        ("visits/count?now=soon", 400, "invalid-query", "2026-11-18T05:00:00Z"),
        ("visits/count?as_of=99999999999999999999", 400, "invalid-query", "milliseconds since 1970"),
        ("visits/count?now=1&as_of=1", 400, "invalid-query", "one of them"),
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
async fn different_values_are_counted_in_total_by_key_and_for_any_window() {
    let service = service_with_visits().await;
    let whole = get_statistic(&service, "addresses/distinct").await;
    assert_eq!(
        (&whole["value"], &whole["guarantee"], &whole["degraded"]),
        (&json!(20.0), &json!({"kind": "exact"}), &json!(false))
    );
    assert_eq!(get_statistic(&service, "addresses/distinct?key=c1").await["value"], 20.0);
    // Seconds 50 to 59: address 0 in every third, and one address each in the others.
    assert_eq!(get_statistic(&service, "addresses/distinct?decay=window:10s").await["value"], 8.0);
}

#[tokio::test]
async fn newest_events_are_a_window_that_the_answer_names() {
    let service = service_with_visits().await;
    let last = get_statistic(&service, "visits/count?last=7").await;
    assert_eq!((&last["decay"], &last["value"]), (&json!("window:6s1ms"), &json!(7.0)));
    assert_eq!(last["window_events"]["value"], 7.0);
    let top = get_statistic(&service, "visits/top?phi=0.3&last=6").await;
    assert_eq!(top["items"][0]["name"], "10.0.0.0");
}

#[tokio::test]
async fn idle_stream_decays_and_the_past_leaves_out_later_events() {
    let service = service_with_visits().await;
    let value = async |query: String| get_statistic(&service, &query).await["value"].as_f64().unwrap();
    let newest = NOW + 59_000;
    for (aggregate, statistic) in [("visits", "count"), ("addresses", "distinct")] {
        let path = format!("{aggregate}/{statistic}?decay=window:30s");
        let (now, later, gone) = (newest, newest + 20_000, newest + 30_000);
        let idle = [value(path.clone()).await, value(format!("{path}&now={now}")).await];
        assert_eq!(idle[0], idle[1]);
        let later = value(format!("{path}&now={later}")).await;
        assert!(later < idle[0] && later > 0.0, "{aggregate}: {later} of {idle:?}");
        assert_eq!(value(format!("{path}&now={gone}")).await, 0.0);
        // An earlier time has no effect: the newest event counts.
        assert_eq!(value(format!("{path}&now=1970-01-01T00:00:00Z")).await, idle[0]);
    }
    let halved = get_statistic(&service, &format!("moments/count?now={}", newest + 3_600_000)).await;
    let whole = value("moments/count".into()).await;
    assert!((halved["value"].as_f64().unwrap() - whole / 2.0).abs() < 1e-9 && halved["time_ms"] == newest + 3_600_000);
    assert_eq!(value(format!("visits/count?as_of={}", NOW + 9_500)).await, 10.0);
    assert_eq!(value(format!("visits/count?as_of={}&decay=window:5s", NOW + 9_500)).await, 5.0);
    assert_eq!(value(format!("visits/count?as_of={}", NOW - 1)).await, 0.0);
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
