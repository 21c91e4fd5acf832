//! Exports: one answer from several parts, and no event counted twice.

use ebb_sketch::aggregate::robust::sampling::SampleHash;
use serde_json::{Value, json};

use super::support::{Service, event};

const AT: &str = "/v1/streams/clicks/aggregates";

/// A service that saw `count` addresses from `first` on.
async fn visited(first: usize, count: usize) -> Service {
    let service = Service::start().await;
    let events: Vec<String> =
        (first..first + count).map(|i| event(&format!("10.0.{}.{}", i / 250, i % 250), 1)).collect();
    let body = format!(r#"{{"events":[{}],"record":true}}"#, events.join(","));
    service.decide("clicks", &body).await.json();
    service
}

async fn export(service: &Service, of: &str) -> Vec<u8> {
    let answer = service.get(&format!("{AT}/{of}")).await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "application/octet-stream"));
    answer.bytes
}

async fn merged(service: &Service, question: &str, exports: &[&[u8]]) -> Value {
    service.post_bytes(&format!("{AT}/{question}"), exports.concat()).await.json()
}

async fn refused(service: &Service, question: &str, body: Vec<u8>) -> (u16, String, String) {
    let answer = service.post_bytes(&format!("{AT}/{question}"), body).await;
    let status = answer.status.as_u16();
    (status, answer.problem(status), answer.detail())
}

#[tokio::test]
async fn an_export_merged_alone_answers_as_its_stream_does() {
    let service = visited(0, 300).await;
    for (aggregate, question) in [
        ("visits", "count"),
        ("visits", "count?decay=window:30s"),
        ("visits", "top?phi=0.001"),
        ("moments", "sum"),
        ("moments", "quantiles?phi=0.1,0.9"),
    ] {
        let asked = service.get(&format!("{AT}/{aggregate}/{question}")).await.json();
        let export = export(&service, &format!("{aggregate}/export")).await;
        let mut answer = merged(&service, &format!("{aggregate}/merge/{question}"), &[&export]).await;
        assert_eq!(answer["logs"][0]["answered"], json!([0, 1]));
        assert_eq!(answer["logs"][0]["of"], 2);
        answer.as_object_mut().unwrap().remove("logs");
        answer["partitions"] = asked["partitions"].clone();
        assert_eq!(answer, asked, "{aggregate}/{question}");
    }
}

#[tokio::test]
async fn parts_of_one_log_make_the_whole_and_one_part_alone_is_called_incomplete() {
    let service = visited(0, 300).await;
    let first = export(&service, "moments/export?partition=0").await;
    let second = export(&service, "moments/export?partition=1").await;
    let whole = merged(&service, "moments/merge/count", &[&first, &second]).await;
    let close = |found: &Value, truth: f64| (found.as_f64().unwrap() - truth).abs() < 0.5;
    assert!(close(&whole["value"], 300.0) && whole["incomplete"] == false, "{whole}");
    let half = merged(&service, "moments/merge/count", &[&first]).await;
    assert_eq!((&half["incomplete"], &half["logs"][0]["answered"]), (&json!(true), &json!([0])), "{half}");
    let asked = service.get(&format!("{AT}/moments/count?partition=0")).await.json();
    assert_eq!((&asked["incomplete"], &asked["partitions"]), (&json!(true), &json!({"answered": [0], "of": 2})));
}

#[tokio::test]
async fn services_with_logs_of_their_own_are_added_up() {
    let (one, other) = (visited(0, 200).await, visited(200, 100).await);
    let exports = [export(&one, "moments/export").await, export(&other, "moments/export").await];
    let both = merged(&one, "moments/merge/count", &[&exports[0], &exports[1]]).await;
    assert!((both["value"].as_f64().unwrap() - 300.0).abs() < 0.5, "{both}");
    assert_eq!((both["logs"].as_array().unwrap().len(), &both["incomplete"]), (2, &json!(false)));
}

#[tokio::test]
async fn what_would_be_counted_twice_is_refused_unless_the_method_ignores_repeats() {
    let service = visited(0, 100).await;
    let moments = export(&service, "moments/export").await;
    let part = export(&service, "moments/export?partition=1").await;
    for twice in [[moments.clone(), moments.clone()].concat(), [moments, part].concat()] {
        let (status, problem, detail) = refused(&service, "moments/merge/count", twice).await;
        assert_eq!((status, problem.as_str()), (409, "duplicate-export"));
        assert!(detail.contains("exports 1 and 2") && detail.contains("forward"), "{detail}");
    }
    let visits = export(&service, "visits/export").await;
    let both = merged(&service, "visits/merge/count", &[&visits, &visits]).await;
    assert_eq!(both["value"], 100.0, "repeats leave no trace");
}

#[tokio::test]
async fn positions_of_different_logs_are_not_taken_for_ids() {
    let (one, other) = (visited(0, 50).await, visited(50, 50).await);
    let exports = [export(&one, "visits/export").await, export(&other, "visits/export").await].concat();
    let (status, problem, detail) = refused(&one, "visits/merge/count", exports).await;
    assert_eq!((status, problem.as_str()), (409, "duplicate-export"));
    assert!(detail.contains("event.id"), "{detail}");
}

#[tokio::test]
async fn what_is_of_another_aggregate_or_no_export_is_refused() {
    let service = visited(0, 50).await;
    let good = export(&service, "visits/export").await;
    let foreign = export(&service, "moments/export").await;
    let (status, problem, _) = refused(&service, "visits/merge/count", foreign).await;
    assert_eq!((status, problem.as_str()), (409, "foreign-export"));
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let many = good.repeat(ebb_core::MAX_EXPORTS + 1);
    for bad in [Vec::new(), b"{}".to_vec(), good[..good.len() - 1].to_vec(), flipped, many] {
        let (status, problem, detail) = refused(&service, "visits/merge/count", bad).await;
        assert_eq!((status, problem.as_str()), (400, "invalid-export"), "{detail}");
    }
    let json = service.post(&format!("{AT}/visits/merge/count"), "{}").await;
    assert_eq!(json.problem(415), "unsupported-media-type");
    let query = service.post_bytes(&format!("{AT}/visits/merge/count?key=c1"), good).await;
    assert_eq!(query.problem(400), "invalid-query");
    let query = service.get(&format!("{AT}/visits/export?decay=window:1m")).await;
    assert_eq!(query.problem(400), "invalid-query");
}

#[tokio::test]
async fn a_key_is_exported_alone() {
    let service = visited(0, 50).await;
    let key = export(&service, "visits/export?key=c1").await;
    assert_eq!(merged(&service, "visits/merge/count", &[&key]).await["value"], 50.0);
    assert_eq!(service.get(&format!("{AT}/visits/export?key=nobody")).await.problem(404), "unknown-key");
}

/// The hash key of the tests is sixteen nines, and the seed of their sketches 1.
#[tokio::test]
async fn an_export_holds_neither_the_hash_key_nor_what_was_drawn_for_the_sketch() {
    let service = visited(0, 300).await;
    let bytes = export(&service, "visits/export").await;
    let holds = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    assert!(holds(b"10.0.0.7"), "the texts of labels are there, so that something can be found at all");
    assert!(!holds(&[9; 16]));
    for copy in 0..9u8 {
        let seed = ebb_sketch::random::mix(1 ^ ebb_sketch::random::mix(u64::from(copy)));
        let constants = SampleHash::drawn(seed, 1).constants();
        for constant in [seed, constants.step, constants.offset] {
            assert!(!holds(&constant.to_le_bytes()), "a constant of copy {copy} is in the export");
        }
    }
}
