//! Exports: statistics over several exports, without counting an event twice.

use ebb_sketch::aggregate::robust::hash::SampleHash;
use serde_json::{Value, json};

use super::support::{Service, event};

const AGGREGATES: &str = "/v1/streams/clicks/aggregates";

/// A service with visits from `count` addresses, starting with number `first`.
async fn service_with_visits(first: usize, count: usize) -> Service {
    let service = Service::start().await;
    let events: Vec<String> =
        (first..first + count).map(|i| event(&format!("10.0.{}.{}", i / 250, i % 250), 1)).collect();
    let body = format!(r#"{{"events":[{}],"record":true}}"#, events.join(","));
    service.decide("clicks", &body).await.json();
    service
}

async fn export(service: &Service, of: &str) -> Vec<u8> {
    let answer = service.get(&format!("{AGGREGATES}/{of}")).await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "application/octet-stream"));
    answer.bytes
}

async fn merged(service: &Service, question: &str, exports: &[&[u8]]) -> Value {
    service.post_bytes(&format!("{AGGREGATES}/{question}"), exports.concat()).await.json()
}

async fn merge_problem(service: &Service, question: &str, body: Vec<u8>) -> (u16, String, String) {
    let answer = service.post_bytes(&format!("{AGGREGATES}/{question}"), body).await;
    let status = answer.status.as_u16();
    (status, answer.problem(status), answer.detail())
}

#[tokio::test]
async fn single_export_gives_the_statistic_of_its_stream() {
    let service = service_with_visits(0, 300).await;
    for (aggregate, question) in [
        ("visits", "count"),
        ("visits", "count?decay=window:30s"),
        ("visits", "top?phi=0.001"),
        ("moments", "sum"),
        ("moments", "quantiles?phi=0.1,0.9"),
    ] {
        let statistic = service.get(&format!("{AGGREGATES}/{aggregate}/{question}")).await.json();
        let export = export(&service, &format!("{aggregate}/export")).await;
        let mut answer = merged(&service, &format!("{aggregate}/merge/{question}"), &[&export]).await;
        assert_eq!(answer["logs"][0]["answered"], json!([0, 1]));
        assert_eq!(answer["logs"][0]["of"], 2);
        answer.as_object_mut().unwrap().remove("logs");
        answer["partitions"] = statistic["partitions"].clone();
        assert_eq!(answer, statistic, "{aggregate}/{question}");
    }
}

#[tokio::test]
async fn exports_of_all_partitions_are_complete_and_of_one_are_not() {
    let service = service_with_visits(0, 300).await;
    let first = export(&service, "moments/export?partition=0").await;
    let second = export(&service, "moments/export?partition=1").await;
    let whole = merged(&service, "moments/merge/count", &[&first, &second]).await;
    let close = |found: &Value, truth: f64| (found.as_f64().unwrap() - truth).abs() < 0.5;
    assert!(close(&whole["value"], 300.0) && whole["incomplete"] == false, "{whole}");
    let half = merged(&service, "moments/merge/count", &[&first]).await;
    assert_eq!((&half["incomplete"], &half["logs"][0]["answered"]), (&json!(true), &json!([0])), "{half}");
    let statistic = service.get(&format!("{AGGREGATES}/moments/count?partition=0")).await.json();
    assert_eq!(
        (&statistic["incomplete"], &statistic["partitions"]),
        (&json!(true), &json!({"answered": [0], "of": 2}))
    );
}

#[tokio::test]
async fn exports_of_different_logs_are_added() {
    let (one, other) = (service_with_visits(0, 200).await, service_with_visits(200, 100).await);
    let exports = [export(&one, "moments/export").await, export(&other, "moments/export").await];
    let both = merged(&one, "moments/merge/count", &[&exports[0], &exports[1]]).await;
    assert!((both["value"].as_f64().unwrap() - 300.0).abs() < 0.5, "{both}");
    assert_eq!((both["logs"].as_array().unwrap().len(), &both["incomplete"]), (2, &json!(false)));
}

#[tokio::test]
async fn overlapping_exports_are_refused_unless_the_method_ignores_duplicates() {
    let service = service_with_visits(0, 100).await;
    let moments = export(&service, "moments/export").await;
    let part = export(&service, "moments/export?partition=1").await;
    for twice in [[moments.clone(), moments.clone()].concat(), [moments, part].concat()] {
        let (status, problem, detail) = merge_problem(&service, "moments/merge/count", twice).await;
        assert_eq!((status, problem.as_str()), (409, "duplicate-export"));
        assert!(detail.contains("exports 1 and 2") && detail.contains("forward"), "{detail}");
    }
    let visits = export(&service, "visits/export").await;
    let both = merged(&service, "visits/merge/count", &[&visits, &visits]).await;
    assert_eq!(both["value"], 100.0, "duplicates are ignored");
}

#[tokio::test]
async fn offsets_of_different_logs_are_not_event_ids() {
    let (one, other) = (service_with_visits(0, 50).await, service_with_visits(50, 50).await);
    let exports = [export(&one, "visits/export").await, export(&other, "visits/export").await].concat();
    let (status, problem, detail) = merge_problem(&one, "visits/merge/count", exports).await;
    assert_eq!((status, problem.as_str()), (409, "duplicate-export"));
    assert!(detail.contains("event.id"), "{detail}");
}

#[tokio::test]
async fn merged_exports_can_be_exported_and_merged_again() {
    let services =
        [service_with_visits(0, 100).await, service_with_visits(100, 60).await, service_with_visits(160, 40).await];
    for (aggregate, question) in [("moments", "moments/merge/count"), ("moments", "moments/merge/quantiles?phi=0.5")] {
        let mut exports = Vec::new();
        for service in &services {
            exports.push(export(service, &format!("{aggregate}/export")).await);
        }
        let parts: Vec<&[u8]> = exports.iter().map(Vec::as_slice).collect();
        let flat = merged(&services[0], question, &parts).await;
        let combine = format!("{AGGREGATES}/{aggregate}/merge/export");
        let pair = services[1].post_bytes(&combine, parts[..2].concat()).await;
        assert_eq!((pair.status.as_u16(), pair.header("content-type")), (200, "application/octet-stream"));
        let tree = services[2].post_bytes(&combine, [pair.bytes.as_slice(), parts[2]].concat()).await.bytes;
        let nested = merged(&services[0], question, &[&tree]).await;
        assert_eq!(nested["logs"], flat["logs"], "{question}");
        assert_eq!(nested["as_of"].as_array().unwrap().len(), 6, "two partitions of three logs");
        for number in ["value", "lower", "upper"] {
            let (nested, flat) = (nested[number].as_f64(), flat[number].as_f64());
            assert!(
                nested.zip(flat).is_none_or(|(a, b)| (a - b).abs() <= 1e-9 * b.abs()),
                "{question}: {nested:?} {flat:?}"
            );
        }
        // What a merged export covers is known: it is not counted twice.
        let twice = [tree, exports[1].clone()].concat();
        let (status, problem, detail) = merge_problem(&services[0], question, twice).await;
        assert_eq!((status, problem.as_str()), (409, "duplicate-export"), "{detail}");
    }
    // A method that ignores duplicates accepts overlapping exports of one log, and names each partition once.
    let (whole, half) =
        (export(&services[0], "visits/export").await, export(&services[0], "visits/export?partition=1").await);
    let combined = services[0].post_bytes(&format!("{AGGREGATES}/visits/merge/export"), [whole, half].concat()).await;
    let answer = merged(&services[0], "visits/merge/count", &[&combined.bytes]).await;
    assert_eq!((&answer["value"], answer["as_of"].as_array().unwrap().len()), (&json!(100.0), 2));
    let refused =
        services[0].post_bytes(&format!("{AGGREGATES}/visits/merge/export?decay=window:1m"), combined.bytes).await;
    assert_eq!(refused.problem(400), "invalid-query");
    assert_eq!(
        services[0].post_bytes(&format!("{AGGREGATES}/visits/merge/export"), Vec::new()).await.problem(400),
        "invalid-export"
    );
}

#[tokio::test]
async fn foreign_and_damaged_exports_are_refused() {
    let service = service_with_visits(0, 50).await;
    let good = export(&service, "visits/export").await;
    let foreign = export(&service, "moments/export").await;
    let (status, problem, _) = merge_problem(&service, "visits/merge/count", foreign).await;
    assert_eq!((status, problem.as_str()), (409, "foreign-export"));
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let many = good.repeat(ebb_core::MAX_EXPORTS + 1);
    for bad in [Vec::new(), b"{}".to_vec(), good[..good.len() - 1].to_vec(), flipped, many] {
        let (status, problem, detail) = merge_problem(&service, "visits/merge/count", bad).await;
        assert_eq!((status, problem.as_str()), (400, "invalid-export"), "{detail}");
    }
    let json = service.post(&format!("{AGGREGATES}/visits/merge/count"), "{}").await;
    assert_eq!(json.problem(415), "unsupported-media-type");
    let query = service.post_bytes(&format!("{AGGREGATES}/visits/merge/count?key=c1"), good).await;
    assert_eq!(query.problem(400), "invalid-query");
    let query = service.get(&format!("{AGGREGATES}/visits/export?decay=window:1m")).await;
    assert_eq!(query.problem(400), "invalid-query");
}

#[tokio::test]
async fn single_key_can_be_exported() {
    let service = service_with_visits(0, 50).await;
    let key = export(&service, "visits/export?key=c1").await;
    assert_eq!(merged(&service, "visits/merge/count", &[&key]).await["value"], 50.0);
    assert_eq!(service.get(&format!("{AGGREGATES}/visits/export?key=unknown")).await.problem(404), "unknown-key");
}

/// The hash key of the tests is sixteen nines, and the seed of their sketches is 1.
#[tokio::test]
async fn export_contains_neither_hash_key_nor_sketch_seed() {
    let service = service_with_visits(0, 300).await;
    let bytes = export(&service, "visits/export").await;
    let holds = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    assert!(holds(b"10.0.0.7"), "labels are stored as text, so the search works");
    assert!(!holds(&[9; 16]));
    for copy in 0..9u8 {
        let seed = ebb_sketch::random::mix(1 ^ ebb_sketch::random::mix(u64::from(copy)));
        let constants = SampleHash::from_seed(seed, 1).constants();
        for constant in [seed, constants.step, constants.offset] {
            assert!(!holds(&constant.to_le_bytes()), "a constant of copy {copy} is in the export");
        }
    }
}
