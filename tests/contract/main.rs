//! The API against its own description: every example works, and schemathesis, which makes up requests from the
//! description, right ones and wrong ones, finds nothing that is not as described.
//!
//! `EBB_CONTRACT=N` lets it make up N requests of each kind for each operation; without it there are few, so that the test
//! ends within about a minute.

#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use support::{Ebb, free_address};
use tempfile::TempDir;

/// Requests of each kind, where nobody says how many.
const FEW: &str = "8";

/// A service that has seen some clicks.
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
        let (status, answer) = ebb.post("/v1/streams/clicks/decide", &body).expect("an answer");
        assert_eq!(status, 200, "{answer}");
        let visits: Vec<Value> = (0..8).map(|i| json!({"ip": format!("10.0.0.{i}")})).collect();
        let body = json!({"events": visits, "record": true}).to_string();
        assert_eq!(ebb.post("/v1/streams/counted/decide", &body).expect("an answer").0, 200);
        Self { ebb, _data: data }
    }

    /// Status and body, which may be no text.
    fn get(&self, target: &str) -> (u16, Vec<u8>) {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        let mut response = agent.get(self.ebb.url(target)).call().expect("an answer");
        (response.status().as_u16(), response.body_mut().read_to_vec().expect("a whole body"))
    }

    fn description(&self) -> Value {
        let (status, text) = self.ebb.get("/openapi.json").expect("an answer");
        assert_eq!(status, 200);
        serde_json::from_str(&text).unwrap()
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Text as it may stand in a URL.
fn encoded(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(Value::to_string).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The path with the examples of its parameters, once with those that must be there and once with all that have one.
fn targets(path: &str, operation: &Value) -> Vec<String> {
    let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    let example = |parameter: &Value| {
        [&parameter["example"], &parameter["schema"]["example"]].into_iter().find(|value| !value.is_null()).map(encoded)
    };
    let mut path = path.to_owned();
    for parameter in parameters.iter().filter(|parameter| parameter["in"] == "path") {
        let name = parameter["name"].as_str().unwrap();
        path = path.replace(&format!("{{{name}}}"), &example(parameter).expect("a path's parameter has an example"));
    }
    let query = |is_wanted: &dyn Fn(&Value) -> bool| {
        let wanted = parameters.iter().filter(|parameter| parameter["in"] == "query" && is_wanted(parameter));
        let pairs = wanted.filter_map(|one| Some(format!("{}={}", one["name"].as_str()?, example(one)?)));
        pairs.collect::<Vec<_>>().join("&")
    };
    [query(&|parameter| parameter["required"] == true), query(&|_| true)].map(|query| format!("{path}?{query}")).into()
}

#[test]
fn every_example_of_the_description_works() {
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
                            service.ebb.post(&target, &example["value"].to_string()).expect("an answer");
                        assert_eq!(status, 200, "{target}, {name}: {answer}");
                        assert_ne!(answer["verdict"], "rejected", "{target}, {name}: {answer}");
                        sent += 1;
                    }
                } else if content.is_null() {
                    let (status, answer) = service.ebb.post(&target, "").expect("an answer");
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
fn schemathesis_finds_nothing() {
    let fetched = Command::new(root().join("scripts/contract.sh")).status().expect("a shell");
    assert!(fetched.success(), "the checker cannot be had: {fetched}");
    let service = Service::start();
    let target = std::env::var("CARGO_TARGET_DIR").map_or_else(|_| root().join("target"), PathBuf::from);
    let count = std::env::var("EBB_CONTRACT").unwrap_or_else(|_| FEW.into());
    let checked = checker(&target, &service, &count).output().expect("the checker starts");
    let told = String::from_utf8_lossy(&checked.stdout);
    println!("{told}{}", String::from_utf8_lossy(&checked.stderr));
    assert!(checked.status.success(), "the service and its description differ: {}", checked.status);
    assert!(told.contains("No issues found"), "nothing was checked");
}

/// Works where nothing is lost that it leaves behind.
fn checker(target: &Path, service: &Service, count: &str) -> Command {
    let (place, given) = (target.join("contract"), root().join("tests/contract"));
    let mut command = Command::new(place.join("venv/bin/schemathesis"));
    command
        .current_dir(place)
        .env("EBB_URL", service.ebb.url(""))
        .env("PYTHONPATH", &given)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg("--config-file")
        .arg(given.join("schemathesis.toml"))
        .args(["run", &service.ebb.url("/openapi.json")])
        .args(["--seed", "1", "--max-examples", count, "--no-color"]);
    command
}
