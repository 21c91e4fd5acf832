//! `ebb plan` on the command line.

use serde_json::Value;

use crate::{ebb, json, text};

fn forecasts(plan: &Value) -> &Vec<Value> {
    plan["streams"][0]["dedup"].as_array().expect("forecasts")
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn error_falls_with_memory_and_rises_with_rate_and_window() {
    let plan = json(&ebb(&["plan", "--window", "24h", "--rate", "2000", "--memory", "256MiB", "--json"]));
    let forecasts = forecasts(&plan);
    let named: Vec<&str> = forecasts.iter().filter_map(|forecast| forecast["what"].as_str()).collect();
    assert_eq!(named, ["as planned", "twice the memory", "twice the rate", "twice the window"]);
    let errors: Vec<f64> = forecasts.iter().map(|choice| number(&choice["false_duplicate_share"])).collect();
    assert!(errors[1] < errors[0] && errors[0] < errors[2] && errors[0] < errors[3], "{errors:?}");
    for forecast in forecasts {
        let penalty = |name: &str| number(&forecast["penalty"][name]);
        assert!(
            penalty("posterior") <= penalty("standard").min(penalty("without_filter")) * (1.0 + 1e-9),
            "{forecast}"
        );
    }
    assert_eq!(plan["streams"][0]["memory_bytes"], 256 << 20);
}

#[test]
fn error_target_is_met_and_shown_in_the_table() {
    let arguments = ["plan", "--window", "1h", "--rate", "5000", "--error", "0.01", "--partitions", "4"];
    let plan = json(&ebb(&[&arguments[..], &["--json"]].concat()));
    let planned = &forecasts(&plan)[0];
    assert!(number(&planned["false_duplicate_share"]) <= 0.01, "{planned}");
    assert_eq!(plan["streams"][0]["assumed"]["events_per_second"], 1250.0);
    let output = ebb(&arguments);
    for word in ["in each of 4 partitions", "timers", "twice the window", "posterior"] {
        assert!(text(&output.stdout).contains(word), "{word}:\n{}", text(&output.stdout));
    }
}

#[test]
fn plan_of_a_configuration_includes_every_view() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ebb.yaml");
    let config = "streams:\n  clicks:\n    event: {item: [ip], key: campaign, value: cost}\n    dedup: {window: 1h, memory: 1MiB, penalty: {false_duplicate: 0.4, missed_duplicate: 0.05}}\n    frequency: {memory: 1MiB}\n    aggregates: {spend: {of: value, keys: 100}}\n";
    std::fs::write(&file, config).unwrap();
    let path = file.to_str().unwrap();
    let refused = ebb(&["plan", path]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("--rate"), "{}", text(&refused.stderr));
    let plan = json(&ebb(&["plan", path, "--rate", "100", "--json"]));
    let views = plan["streams"][0]["views"].as_array().unwrap();
    let named: Vec<&str> = views.iter().filter_map(|view| view["name"].as_str()).collect();
    assert_eq!(named, ["dedup", "frequency", "aggregate spend"]);
    assert!(views.iter().all(|view| number(&view["memory_bytes"]) > 0.0), "{views:?}");
    assert_eq!(plan["streams"][0]["assumed"]["false_duplicate_penalty"], 0.4);
}

#[test]
fn plan_shows_the_digits_of_the_frequency_view() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ebb.yaml");
    for (keys, expected) in [
        ("method: optimised", "digits of 14 bits, 8 of them fractional, and a pool of"),
        ("method: optimised, epoch: 2h", "digits of 10 bits, 4 of them fractional, and a pool of"),
        ("method: optimised, pool: 4096", "a pool of 4,096 digits; epochs of 3m45s, rounding adds at most 0.092"),
        ("method: basic", "262,144 counters of 32 bits, 8 of them fractional"),
    ] {
        let config = format!("streams: {{s: {{event: {{item: ip}}, frequency: {{memory: 1MiB, {keys}}}}}}}");
        std::fs::write(&file, config).unwrap();
        let arguments = ["plan", file.to_str().unwrap(), "--rate", "100"];
        assert!(text(&ebb(&arguments).stdout).contains(expected), "{keys}: {}", text(&ebb(&arguments).stdout));
        let plan = json(&ebb(&[&arguments[..], &["--json"]].concat()));
        let view = &plan["streams"][0]["views"][1];
        assert!(number(&view["memory_bytes"]) <= 1_048_576.0, "{view}");
    }
}

#[test]
fn invalid_arguments_are_configuration_errors() {
    for arguments in [["--window", "1 year", "--rate", "5"], ["--window", "1h", "--rate", "-5"]] {
        let output = ebb(&[&["plan"][..], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    }
    assert_eq!(ebb(&["plan"]).status.code(), Some(2));
}
