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

/// The plan of one stream with this `dedup` section and event.
fn planned(event: &str, dedup: &str, arguments: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ebb.yaml");
    std::fs::write(&file, format!("streams:\n  s:\n    event: {event}\n    dedup: {dedup}\n")).unwrap();
    json(&ebb(&[&["plan", file.to_str().unwrap(), "--json"][..], arguments].concat()))
}

/// All numbers of fields whose name says that they are a share.
fn shares(plan: &Value) -> Vec<f64> {
    match plan {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| match value.as_f64() {
                Some(number) if name.ends_with("share") || name == "fill" => vec![number],
                _ => shares(value),
            })
            .collect(),
        Value::Array(values) => values.iter().flat_map(shares).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn no_probability_exceeds_one() {
    for memory in ["1KiB", "64KiB", "1MiB"] {
        for (distinct, seen) in [("0.05", "first"), ("0.3", "first"), ("0.9", "first"), ("0.3", "last"), ("1", "first")]
        {
            let traffic = ["--window", "1h", "--rate", "500", "--distinct", distinct, "--seen", seen];
            let plan = json(&ebb(&[&["plan", "--memory", memory, "--json"][..], &traffic].concat()));
            let shares = shares(&plan);
            assert!(shares.len() >= 9 && shares.iter().all(|share| (0.0..=1.0).contains(share)), "{memory} {shares:?}");
        }
    }
}

#[test]
fn filters_that_forget_at_random_are_sized_for_missed_duplicates() {
    let plan = planned("{item: ip}", "{filter: stable, window: 10000 events, error: 0.001}", &[]);
    let sized = &forecasts(&plan)[0];
    assert!(number(&sized["false_duplicate_share"]) <= 0.001, "{sized}");
    assert!(number(&sized["forgetting"]["missed_share"]) <= 0.01, "{sized}");
    assert!(number(&sized["forgetting"]["half_forgotten_events"]) > 10_000.0, "{sized}");
    let dedup = "{filter: importance-mc, window: 1h, rate: 10, error: 0.05, missed: 0.02, importance_classes: {gold: 3, \
                 silver: 2, bronze: 1}, importance_mix: {gold: 0.1, silver: 0.3, bronze: 0.6}}";
    let plan = planned("{item: ip, importance: tier}", dedup, &[]);
    let classes = forecasts(&plan)[0]["forgetting"]["classes"].as_array().unwrap();
    let named: Vec<&str> = classes.iter().filter_map(|class| class["class"].as_str()).collect();
    assert_eq!(named, ["bronze", "silver", "gold"]);
    let missed: Vec<f64> = classes.iter().map(|class| number(&class["missed_share"])).collect();
    assert!(missed[2] <= 0.02 && missed.is_sorted_by(|a, b| a > b), "{missed:?}");
    assert!((number(&classes[0]["share"]) - 0.6).abs() < 1e-9);
    let told = forecasts(&plan)[0]["forgetting"]["half_forgotten"].as_str().unwrap();
    assert!(told.contains('h') || told.contains('m'), "{told}");
}

#[test]
fn a_classic_filter_meets_any_error() {
    for error in ["0.01", "0.0001", "0.000001", "0.000000001"] {
        let plan =
            planned("{item: ip}", &format!("{{filter: classic, items: 100000, error: {error}}}"), &["--distinct", "1"]);
        let rate = number(&forecasts(&plan)[0]["false_duplicate_share"]);
        assert!(rate <= error.parse().unwrap(), "{error}: {rate}");
    }
}

#[test]
fn plan_shows_the_budget_of_aggregates_and_what_heavy_keys_take_without_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ebb.yaml");
    let config = "streams:\n  clicks:\n    event: {item: [ip], key: campaign, value: cost}\n    dedup: {window: 1h, memory: 1MiB}\n    aggregates:\n      spend: {of: value, keys: 10000, memory: 64MiB}\n      exact: {of: value, keys: 10000, method: cascade}\n";
    std::fs::write(&file, config).unwrap();
    let plan = json(&ebb(&["plan", file.to_str().unwrap(), "--rate", "100", "--json"]));
    let views = plan["streams"][0]["views"].as_array().unwrap();
    let find = |name: &str| views.iter().find(|view| view["name"] == name).unwrap();
    let (limited, unlimited) = (find("aggregate spend"), find("aggregate exact"));
    assert_eq!(limited["memory_bytes"], 64 << 20);
    assert!(limited["note"].as_str().unwrap().contains("of 10000 keys"), "{limited}");
    assert!(number(&unlimited["memory_bytes"]) > 1e9, "{unlimited}");
    assert!(unlimited["note"].as_str().unwrap().contains("without a limit"), "{unlimited}");
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
