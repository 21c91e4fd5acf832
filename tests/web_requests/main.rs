//! A day of web requests through the running service: every decision and answer is compared with naive exact ones, and
//! `ebb eval` on the same log must report the same figures.

mod answers;
mod decisions;
mod eval_report;
mod log;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use answers::Answers;
use decisions::{Decisions, WINDOWS};
use ebb_traffic::requests::{Request, RequestOptions, Requests};
use support::Ebb;

const START_MS: i64 = 807_235_200_000;
const DAY_MS: i64 = 86_400_000;
/// How often aggregates are queried.
const MOMENTS: usize = 12;
const BATCH: usize = 1_000;

fn configuration() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/web-requests.yaml")
}

/// The results of the service for a log.
struct ServiceRun {
    decisions: Vec<Decisions>,
    answers: Answers,
    bad_lines: usize,
}

impl ServiceRun {
    /// Sends the log to a service with the data directory `data` and a fixed hash key.
    fn new(lines: &[Option<log::Line>], every: usize, data: &Path) -> Self {
        fs::write(data.join("hash.key"), "00112233445566778899aabbccddeeff\n").unwrap();
        let data = data.to_str().unwrap();
        let variables = [("EBB_DATA_DIR", data), ("EBB_LOG__LEVEL", "warn"), ("EBB_CHECKPOINT__EVERY", "1h")];
        let mut ebb = Ebb::start(&configuration(), support::free_address(), &variables);
        ebb.wait_ready(Duration::from_secs(60));
        let mut service = Self {
            decisions: WINDOWS.iter().map(Decisions::new).collect(),
            answers: Answers::default(),
            bad_lines: lines.iter().filter(|line| line.is_none()).count(),
        };
        for chunk in lines.chunks(every) {
            for batch in chunk.chunks(BATCH) {
                let events: Vec<&log::Line> = batch.iter().flatten().collect();
                service.decisions.iter_mut().for_each(|stream| stream.record(&ebb, &events));
                service.answers.add(&events);
            }
            service.decisions.iter_mut().for_each(|stream| stream.read_rate(&ebb));
            service.answers.query(&ebb);
        }
        service
    }

    fn print(&self) {
        self.decisions.iter().for_each(|stream| println!("{stream}"));
        println!("{}", self.answers);
    }

    fn check(&self) {
        self.decisions.iter().for_each(Decisions::check);
        self.answers.check();
    }
}

/// Runs the service and `ebb eval` on a log and compares both with exact results and with each other.
fn run(log: &Path) -> ServiceRun {
    let data = tempfile::tempdir().unwrap();
    let lines = log::read(log);
    let every = lines.len().div_ceil(MOMENTS);
    let service = ServiceRun::new(&lines, every, data.path());
    service.print();
    service.check();
    let report = eval_report::evaluate(log, every, data.path());
    println!("{}", report.text);
    report.compare(&service);
    service
}

#[test]
fn generated_log_stays_within_the_stated_bounds_and_eval_agrees() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("requests.tsv");
    let options = RequestOptions { start_ms: START_MS, rate_per_second: 0.3, ..RequestOptions::default() };
    let day = Requests::new(1995, options).unwrap().take_while(|request| request.at_ms < START_MS + DAY_MS);
    let mut text: Vec<String> = std::iter::once(Request::HEADER.to_owned()).chain(day.map(|one| one.tsv())).collect();
    assert!(text.len() > 20_000, "{} lines", text.len());
    // Malformed lines as in real logs.
    text.insert(500, "cut off\t-\t8072\n".into());
    text.insert(700, "host-1\t-\t807235300\tGET\t/pages/0001.html\t200\t-\t\t\n".into());
    fs::write(&log, text.concat()).unwrap();
    let service = run(&log);
    assert_eq!(service.bad_lines, 1);
    let ten_minutes = &service.decisions[2];
    assert_eq!(ten_minutes.rejected, 1, "bytes that are not a number");
    assert!(service.decisions.iter().all(|stream| stream.repeats > 300), "too few repeats");
    assert!(service.decisions.iter().all(|stream| stream.late > 0), "no late lines");
}

#[test]
#[ignore = "make eval-real LOG=FILE runs it"]
fn real_log_stays_within_the_stated_bounds_and_eval_agrees() {
    let log = std::env::var("EBB_REAL_LOG").expect("set EBB_REAL_LOG to a TSV file with host, time, url and bytes");
    let service = run(Path::new(&log));
    println!("{} bad lines", service.bad_lines);
}
