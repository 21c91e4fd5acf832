//! Reads a log of tab-separated columns, independently of Ebb.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// One request.
#[derive(Debug, Clone)]
pub struct Line {
    pub host: String,
    pub url: String,
    pub time_ms: i64,
    /// `None` if it is not a number.
    pub bytes: Option<f64>,
    /// The event that is sent to the service.
    pub json: Value,
}

/// Every line after the header; `None` for malformed lines.
pub fn read(path: &Path) -> Vec<Option<Line>> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut lines = bytes.split(|byte| *byte == b'\n').map(std::str::from_utf8);
    let header: Vec<&str> = lines.next().unwrap().unwrap().split('\t').collect();
    let index = |name: &str| header.iter().position(|column| *column == name).unwrap_or_else(|| panic!("no {name}"));
    let indices = ["host", "url", "time", "bytes"].map(index);
    let parsed = lines.map(|line| {
        let cells: Vec<&str> = line.ok()?.split('\t').collect();
        let [host, url, time, bytes] = indices.map(|index| cells.get(index).copied().unwrap_or_default());
        (cells.len() == header.len()).then(|| Line::new(host, url, time, bytes))
    });
    let mut all: Vec<Option<Line>> = parsed.collect();
    // The remainder after the last line break.
    all.pop();
    all
}

impl Line {
    fn new(host: &str, url: &str, time: &str, bytes: &str) -> Self {
        let number = |text: &str| text.parse::<serde_json::Number>().map_or(json!(text), Value::Number);
        Self {
            host: host.to_owned(),
            url: url.to_owned(),
            time_ms: time.parse::<i64>().expect("whole seconds") * 1_000,
            bytes: bytes.parse().ok(),
            json: json!({"host": host, "url": url, "time": number(time), "bytes": number(bytes)}),
        }
    }
}
