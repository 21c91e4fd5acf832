//! A log as tab-separated columns, read with nothing of Ebb.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// One request.
#[derive(Debug, Clone)]
pub struct Line {
    pub host: String,
    pub url: String,
    pub time_ms: i64,
    /// None when it is no number.
    pub bytes: Option<f64>,
    /// The event as it is sent.
    pub json: Value,
}

/// Every line but the first; none where a line is no request.
pub fn read(path: &Path) -> Vec<Option<Line>> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut lines = bytes.split(|byte| *byte == b'\n').map(std::str::from_utf8);
    let header: Vec<&str> = lines.next().unwrap().unwrap().split('\t').collect();
    let place = |name: &str| header.iter().position(|column| *column == name).unwrap_or_else(|| panic!("no {name}"));
    let places = ["host", "url", "time", "bytes"].map(place);
    let parsed = lines.map(|line| {
        let cells: Vec<&str> = line.ok()?.split('\t').collect();
        let [host, url, time, bytes] = places.map(|place| cells.get(place).copied().unwrap_or_default());
        (cells.len() == header.len()).then(|| Line::new(host, url, time, bytes))
    });
    let mut all: Vec<Option<Line>> = parsed.collect();
    // What follows the last end of a line is no line.
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
