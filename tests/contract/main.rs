//! The API against its OpenAPI description: every example works, and schemathesis, which generates valid and invalid
//! requests from the description, finds no difference.
//!
//! `EBB_CONTRACT=N` sets the number of generated requests of each kind per operation; the default keeps the test to about a
//! minute.

#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use support::{Ebb, free_address};
use tempfile::TempDir;

/// Number of generated requests of each kind per operation, unless `EBB_CONTRACT` is set.
const DEFAULT_EXAMPLES: &str = "8";

/// A service with recorded clicks.
struct Service {
    ebb: Ebb,
    _data: TempDir,
}

impl Service {
    fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let config = root().join("tests/contract/ebb.yaml");
        let mut ebb = Ebb::start(&config, free_address(), &[("EBB_DATA_DIR", data.path().to_str().unwrap())]);
        ebb.wait_ready(Duration::from_secs(60));
        let click = |i: usize| {
            json!({
                "click_id": format!("seed-{i}"), "ts": 1_700_000_000_000_u64 + i as u64, "ip": format!("10.0.0.{}", i % 90),
                "ad": "ad-7", "user": "u-1", "campaign": format!("c{}", i % 3), "tier": 1, "cost": (i % 40) as f64 / 100.0
            })
        };
        let clicks: Vec<Value> = (0..400).map(click).collect();
        let body = json!({"events": clicks, "record": true}).to_string();
        let (status, answer) = ebb.post("/v1/streams/clicks/decide", &body).expect("a response");
        assert_eq!(status, 200, "{answer}");
        let visits: Vec<Value> = (0..8).map(|i| json!({"ip": format!("10.0.0.{i}")})).collect();
        let body = json!({"events": visits, "record": true}).to_string();
        assert_eq!(ebb.post("/v1/streams/counted/decide", &body).expect("a response").0, 200);
        Self { ebb, _data: data }
    }

    /// Status and body, which may be binary.
    fn get(&self, target: &str) -> (u16, Vec<u8>) {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        let mut response = agent.get(self.ebb.url(target)).call().expect("a response");
        (response.status().as_u16(), response.body_mut().read_to_vec().expect("a whole body"))
    }

    fn description(&self) -> Value {
        let (status, text) = self.ebb.get("/openapi.json").expect("a response");
        assert_eq!(status, 200);
        serde_json::from_str(&text).unwrap()
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Percent-encodes a value for a URL.
fn encoded(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(Value::to_string).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Each statistic with the parameters it requires.
const STATISTICS: [(&str, &str); 7] = [
    ("sum", ""),
    ("count", ""),
    ("mean", ""),
    ("quantiles", "&phi=0.5,0.99"),
    ("rank", "&value=0.05"),
    ("top", "&phi=0.05&mode=no-false-positives"),
    ("share", "&where=value%20%3E%3D%200.25"),
];

/// The path with the examples of its parameters, once with the required ones and once with all that have an example; for
/// each statistic, if it has that parameter.
fn targets(path: &str, operation: &Value) -> Vec<String> {
    let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    let example = |parameter: &Value| {
        [&parameter["example"], &parameter["schema"]["example"]].into_iter().find(|value| !value.is_null()).map(encoded)
    };
    let mut path = path.to_owned();
    let mut statistics = vec![("", "")];
    for parameter in parameters.iter().filter(|parameter| parameter["in"] == "path") {
        let name = parameter["name"].as_str().unwrap();
        if name == "statistic" {
            // The aggregate of the example counts no different values.
            let names = STATISTICS.iter().map(|(name, _)| *name).chain(["distinct"]);
            assert_eq!(parameter["schema"]["enum"], json!(names.collect::<Vec<_>>()));
            statistics = STATISTICS.to_vec();
        } else {
            let example = example(parameter).expect("a path parameter has an example");
            path = path.replace(&format!("{{{name}}}"), &example);
        }
    }
    let query = |is_selected: &dyn Fn(&Value) -> bool| {
        let selected = parameters.iter().filter(|parameter| parameter["in"] == "query" && is_selected(parameter));
        let pairs = selected.filter_map(|one| Some(format!("{}={}", one["name"].as_str()?, example(one)?)));
        pairs.collect::<Vec<_>>().join("&")
    };
    let queries = [query(&|parameter| parameter["required"] == true), query(&|_| true)];
    let target = |(name, required): &(&str, &str), query: &str| {
        format!("{}?{query}{required}", path.replace("{statistic}", name))
    };
    statistics.iter().flat_map(|statistic| queries.iter().map(|query| target(statistic, query))).collect()
}

#[test]
fn every_example_in_the_description_works() {
    let service = Service::start();
    let described = service.description();
    let mut sent = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for target in targets(path, operation) {
                let content = &operation["requestBody"]["content"];
                if method == "get" {
                    let (status, bytes) = service.get(&target);
                    assert_eq!(status, 200, "{target}: {}", String::from_utf8_lossy(&bytes));
                    sent += 1;
                } else if let Some(examples) = content["application/json"]["examples"].as_object() {
                    for (name, example) in examples {
                        let (status, answer) =
                            service.ebb.post(&target, &example["value"].to_string()).expect("a response");
                        assert_eq!(status, 200, "{target}, {name}: {answer}");
                        assert_ne!(answer["verdict"], "rejected", "{target}, {name}: {answer}");
                        sent += 1;
                    }
                } else if content.is_null() {
                    let (status, answer) = service.ebb.post(&target, "").expect("a response");
                    assert_eq!(status, 200, "{target}: {answer}");
                    sent += 1;
                } else {
                    assert!(content["application/octet-stream"].is_object(), "{method} {path} has no example");
                }
            }
        }
    }
    println!("{sent} examples sent");
    assert!(sent > 40, "{sent} examples");
}

#[test]
fn schemathesis_finds_no_difference() {
    let fetched = Command::new(root().join("scripts/contract.sh")).status().expect("a shell");
    assert!(fetched.success(), "schemathesis cannot be installed: {fetched}");
    let service = Service::start();
    let target = std::env::var("CARGO_TARGET_DIR").map_or_else(|_| root().join("target"), PathBuf::from);
    let count = std::env::var("EBB_CONTRACT").unwrap_or_else(|_| DEFAULT_EXAMPLES.into());
    let checked = schemathesis(&target, &service, &count).output().expect("schemathesis starts");
    let output = String::from_utf8_lossy(&checked.stdout);
    println!("{output}{}", String::from_utf8_lossy(&checked.stderr));
    assert!(checked.status.success(), "the service differs from its description: {}", checked.status);
    assert!(output.contains("No issues found"), "nothing was checked");
}

/// Runs in the target directory, where it may leave files.
fn schemathesis(target: &Path, service: &Service, count: &str) -> Command {
    let (directory, config) = (target.join("contract"), root().join("tests/contract"));
    let mut command = Command::new(directory.join("venv/bin/schemathesis"));
    command
        .current_dir(directory)
        .env("EBB_URL", service.ebb.url(""))
        .env("PYTHONPATH", &config)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg("--config-file")
        .arg(config.join("schemathesis.toml"))
        .args(["run", &service.ebb.url("/openapi.json")])
        .args(["--seed", "1", "--max-examples", count, "--no-color"]);
    command
}
