//! Do stated probabilities come true, and do decisions by posterior pay, from a cold start? `make calibration` runs it.
//!
//! Every stream is run under several hash keys. For each the report states how soon the posterior is used, how far stated
//! probabilities are from observed frequencies (with exact intervals), and what the service, the standard filter and
//! accepting everything cost in each window. The run fails if a target is missed. Arguments select streams by the start
//! of their name; `EBB_KEYS` sets the number of hash keys, `EBB_DATA` the directory of the real logs.

mod logs;
mod measure;
mod reference;
mod report;
mod streams;

use std::process::ExitCode;

use report::Report;

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let keys = std::env::var("EBB_KEYS").ok().and_then(|keys| keys.parse().ok()).unwrap_or(20);
    let mut met = true;
    for stream in streams::synthetic().into_iter().chain(logs::real()) {
        if names.is_empty() || names.iter().any(|name| stream.name.starts_with(name.as_str())) {
            let (measurement, reference) = (measure::run(&stream, keys), reference::run(&stream));
            let report = Report::new(&stream, &measurement, reference);
            report.print();
            met &= report.is_met();
        }
    }
    println!("{}", if met { "all targets met" } else { "a target was missed" });
    if met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
