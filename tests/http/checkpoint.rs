//! Checkpoints on request.

use serde_json::json;

use super::support::{Service, event};

#[tokio::test]
async fn checkpoint_response_covers_all_recorded_events() {
    let service = Service::start().await;
    let none = service.post("/v1/checkpoint", "").await.json();
    for one in none["checkpoints"].as_array().unwrap() {
        assert_eq!(one.get("checkpoint"), None, "no event was recorded: {one}");
    }
    let events: Vec<String> = (0..50).map(|i| event(&format!("10.0.0.{i}"), 0)).collect();
    service.decide("clicks", &format!(r#"{{"events":[{}],"record":true}}"#, events.join(","))).await.json();
    let stored = service.post("/v1/checkpoint?stream=clicks", "").await.json();
    let shown = service.get("/v1/streams/clicks").await.json();
    let shards = shown["shards"].as_array().unwrap();
    assert_eq!(stored["checkpoints"].as_array().unwrap().len(), shards.len());
    for (one, shard) in stored["checkpoints"].as_array().unwrap().iter().zip(shards) {
        assert_eq!((&one["stream"], &one["partition"]), (&json!("clicks"), &shard["as_of"]["partition"]));
        let stored = &one["checkpoint"];
        assert_eq!(stored["next"], shard["as_of"]["next"]);
        assert_eq!(stored["next"], shard["checkpoint"]["next"]);
        assert!(stored["bytes"].as_u64().unwrap() > 0 && stored["age_ms"].as_u64().unwrap() < 60_000, "{one}");
    }
    let total: u64 = shards.iter().map(|shard| shard["checkpoint"]["next"].as_u64().unwrap()).sum();
    assert_eq!(total, 50, "every recorded event");
    let listed = service.get("/v1/checkpoint").await.json();
    let clicks = listed["checkpoints"].as_array().unwrap().iter().filter(|one| one["stream"] == "clicks").count();
    assert_eq!((listed["checkpoints"].as_array().unwrap().len(), clicks), (4, 2), "two streams with two shards each");
}

#[tokio::test]
async fn concurrent_checkpoint_requests_are_all_answered() {
    let service = std::sync::Arc::new(Service::start().await);
    let mut asking = tokio::task::JoinSet::new();
    for round in 0..8 {
        let service = service.clone();
        asking.spawn(async move {
            let body = format!(r#"{{"event":{},"record":true}}"#, event(&format!("r{round}"), 0));
            let recorded = service.decide("clicks", &body).await.json();
            let stored = service.post("/v1/checkpoint?stream=clicks", "").await.json();
            let partition = recorded["as_of"]["partition"].as_u64().unwrap() as usize;
            assert!(
                stored["checkpoints"][partition]["checkpoint"]["next"].as_u64() > recorded["offset"].as_u64(),
                "{stored}"
            );
        });
    }
    while let Some(done) = asking.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn checkpoint_of_unknown_stream_is_refused() {
    let service = Service::start().await;
    assert_eq!(service.post("/v1/checkpoint?stream=nope", "").await.problem(404), "unknown-stream");
    assert_eq!(service.post("/v1/checkpoint?streams=clicks", "").await.problem(400), "invalid-query");
}
