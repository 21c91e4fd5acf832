//! A day of web requests through the running service, over HTTP: every decision and every answer held against naive exact
//! ones, and `ebb eval` on the same log held against what came out.

#[path = "web_requests/answers.rs"]
mod answers;
#[path = "web_requests/decisions.rs"]
mod decisions;
#[path = "web_requests/figures.rs"]
mod figures;
#[path = "web_requests/log.rs"]
mod log;
#[path = "support/mod.rs"]
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
/// Aggregates are asked this often.
const MOMENTS: usize = 12;
const BATCH: usize = 1_000;

fn configuration() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/web-requests.yaml")
}

/// Everything that the service said about a log.
struct Judged {
    decisions: Vec<Decisions>,
    answers: Answers,
    bad_lines: usize,
}

impl Judged {
    /// Feeds the log to a service that runs on `data`, whose hash key is always the same.
    fn by_service(lines: &[Option<log::Line>], every: usize, data: &Path) -> Self {
        fs::write(data.join("hash.key"), "00112233445566778899aabbccddeeff\n").unwrap();
        let data = data.to_str().unwrap();
        let variables = [("EBB_DATA_DIR", data), ("EBB_LOG__LEVEL", "warn"), ("EBB_CHECKPOINT__EVERY", "1h")];
        let mut ebb = Ebb::start(&configuration(), support::free_address(), &variables);
        ebb.wait_ready(Duration::from_secs(60));
        let mut judged = Self {
            decisions: WINDOWS.iter().map(Decisions::new).collect(),
            answers: Answers::default(),
            bad_lines: lines.iter().filter(|line| line.is_none()).count(),
        };
        for chunk in lines.chunks(every) {
            for batch in chunk.chunks(BATCH) {
                let events: Vec<&log::Line> = batch.iter().flatten().collect();
                judged.decisions.iter_mut().for_each(|stream| stream.record(&ebb, &events));
                judged.answers.take(&events);
            }
            judged.decisions.iter_mut().for_each(|stream| stream.look(&ebb));
            judged.answers.ask(&ebb);
        }
        judged
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

/// Feeds a log to the service and to `ebb eval`, and holds both against the truth and against each other.
fn judge(log: &Path) -> Judged {
    let data = tempfile::tempdir().unwrap();
    let lines = log::read(log);
    let every = lines.len().div_ceil(MOMENTS);
    let judged = Judged::by_service(&lines, every, data.path());
    judged.print();
    judged.check();
    let figures = figures::evaluate(log, every, data.path());
    println!("{}", figures.text);
    figures.compare(&judged);
    judged
}

#[test]
fn a_generated_day_is_decided_and_added_up_within_the_stated_bounds_and_evaluated_alike() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("requests.tsv");
    let options = RequestOptions { start_ms: START_MS, rate_per_second: 0.3, ..RequestOptions::default() };
    let day = Requests::new(1995, options).unwrap().take_while(|request| request.at_ms < START_MS + DAY_MS);
    let mut text: Vec<String> = std::iter::once(Request::HEADER.to_owned()).chain(day.map(|one| one.tsv())).collect();
    assert!(text.len() > 20_000, "{} lines", text.len());
    // Nothing that a real log would not have, too.
    text.insert(500, "cut off\t-\t8072\n".into());
    text.insert(700, "host-1\t-\t807235300\tGET\t/pages/0001.html\t200\t-\t\t\n".into());
    fs::write(&log, text.concat()).unwrap();
    let judged = judge(&log);
    assert_eq!(judged.bad_lines, 1);
    let ten_minutes = &judged.decisions[2];
    assert_eq!(ten_minutes.rejected, 1, "bytes that are no number");
    assert!(judged.decisions.iter().all(|stream| stream.repeats > 300), "there is something to find");
    assert!(judged.decisions.iter().all(|stream| stream.late > 0), "some lines come too late to be judged");
}

#[test]
#[ignore = "make eval-real LOG=FILE runs it"]
fn a_real_log_is_decided_and_added_up_within_the_stated_bounds_and_evaluated_alike() {
    let log = std::env::var("EBB_REAL_LOG").expect("EBB_REAL_LOG names a TSV file with host, time, url and bytes");
    let judged = judge(Path::new(&log));
    println!("{} bad lines", judged.bad_lines);
}
