//! Decisions through HTTP.

use serde_json::{Value, json};

use super::support::{NOW, Service, event};

fn question(event: &str, rest: &str) -> String {
    format!(r#"{{"event":{event}{rest}}}"#)
}

#[tokio::test]
async fn what_was_recorded_is_a_duplicate_until_the_window_is_over() {
    let service = Service::start().await;
    let asked = service.decide("clicks", &question(&event("10.0.0.1", 0), "")).await.json();
    assert_eq!((&asked["verdict"], &asked["as_of"]["next"]), (&json!("unique"), &json!(0)), "{asked}");
    assert_eq!(asked.get("offset"), None, "a question records nothing");

    let recorded = service.decide("clicks", &question(&event("10.0.0.1", 0), r#","record":true"#)).await.json();
    assert_eq!(recorded["verdict"], "unique");
    assert_eq!(recorded["offset"], 0);
    assert_eq!(recorded["as_of"]["next"], 1);
    assert_eq!(recorded["as_of"]["time_ms"], NOW);

    let asked = service.decide("clicks", &question(&event("10.0.0.1", 599), "")).await.json();
    assert_eq!(asked["verdict"], "duplicate");
    let age = &asked["age"];
    assert!(age["least_ms"].as_u64().unwrap() < age["below_ms"].as_u64().unwrap(), "{asked}");
    assert_eq!(asked["as_of"], recorded["as_of"]);

    let again = service.decide("clicks", &question(&event("10.0.0.1", 700), r#","record":true"#)).await.json();
    assert_eq!(again["verdict"], "unique", "a window later");
    assert_eq!(again["offset"], 1);
}
