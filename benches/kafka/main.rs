//! Benchmarks of Ebb on a real broker beside minimal loops over the same client, broker and clicks, in one run.
//!
//! Prints CPU and wall time per record, latency from producer to a reader of committed outputs, and the time from restart
//! to the first output. Fails if a target is missed. `make bench-kafka` runs it; `EBB_BENCH_CLICKS`, `EBB_BENCH_ROUNDS`
//! and `EBB_BENCH_RESTARTS` change its size, arguments select parts: `copy`, `consume`, `latency`, `restart`.

mod baseline;
#[allow(unused_imports, reason = "the tests use more of it")]
#[path = "../../tests/kafka/broker/mod.rs"]
mod broker;
mod latency;
#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../tests/kafka/log_lines.rs"]
mod log_lines;
mod output_reader;
mod restart;
mod rig;
mod targets;
mod throughput;

use std::process::ExitCode;

use rig::Rig;
use targets::Targets;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let Some(("baseline", rest)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        baseline::run(rest);
        return ExitCode::SUCCESS;
    }
    if let Some(missing) = broker::tools::missing() {
        eprintln!("{missing}");
        return ExitCode::FAILURE;
    }
    let is_selected = |part: &str| arguments.is_empty() || arguments.iter().any(|argument| argument == part);
    let (rig, mut targets) = (Rig::new(), Targets::default());
    // Unless `copy` measures the capacity: a rate that every machine can sustain.
    let mut rate = 20_000.0;
    if is_selected("copy") || is_selected("consume") {
        rig.produce_clicks();
    }
    if is_selected("copy") {
        rate = throughput::measure_copy(&rig, &mut targets);
    }
    if is_selected("consume") {
        throughput::measure_consume(&rig, &mut targets);
    }
    if is_selected("latency") {
        latency::measure(&rig, rate / 2.0);
    }
    if is_selected("restart") {
        restart::measure(&rig, &mut targets);
    }
    if targets.print() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
