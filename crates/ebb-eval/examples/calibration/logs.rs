//! The real logs: a day of web requests as TSV, and requests in Apache's log format.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::streams::{Stream, Window};

/// Windows of events that the logs are run with.
const WINDOWS: [u64; 2] = [512, 2048];

fn directory() -> PathBuf {
    std::env::var_os("EBB_DATA").map_or_else(|| PathBuf::from("data"), PathBuf::from)
}

/// The logs that are present, with an item of client and path, and one of the client alone.
pub fn real() -> Vec<Stream> {
    let mut streams = Vec::new();
    for (name, requests) in [("web day", web_day(&directory())), ("apache", apache(&directory()))] {
        let Some(requests) = requests else {
            println!("{name}: the log was not found in {}\n", directory().display());
            continue;
        };
        for window in WINDOWS {
            let pairs = requests.iter().map(|(client, path, time)| (format!("{client} {path}"), *time));
            streams.push(stream(format!("{name}, client and path, {window} events"), window, pairs));
            let paths = requests.iter().map(|(_, path, time)| (path.clone(), *time));
            streams.push(stream(format!("{name}, path, {window} events"), window, paths));
        }
    }
    streams
}

fn stream(name: String, window: u64, requests: impl Iterator<Item = (String, i64)>) -> Stream {
    let mut numbers: HashMap<String, u64> = HashMap::new();
    let arrivals = requests.map(|(item, time)| {
        let next = numbers.len() as u64;
        (*numbers.entry(item).or_insert(next), time, false)
    });
    Stream::new(name, Window::Events(window), arrivals.collect())
}

type Request = (String, String, i64);

fn web_day(directory: &Path) -> Option<Vec<Request>> {
    let text = String::from_utf8_lossy(&std::fs::read(directory.join("nasa_19950801.tsv")).ok()?).into_owned();
    let request = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        Some((fields.first()?.to_string(), fields.get(4)?.to_string(), fields.get(2)?.parse::<i64>().ok()? * 1000))
    };
    Some(text.lines().skip(1).filter_map(request).collect())
}

fn apache(directory: &Path) -> Option<Vec<Request>> {
    let text = String::from_utf8_lossy(&std::fs::read(directory.join("apache_access_2015.log")).ok()?).into_owned();
    // Event time is not needed: the windows count events.
    let request = |(index, line): (usize, &str)| {
        let client = line.split(' ').next()?;
        let path = line.split('"').nth(1)?.split(' ').nth(1)?;
        Some((client.to_string(), path.to_string(), index as i64 * 1000))
    };
    Some(text.lines().enumerate().filter_map(request).collect())
}
