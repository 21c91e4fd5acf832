//! `ebb ask` against a running service.

use std::io::Write;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{ebb, json, text};

const CONFIG: &str = "streams:\n  clicks:\n    event: {item: [ip, ad], key: campaign, value: cost}\n    dedup: {window: 1h, memory: 1MiB}\n    frequency: {memory: 64KiB}\n    aggregates: {spend: {of: value, epsilon: 0.1, keys: 10}}\n";

/// A running service. It is killed when this is dropped.
struct RunningService {
    process: Child,
    url: String,
    _directory: tempfile::TempDir,
}

impl RunningService {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ebb.yaml");
        std::fs::write(&file, CONFIG).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Command::new(env!("CARGO_BIN_EXE_ebb"))
            .args(["serve", file.to_str().unwrap()])
            .env("EBB_HTTP__LISTEN", format!("127.0.0.1:{port}"))
            .env("EBB_DATA_DIR", directory.path().join("data"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let service = Self { process, url: format!("http://127.0.0.1:{port}"), _directory: directory };
        let started = Instant::now();
        while !service.ask(&["ready"]).status.success() {
            assert!(started.elapsed() < Duration::from_secs(60), "the service is not ready");
            std::thread::sleep(Duration::from_millis(50));
        }
        service
    }

    fn ask(&self, arguments: &[&str]) -> std::process::Output {
        ebb(&[&["ask", "--url", &self.url][..], arguments].concat())
    }
}

impl Drop for RunningService {
    fn drop(&mut self) {
        // Errors mean that it has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn decide_aggregate_and_status_print_answers() {
    let service = RunningService::start();
    let event = r#"{"ip":"10.1.2.3","ad":7,"campaign":"c1","cost":2.5}"#;
    let verdict = |arguments: &[&str]| json(&service.ask(arguments))["verdict"].as_str().map(str::to_string);
    assert_eq!(verdict(&["decide", "clicks", event, "--json"]).as_deref(), Some("unique"));
    assert_eq!(verdict(&["decide", "clicks", event, "--record", "--json"]).as_deref(), Some("unique"));
    assert_eq!(verdict(&["decide", "clicks", event, "--window", "10m", "--json"]).as_deref(), Some("duplicate"));
    let shown = service.ask(&["decide", "clicks", event]);
    assert!(text(&shown.stdout).contains("duplicate"), "{}", text(&shown.stdout));
    let sum =
        json(&service.ask(&["aggregate", "clicks", "spend", "sum", "--decay", "window:1h", "--key", "c1", "--json"]));
    assert_eq!(sum["value"], 2.5, "{sum}");
    let status = service.ask(&["status", "clicks"]);
    assert!(status.status.success() && text(&status.stdout).contains("shards"), "{}", text(&status.stdout));
}

#[test]
fn lines_of_standard_input_are_sent_as_one_batch() {
    let service = RunningService::start();
    let mut asking = Command::new(env!("CARGO_BIN_EXE_ebb"))
        .args(["ask", "--url", &service.url, "decide", "clicks", "--record", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = [1, 2, 1].map(|ad| format!("{{\"ip\":\"a\",\"ad\":{ad},\"campaign\":\"c\",\"cost\":1}}\n")).concat();
    asking.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let answer = json(&asking.wait_with_output().unwrap()).to_string();
    assert_eq!(answer.matches(r#""verdict":"unique""#).count(), 2, "{answer}");
    assert_eq!(answer.matches(r#""verdict":"duplicate""#).count(), 1, "{answer}");
}

#[test]
fn error_response_is_printed_and_exits_with_status_1() {
    let service = RunningService::start();
    let output = service.ask(&["decide", "nothing", "{}"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("Unknown stream (404): the streams are: clicks"), "{}", text(&output.stderr));
    let broken = service.ask(&["decide", "clicks", "{no json"]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(text(&broken.stderr).contains("event 1 is not JSON"), "{}", text(&broken.stderr));
    let unreachable = ebb(&["ask", "--url", "http://127.0.0.1:1", "ready"]);
    assert_eq!(unreachable.status.code(), Some(1));
    assert!(text(&unreachable.stderr).contains("cannot reach http://127.0.0.1:1"), "{}", text(&unreachable.stderr));
}
