//! Decisions.

use serde_json::{Value, json};

use super::support::{NOW, Service, event};

fn question(event: &str, rest: &str) -> String {
    format!(r#"{{"event":{event}{rest}}}"#)
}

#[tokio::test]
async fn recorded_event_is_a_duplicate_until_the_window_ends() {
    let service = Service::start().await;
    let answer = service.decide("clicks", &question(&event("10.0.0.1", 0), "")).await.json();
    assert_eq!((&answer["verdict"], &answer["as_of"]["next"]), (&json!("unique"), &json!(0)), "{answer}");
    assert_eq!(answer.get("offset"), None, "a question is not recorded");

    let recorded = service.decide("clicks", &question(&event("10.0.0.1", 0), r#","record":true"#)).await.json();
    assert_eq!(recorded["verdict"], "unique");
    assert_eq!(recorded["offset"], 0);
    assert_eq!(recorded["as_of"]["next"], 1);
    assert_eq!(recorded["as_of"]["time_ms"], NOW);

    let answer = service.decide("clicks", &question(&event("10.0.0.1", 599), "")).await.json();
    assert_eq!(answer["verdict"], "duplicate");
    let age = &answer["age"];
    assert!(age["least_ms"].as_u64().unwrap() < age["below_ms"].as_u64().unwrap(), "{answer}");
    assert_eq!(answer["as_of"], recorded["as_of"]);

    let again = service.decide("clicks", &question(&event("10.0.0.1", 700), r#","record":true"#)).await.json();
    assert_eq!(again["verdict"], "unique", "after the window");
    assert_eq!(again["offset"], 1);
}

#[tokio::test]
async fn batch_is_decided_in_order_across_shards() {
    let service = Service::start().await;
    let ips: Vec<String> = (0..200).map(|i| format!("10.1.0.{}", i % 150)).collect();
    let events: Vec<String> = ips.iter().map(|ip| event(ip, 0)).collect();
    let body = format!(r#"{{"events":[{}],"record":true}}"#, events.join(","));
    let decided = service.decide("clicks", &body).await.json();
    let decisions = decided["decisions"].as_array().unwrap();
    assert_eq!(decisions.len(), 200);
    let mut next = [0, 0];
    for (index, decision) in decisions.iter().enumerate() {
        let expected = if index < 150 { "unique" } else { "duplicate" };
        assert_eq!(decision["verdict"], expected, "{index}");
        let partition = decision["as_of"]["partition"].as_u64().unwrap() as usize;
        assert_eq!(decision["offset"], next[partition], "offsets of a shard are in the order of the batch");
        next[partition] += 1;
    }
    assert!(next.iter().all(|count| *count > 0), "both shards have events: {next:?}");
}

#[tokio::test]
async fn concurrent_questions_get_their_own_answers() {
    let service = std::sync::Arc::new(Service::start().await);
    let ip = |number: usize| format!("10.1.0.{number}");
    let known: Vec<String> = (0..200).step_by(2).map(|number| event(&ip(number), 0)).collect();
    let body = format!(r#"{{"events":[{}],"record":true}}"#, known.join(","));
    assert_eq!(service.decide("clicks", &body).await.status, 200);

    let waiting = (0..200).map(|number| {
        let (service, body) = (service.clone(), question(&event(&ip(number), 0), ""));
        tokio::spawn(async move { service.decide("clicks", &body).await.json() })
    });
    // All questions are sent before the first answer is awaited, so that the worker receives many at once.
    let waiting: Vec<_> = waiting.collect();
    for (number, answer) in waiting.into_iter().enumerate() {
        let expected = if number % 2 == 0 { "duplicate" } else { "unique" };
        assert_eq!(answer.await.unwrap()["verdict"], expected, "{number}");
    }
}

#[tokio::test]
async fn rejected_event_does_not_affect_its_batch() {
    let service = Service::start().await;
    let body = format!(r#"{{"events":[{},17,{},{{"ip":"x"}}],"record":true}}"#, event("a", 0), event("b", 0));
    let decided = service.decide("clicks", &body).await.json();
    let verdicts: Vec<&Value> = decided["decisions"].as_array().unwrap().iter().map(|one| &one["verdict"]).collect();
    assert_eq!(verdicts, ["unique", "rejected", "unique", "rejected"]);
    assert_eq!(decided["decisions"][1]["reason"], "schema");
    assert!(decided["decisions"][1]["detail"].as_str().unwrap().contains("field"));
    assert_eq!(decided["decisions"][1].get("offset"), None, "an unreadable event is not journalled");
    let metrics = service.api.metrics.text();
    assert!(metrics.contains(r#"ebb_rejected_total{reason="schema",stream="clicks"} 2"#), "{metrics}");
    assert!(metrics.contains(r#"ebb_events_total{stream="clicks",verdict="rejected"} 2"#), "{metrics}");
}

#[tokio::test]
async fn empty_batch_has_no_decisions() {
    let service = Service::start().await;
    for record in ["true", "false"] {
        let decided = service.decide("clicks", &format!(r#"{{"events":[],"record":{record}}}"#)).await.json();
        assert_eq!(decided, json!({"decisions": []}));
    }
}

#[tokio::test]
async fn batch_size_is_limited() {
    let service = Service::start().await;
    let batch = |count| format!(r#"{{"events":[{}]}}"#, vec![r#"{"ip":1,"campaign":2}"#; count].join(","));
    let decided = service.decide("clicks", &batch(ebb::http::MAX_EVENTS)).await.json();
    assert_eq!(decided["decisions"].as_array().unwrap().len(), ebb::http::MAX_EVENTS);
    let refused = service.decide("clicks", &batch(ebb::http::MAX_EVENTS + 1)).await;
    assert_eq!(refused.problem(422), "batch-too-large");
    assert!(refused.detail().contains("the batch has 10001 events"), "{}", refused.detail());
}

/// Every reason that a well-formed body can cause: an event in JSON is never `empty`.
#[tokio::test]
async fn rejection_is_a_decision_with_its_reason() {
    let service = Service::start().await;
    let deep = format!(r#"{{"ip":"a","campaign":"c","ts":1,"x":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let future = event("a", 10 * 365 * 86_400);
    let cases = [
        (r#"{"ip":"\ud800","campaign":"c","ts":1}"#, "encoding"),
        (r#"{"ip":"\u0000","campaign":"c","ts":1}"#, "encoding"),
        (r#"{"ip":1e999,"campaign":"c","ts":1}"#, "parse"),
        (deep.as_str(), "limits"),
        (r#"{"ip":"a","ip":"b","campaign":"c","ts":1}"#, "duplicate_key"),
        (r#"{"ip":"a","campaign":"c"}"#, "schema"),
        (r#"{"ip":"a","campaign":"c","ts":"soon"}"#, "schema"),
        ("[]", "schema"),
        (future.as_str(), "future"),
    ];
    for (event, reason) in cases {
        let decided = service.decide("clicks", &question(event, r#","record":true"#)).await.json();
        assert_eq!((&decided["verdict"], &decided["reason"]), (&json!("rejected"), &json!(reason)), "{decided}");
        assert!(decided["detail"].is_string(), "{decided}");
        assert_eq!(decided.get("offset").is_some(), reason == "future", "only the shard knows the time of the log");
    }
    let metrics = service.api.metrics.text();
    for (reason, count) in
        [("encoding", 2), ("parse", 1), ("limits", 1), ("duplicate_key", 1), ("schema", 3), ("future", 1)]
    {
        let line = format!(r#"ebb_rejected_total{{reason="{reason}",stream="clicks"}} {count}"#);
        assert!(metrics.contains(&line), "{line} is not in {metrics}");
    }
}

#[tokio::test]
async fn question_needs_only_the_item_and_its_rejection_is_not_counted() {
    let service = Service::start().await;
    let answer = service.decide("clicks", r#"{"event":{"ip":"a","campaign":"c"}}"#).await.json();
    assert_eq!(answer["verdict"], "unique", "without a time the question refers to the current time");
    let answer = service.decide("clicks", r#"{"event":{"ip":"a"}}"#).await.json();
    assert_eq!(answer["reason"], "schema");
    assert!(!service.api.metrics.text().contains("ebb_rejected_total{"), "a question is not an event");
}

#[tokio::test]
async fn late_event_is_called_late() {
    let service = Service::start().await;
    // Enough items to advance the clocks of both shards.
    let newer: Vec<String> = (0..20).map(|i| event(&format!("newer{i}"), 10_000)).collect();
    service.decide("clicks", &format!(r#"{{"events":[{}],"record":true}}"#, newer.join(","))).await.json();
    let late = service.decide("clicks", &question(&event("a", 0), r#","record":true"#)).await.json();
    assert_eq!(late["verdict"], "late", "{late}");
}

#[tokio::test]
async fn question_may_request_a_shorter_window() {
    let service = Service::start().await;
    service.decide("clicks", &question(&event("a", 0), r#","record":true"#)).await.json();
    for (window, verdict) in [("10m", "duplicate"), ("6m", "duplicate"), ("1m", "unique"), ("30s", "unique")] {
        let answer = service.decide("clicks", &question(&event("a", 300), &format!(r#","window":"{window}""#))).await;
        assert_eq!(answer.json()["verdict"], verdict, "{window}");
    }
}

#[tokio::test]
async fn whole_numbers_may_be_written_with_a_fraction_of_zero() {
    let service = Service::start().await;
    let recorded = service.decide("clicks", &question(&event("a", 0), r#","record":true"#)).await.json();
    let own = &recorded["as_of"]["partition"];
    let answer =
        service.decide("clicks", &question(&event("a", 0), &format!(r#","partition":{own}.0,"at_least":0.0"#))).await;
    assert_eq!(answer.json()["verdict"], "duplicate");
    for (rest, expected_detail) in
        [(r#","partition":0.5"#, "0.5"), (r#","at_least":-1.0"#, "-1.0"), (r#","partition":"0""#, "a partition")]
    {
        let refused = service.decide("clicks", &question(&event("a", 0), rest)).await;
        assert_eq!(refused.problem(422), "invalid-question", "{rest}");
        assert!(refused.detail().contains(expected_detail), "{rest}: {}", refused.detail());
    }
}

#[tokio::test]
async fn prior_is_parsed_exactly() {
    let service = Service::start().await;
    // serde_json parses this number as 1.
    let answer = service.decide("clicks", &question(&event("a", 0), r#","prior":0.9999999999999999"#)).await.json();
    assert_eq!(answer["verdict"], "unique");
}

#[tokio::test]
async fn count_window_is_requested_in_events() {
    let service = Service::start().await;
    service.decide("counted", &question(&event("a", 0), r#","record":true"#)).await.json();
    let others: Vec<String> = (0..120).map(|i| event(&format!("b{i}"), 0)).collect();
    let body = format!(r#"{{"events":[{}],"record":true}}"#, others.join(","));
    service.decide("counted", &body).await.json();
    let answer = service.decide("counted", &question(&event("a", 0), r#","window":"100 events""#)).await.json();
    assert_eq!(answer["verdict"], "duplicate");
    assert!(answer["age"]["least_events"].as_u64() < answer["age"]["below_events"].as_u64(), "{answer}");
    let answer = service.decide("counted", &question(&event("a", 0), r#","window":"5 events""#)).await.json();
    assert_eq!(answer["verdict"], "unique");
}

#[tokio::test]
async fn at_least_waits_for_the_offset_of_a_recorded_event() {
    let limits = ebb::http::HttpLimits { request_timeout: std::time::Duration::from_millis(300), ..Default::default() };
    let service = std::sync::Arc::new(Service::with_limits(limits).await);
    let recorded = service.decide("clicks", &question(&event("a", 0), r#","record":true"#)).await.json();
    let own = recorded["offset"].as_u64().unwrap();
    let answer = service.decide("clicks", &question(&event("a", 0), &format!(r#","at_least":{own}"#))).await.json();
    assert_eq!(answer["verdict"], "duplicate");
    for never in [own + 1, u64::MAX] {
        let refused = service.decide("clicks", &question(&event("a", 0), &format!(r#","at_least":{never}"#))).await;
        assert_eq!(refused.problem(409), "not-reached");
        assert!(refused.detail().contains("at_least"), "{}", refused.detail());
    }
}

#[tokio::test]
async fn waiting_question_is_answered_when_the_log_reaches_at_least() {
    let service = std::sync::Arc::new(Service::start().await);
    let waiting = {
        let service = service.clone();
        tokio::spawn(async move { service.decide("clicks", &question(&event("a", 0), r#","at_least":0"#)).await })
    };
    let recorded = service.decide("clicks", &question(&event("a", 0), r#","record":true"#)).await.json();
    assert_eq!(recorded["offset"], 0);
    let answer = waiting.await.unwrap().json();
    assert_eq!((&answer["verdict"], &answer["as_of"]["next"]), (&json!("duplicate"), &json!(1)));
}

#[tokio::test]
async fn journal_contains_the_sent_bytes() {
    let service = Service::start().await;
    let sent = "{ \"ip\" : \"a\\u0062\",\n\t\"campaign\":1.0, \"ts\":1700000000000, \"note\":\"ü\" }";
    let recorded = service.decide("clicks", &question(sent, r#","record":true"#)).await.json();
    let (partition, offset) =
        (recorded["as_of"]["partition"].as_u64().unwrap() as u32, recorded["offset"].as_u64().unwrap());
    let shard = ebb::store::ShardId { stream: "clicks".into(), partition };
    let logged = service.store.replay(&shard, ebb_core::NextOffset(offset)).unwrap().next().unwrap().unwrap();
    assert_eq!(String::from_utf8(logged.record.payload).unwrap(), sent);
}
