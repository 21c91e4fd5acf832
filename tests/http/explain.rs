//! What is known about an item's last sighting.

use serde_json::{Value, json};

use super::support::{Service, event};

async fn explained(service: &Service, stream: &str, ip: &str, seconds: i64, rest: &str) -> Value {
    let body = format!(r#"{{"event":{},"explain":true{rest}}}"#, event(ip, seconds));
    service.decide(stream, &body).await.json()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[tokio::test]
async fn the_chances_of_all_ages_make_one_and_the_true_age_is_the_likeliest() {
    let service = Service::start().await;
    service.decide("clicks", &format!(r#"{{"event":{},"record":true}}"#, event("a", 0))).await.json();
    // Moves the clocks of both shards: the item is now 300 seconds old.
    let later: Vec<String> = (0..20).map(|i| event(&format!("later{i}"), 300)).collect();
    service.decide("clicks", &format!(r#"{{"events":[{}],"record":true}}"#, later.join(","))).await.json();
    let rest = r#","prior":0.01,"penalty":{"false_duplicate":1,"missed_duplicate":0.5}"#;
    let asked = explained(&service, "clicks", "a", 300, rest).await;
    let told = &asked["explanation"];
    let blocks = told["blocks"].as_array().unwrap();
    let known: f64 = blocks.iter().map(|block| number(&block["probability"])).sum();
    assert!((known + number(&told["older_or_never"]) - 1.0).abs() < 1e-9, "{told}");
    for pair in blocks.windows(2) {
        assert_eq!(pair[0]["below_ms"], pair[1]["least_ms"], "ages follow each other: {told}");
    }
    let (least, below) = (number(&told["likely_age"]["least_ms"]), number(&told["likely_age"]["below_ms"]));
    assert!((least..below).contains(&300_000.0), "{told}");
    assert_eq!(told["posterior"], asked["posterior"], "an answer by the posterior rests on the same belief");
    assert_eq!(told["expected_penalty"], asked["expected_penalty"]);
    assert!(number(&told["posterior"]["seen"]) > 0.99 && number(&told["never"]) < 0.01, "{told}");
}

#[tokio::test]
async fn what_was_never_seen_has_no_likely_age() {
    let service = Service::start().await;
    service.decide("clicks", &format!(r#"{{"event":{},"record":true}}"#, event("a", 0))).await.json();
    let asked = explained(&service, "clicks", "unseen", 1, r#","prior":0.01"#).await;
    assert_eq!(asked["verdict"], "unique");
    let told = &asked["explanation"];
    assert_eq!((told.get("likely_age"), told.get("expected_penalty")), (None, None), "{told}");
    assert_eq!(told["posterior"], json!({"seen": 0.0, "unseen": 1.0}));
}

#[tokio::test]
async fn a_stream_that_counts_events_tells_ages_in_events() {
    let service = Service::start().await;
    service.decide("counted", &format!(r#"{{"event":{},"record":true}}"#, event("a", 0))).await.json();
    let asked = explained(&service, "counted", "a", 0, r#","prior":0.01"#).await;
    assert!(asked["explanation"]["likely_age"]["below_events"].is_u64(), "{asked}");
    assert!(asked["explanation"]["expected_age"]["events"].is_f64(), "{asked}");
}

#[tokio::test]
async fn only_who_asks_for_an_explanation_gets_one_and_only_for_so_many() {
    let service = Service::start().await;
    let asked = service.decide("clicks", &format!(r#"{{"event":{}}}"#, event("a", 0))).await.json();
    assert_eq!(asked.get("explanation"), None);
    let batch =
        |count| format!(r#"{{"explain":true,"events":[{}]}}"#, vec![r#"{"ip":1,"campaign":2}"#; count].join(","));
    let asked = service.decide("clicks", &batch(ebb::http::MAX_EXPLAINED_EVENTS)).await.json();
    assert!(asked["decisions"][999]["explanation"].is_object());
    let refused = service.decide("clicks", &batch(ebb::http::MAX_EXPLAINED_EVENTS + 1)).await;
    assert_eq!(refused.problem(422), "batch-too-large");
}
