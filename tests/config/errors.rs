//! Errors: all at once, each with its path, its line, what is wrong and what would be right.

use ebb::config::Config;

use crate::{TWO_LINES, ebb, error, stream_error, text};

#[test]
fn all_errors_are_reported_at_once_with_path_and_expected_value() {
    let message = ebb(&["check", "tests/vectors/config/errors.yaml"], &[]);
    assert_eq!(message.status.code(), Some(2));
    assert_eq!(text(&message.stdout), "");
    assert_eq!(text(&message.stderr), include_str!("../vectors/config/errors.txt"));
    assert!(text(&message.stderr).lines().count() > 40);
}

#[test]
fn unknown_key_is_an_error_that_suggests_the_nearest_key() {
    for (text, expected) in [
        ("strems: {}", "strems (line 1): unknown key; did you mean streams?"),
        ("htttp: {}", "htttp (line 1): unknown key; did you mean http?"),
        ("log: {levle: info}", "log.levle (line 1): unknown key; did you mean level?"),
        ("http: {max-body: 1MiB}", "http.max-body (line 1): unknown key; did you mean max_body?"),
        ("checkpoint:\n  evry: 1s", "checkpoint.evry (line 2): unknown key; did you mean every?"),
        ("limits: {xyzzy: 1}", "limits.xyzzy (line 1): unknown key; known keys are record, depth, fields, key"),
        ("\"a\\eb\\n\": 1", "a\\u{1b}b\\n (line 1): unknown key; known keys are data_dir, workers"),
    ] {
        let message = error(&format!("{text}\n{TWO_LINES}"));
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn conflicts_between_keys_are_reported_at_the_key_to_change() {
    for (keys, expected) in [
        ("dedup: {memory: 1MiB, error: 0.1}", "streams.s.dedup.error (line 4): cannot be combined with memory"),
        ("dedup: {error: 0.1}", "streams.s.dedup.error (line 4): requires the expected traffic; add rate:"),
        ("dedup: {window: 9 events, lateness: 1s}", "streams.s.dedup.lateness (line 4): does not apply to a window of"),
        ("dedup: {window: 1m, lateness: 1h}", "lateness (line 4): 1h is longer than the window; the maximum is 1m"),
        ("dedup: {bits: 3, blocks: 6}", "blocks (line 4): exceeds what 3 bits can count; set at most 5"),
        ("dedup: {filter: stable, blocks: 6}", "blocks (line 4): does not apply to filter stable; remove it"),
        ("dedup: {decrements: 6}", "decrements (line 4): does not apply to filter timing; remove it"),
        ("dedup: {filter: classic, bits: 3}", "bits (line 4): does not apply to filter classic; remove it"),
        (
            "dedup: {filter: stable, penalty: {false_duplicate: 1, missed_duplicate: 1}}",
            "dedup.penalty (line 4): requires the number of events within the window for filter stable; add rate:",
        ),
        ("dedup: {filter: importance-h}", "dedup.filter (line 4): importance-h requires an importance; add event:"),
        ("dedup: {prior: auto-frequency}", "dedup.prior (line 4): auto-frequency requires the frequency view; add"),
        ("dedup: {isolate: 2}", "dedup.isolate (line 4): requires a key; add event: {key: PATH}"),
        ("frequency: {epoch: 1m}", "frequency.epoch (line 4): does not apply to method forward"),
        ("aggregates: {a: {of: value}}", "aggregates.a.of (line 4): the event has no value; add event: {value: PATH}"),
        ("aggregates: {a: {keys: 9}}", "aggregates.a.keys (line 4): the event has no key; add event: {key: PATH}"),
        (
            "aggregates: {a: {memory: 64KiB}}",
            "aggregates.a.memory (line 4): 64KiB is too small for this aggregate; set",
        ),
        (
            "aggregates: {a: {method: cascade, memory: 1GiB}}",
            "aggregates.a.memory (line 4): method cascade has no memory budget; remove memory, or set method: robust",
        ),
        (
            "aggregates: {a: {distinct: user, of: price}}",
            "aggregates.a.distinct (line 4): cannot be combined with of, because different values are counted",
        ),
        (
            "aggregates: {a: {distinct: user, method: cascade}}",
            "aggregates.a.method (line 4): different values are counted by method robust, not cascade",
        ),
        ("aggregates: {a: {method: forward}}", "aggregates.a.decay (line 4): is required by method forward"),
        (
            "aggregates: {a: {method: forward, decay: 'window:1h'}}",
            "decay (line 4): must be exponential for method forward",
        ),
        (
            "aggregates: {a: {method: division, decay: 'window:1h'}}",
            "decay (line 4): must be smooth for method division",
        ),
        ("aggregates: {a: {horizon: 1m, decay: 'window:1h'}}", "1h is longer than the horizon; set horizon: 1h or"),
        ("aggregates: {a: {step: 2, max: 1}}", "aggregates.a.step (line 4): must not exceed max, which is 1"),
        ("output: {unique: x}", "streams.s.output (line 4): requires Kafka; add a kafka section"),
    ] {
        let message = stream_error(keys);
        assert!(message.contains(expected), "{keys}: {message}");
    }
}

#[test]
fn conflicts_in_key_rules_and_kafka_streams_are_reported() {
    let keyed = "streams:\n  s:\n    event: {item: ip, key: k}\n    dedup: {window: 1h, rules: [RULES]}\n";
    for (rules, expected) in [
        ("{keys: [], window: 1m}", "rules.0.keys (line 4): is empty; list at least one key"),
        ("{keys: [a]}", "rules.0 (line 4): has no effect; set a window, a penalty or a prior"),
        ("{keys: [a], prior: auto}", "rules.0.prior (line 4): must be a number or a field; learned priors"),
        (
            "{keys: [a], prior: 2}",
            "rules.0.prior (line 4): \"2\" is not a valid prior; expected auto, auto-frequency, a number",
        ),
        ("{keys: [a], window: 2h}", "rules.0.window (line 4): exceeds the window of the view, or is of another kind"),
        ("{keys: [a], window: 5 events}", "rules.0.window (line 4): exceeds the window of the view"),
        ("{keys: [a], window: 1m}, {keys: [b, a], window: 2m}", "rules.1.keys (line 4): \"a\" already has a rule"),
    ] {
        let message = error(&keyed.replace("RULES", rules));
        assert!(message.contains(expected), "{rules}: {message}");
    }
    let kafka = "kafka: {brokers: 'k:9092'}\nstreams:\n  a: {event: {item: ip}}\n  b: {STREAM, event: {item: ip}}\n";
    for (keys, expected) in [
        ("topic: a", "streams.b.topic (line 4): a is already read by stream a; set another topic"),
        ("partitions: 2", "streams.b.partitions (line 4): applies to the embedded service only"),
        (
            "output: {late: b}",
            "streams.b.output.late (line 4): b is the source topic of this stream; set another topic",
        ),
        ("output: {late: <stream>}", "streams.b.output.late (line 4): b is the source topic of this stream"),
        ("output: {}", "streams.b.output (line 4): has no topics; set unique, duplicate, late or rejected"),
    ] {
        let message = error(&kafka.replace("STREAM", keys));
        assert!(message.contains(expected), "{keys}: {message}");
    }
    let message = error(&format!("{TWO_LINES}http: {{max_body: 1KiB}}"));
    assert_eq!(message, "http.max_body (line 3): must be at least limits.record, which is 1MiB");
}

#[test]
fn keys_with_an_error_cause_no_further_conflicts() {
    let message = stream_error("dedup: {window: 24x, lateness: 48h}");
    assert!(message.starts_with("streams.s.dedup.window (line 4): \"24x\" is not a valid window"), "{message}");
    let message = stream_error("aggregates: {a: {method: forwrd, step: 1, decay: 'window:1h'}}");
    assert!(message.contains("did you mean forward?"), "{message}");
}

#[test]
fn non_loopback_address_requires_tokens_or_explicit_anonymous_access() {
    let http = |keys: &str| {
        let text = format!("http: {{{keys}}}\nstreams: {{s: {{event: {{item: a}}}}}}");
        Config::parse(&text, [], |_, _| Ok(())).map(|_| ()).map_err(|errors| errors.to_string())
    };
    for open in ["listen: '0.0.0.0:80'", "listen: '[::]:80'", "listen: '10.0.0.1:80'", "listen: '[::ffff:10.0.0.1]:80'"]
    {
        let message = http(open).unwrap_err();
        assert!(
            message.contains("http.listen") && message.contains("tokens_file") && message.contains("without_tokens"),
            "{message}"
        );
        let pair = "certificate: c, key: k";
        http(&format!("{open}, tls: {{{pair}}}")).unwrap_err();
        for closed in
            ["tokens_file: t".to_owned(), "without_tokens: anywhere".into(), format!("tls: {{{pair}, client_ca: a}}")]
        {
            assert_eq!(http(&format!("{open}, {closed}")), Ok(()), "{closed}");
        }
    }
    for near in ["listen: '127.0.0.1:80'", "listen: '127.9.9.9:80'", "listen: '[::1]:80'", "admin_listen: '0.0.0.0:81'"]
    {
        assert_eq!(http(near), Ok(()), "{near}");
    }
}

#[test]
fn priors_by_class_require_the_table_of_classes() {
    let stream = "streams:\n  s:\n    event: {item: ip, importance: tier}\n    dedup: {DEDUP}\n";
    for (dedup, expected) in [
        ("prior: {gold: 0.001}", "dedup.prior (line 4): by class requires a table of classes"),
        ("prior: {gold: 2}, importance_classes: {gold: 3}", "dedup.prior.gold (line 4)"),
        (
            "prior: {tin: 0.1}, importance_classes: {gold: 3}",
            "dedup.prior (line 4): \"tin\" is not one of importance_classes",
        ),
        (
            "prior: {gold: 0.1, silver: 0.2}, importance_classes: {gold: 3, silver: 3}",
            "dedup.prior (line 4): differs for \"gold\" and \"silver\", which have the same importance",
        ),
    ] {
        let message = error(&stream.replace("DEDUP", dedup));
        assert!(message.contains(expected), "{dedup}: {message}");
    }
}
