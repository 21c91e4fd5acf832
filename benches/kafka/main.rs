//! Ebb on a real broker beside bare loops over the same client, the same broker and the same clicks, in one run.
//!
//! Prints what a record costs (processor time and wall time), how long it takes from its producer to a reader of
//! committed outputs, and how long a killed instance is away. Fails when a bar is missed. `make bench-kafka` runs it;
//! `EBB_BENCH_CLICKS`, `EBB_BENCH_ROUNDS` and `EBB_BENCH_RESTARTS` make it smaller or larger, arguments choose parts:
//! `copy`, `consume`, `latency`, `restart`.

mod bars;
#[allow(unused_imports, reason = "the tests use more of it")]
#[path = "../../tests/kafka/broker/mod.rs"]
mod broker;
mod latency;
mod peer;
mod race;
mod restart;
mod rig;
mod tail;

use std::process::ExitCode;

use bars::Bars;
use rig::Rig;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let Some(("peer", rest)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        peer::run(rest);
        return ExitCode::SUCCESS;
    }
    if let Some(missing) = broker::tools::missing() {
        eprintln!("{missing}");
        return ExitCode::FAILURE;
    }
    let is_wanted = |part: &str| arguments.is_empty() || arguments.iter().any(|argument| argument == part);
    let (rig, mut bars) = (Rig::new(), Bars::default());
    // Without a race of its own the load is one that every machine carries.
    let mut rate = 20_000.0;
    if is_wanted("copy") || is_wanted("consume") {
        rig.fill();
    }
    if is_wanted("copy") {
        rate = race::copy(&rig, &mut bars);
    }
    if is_wanted("consume") {
        race::consume(&rig, &mut bars);
    }
    if is_wanted("latency") {
        latency::measure(&rig, rate / 2.0);
    }
    if is_wanted("restart") {
        restart::measure(&rig, &mut bars);
    }
    if bars.print() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
