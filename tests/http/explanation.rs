//! Explanations of decisions.

use serde_json::{Value, json};

use super::support::{Service, event};

async fn decide_with_explanation(service: &Service, stream: &str, ip: &str, seconds: i64, rest: &str) -> Value {
    let body = format!(r#"{{"event":{},"explain":true{rest}}}"#, event(ip, seconds));
    service.decide(stream, &body).await.json()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[tokio::test]
async fn age_probabilities_sum_to_one_and_the_true_age_is_most_likely() {
    let service = Service::start().await;
    service.decide("clicks", &format!(r#"{{"event":{},"record":true}}"#, event("a", 0))).await.json();
    // Advances the clocks of both shards: the item is now 300 seconds old.
    let later: Vec<String> = (0..20).map(|i| event(&format!("later{i}"), 300)).collect();
    service.decide("clicks", &format!(r#"{{"events":[{}],"record":true}}"#, later.join(","))).await.json();
    let rest = r#","prior":0.01,"penalty":{"false_duplicate":1,"missed_duplicate":0.5}"#;
    let decision = decide_with_explanation(&service, "clicks", "a", 300, rest).await;
    let explanation = &decision["explanation"];
    let blocks = explanation["blocks"].as_array().unwrap();
    let known: f64 = blocks.iter().map(|block| number(&block["probability"])).sum();
    assert!((known + number(&explanation["older_or_never"]) - 1.0).abs() < 1e-9, "{explanation}");
    for pair in blocks.windows(2) {
        assert_eq!(pair[0]["below_ms"], pair[1]["least_ms"], "age blocks are adjacent: {explanation}");
    }
    let (least, below) =
        (number(&explanation["likely_age"]["least_ms"]), number(&explanation["likely_age"]["below_ms"]));
    assert!((least..below).contains(&300_000.0), "{explanation}");
    assert_eq!(explanation["posterior"], decision["posterior"], "the verdict is based on the same posterior");
    assert_eq!(explanation["expected_penalty"], decision["expected_penalty"]);
    assert!(number(&explanation["posterior"]["seen"]) > 0.99 && number(&explanation["never"]) < 0.01, "{explanation}");
}

#[tokio::test]
async fn unseen_item_has_no_likely_age() {
    let service = Service::start().await;
    service.decide("clicks", &format!(r#"{{"event":{},"record":true}}"#, event("a", 0))).await.json();
    let decision = decide_with_explanation(&service, "clicks", "unseen", 1, r#","prior":0.01"#).await;
    assert_eq!(decision["verdict"], "unique");
    let explanation = &decision["explanation"];
    assert_eq!((explanation.get("likely_age"), explanation.get("expected_penalty")), (None, None), "{explanation}");
    assert_eq!(explanation["posterior"], json!({"seen": 0.0, "unseen": 1.0}));
}

#[tokio::test]
async fn count_window_explains_ages_in_events() {
    let service = Service::start().await;
    service.decide("counted", &format!(r#"{{"event":{},"record":true}}"#, event("a", 0))).await.json();
    let decision = decide_with_explanation(&service, "counted", "a", 0, r#","prior":0.01"#).await;
    assert!(decision["explanation"]["likely_age"]["below_events"].is_u64(), "{decision}");
    assert!(decision["explanation"]["expected_age"]["events"].is_f64(), "{decision}");
}

#[tokio::test]
async fn explanation_is_optional_and_limits_the_batch_size() {
    let service = Service::start().await;
    let decision = service.decide("clicks", &format!(r#"{{"event":{}}}"#, event("a", 0))).await.json();
    assert_eq!(decision.get("explanation"), None);
    let batch =
        |count| format!(r#"{{"explain":true,"events":[{}]}}"#, vec![r#"{"ip":1,"campaign":2}"#; count].join(","));
    let decision = service.decide("clicks", &batch(ebb::http::MAX_EXPLAINED_EVENTS)).await.json();
    assert!(decision["decisions"][999]["explanation"].is_object());
    let refused = service.decide("clicks", &batch(ebb::http::MAX_EXPLAINED_EVENTS + 1)).await;
    assert_eq!(refused.problem(422), "batch-too-large");
}
