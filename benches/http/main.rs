//! The service over HTTP, beside a bare axum echo in the same run on the same cores. Needs wrk (`make bench-http` installs
//! it); ends with 1 when a bar is missed.
//!
//! - single decisions, as a ratio to the echo: both servers on one core, wrk on another where there is one;
//! - the same with 2,000 idle, slow and half-open connections: nothing may change;
//! - p99 at half of the measured load, with and without those connections;
//! - batches of 1,000 decisions, on all cores.
//!
//! Rounds alternate, so that a machine that grows slower or faster does so for both.

mod crowd;
mod servers;
mod wrk;

use std::process::ExitCode;
use std::time::Duration;

use crowd::Crowd;
use servers::{Server, echo};
use wrk::{Load, Measured, Traffic};

/// Single decisions against the echo.
const SINGLE_BAR: f64 = 0.6;
/// Decisions a second in batches.
const BATCH_BAR: f64 = 1e6;
/// What is left of the throughput, and what becomes of p99, among idle and slow connections.
const CROWDED_BAR: f64 = 0.85;
const CROWDED_P99_BAR: f64 = 1.5;
/// Below this a p99 is the machine's and not the service's.
const P99_FLOOR: Duration = Duration::from_millis(5);

const CROWD: usize = 2_000;
const BATCH: usize = 1_000;
const ROUNDS: usize = 3;
const CONNECTIONS: usize = 64;
const TURN: Duration = Duration::from_secs(4);

fn main() -> ExitCode {
    if let Some(address) = std::env::var_os(servers::ECHO) {
        echo(&address.to_string_lossy());
        return ExitCode::SUCCESS;
    }
    if !wrk::is_installed() {
        eprintln!("wrk is not installed; make bench-http installs it");
        return ExitCode::FAILURE;
    }
    let traffic = Traffic::new();
    let mut bars = Bars::default();
    single(&traffic, &mut bars);
    batches(&traffic, &mut bars);
    if bars.missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints what was held and counts what was not.
#[derive(Default)]
struct Bars {
    missed: usize,
}

impl Bars {
    fn hold(&mut self, what: &str, is_held: bool) {
        println!("  {} {what}", if is_held { "held  " } else { "MISSED" });
        self.missed += usize::from(!is_held);
    }
}

fn single(traffic: &Traffic, bars: &mut Bars) {
    let (server, load_cores) = servers::cores();
    let peer = Server::echo(server);
    let ebb = Server::ebb(server);
    traffic.warm(&ebb);
    let run = |url: String, load: Load| wrk::run(&url, load, load_cores);
    let full = || Load { script: traffic.single(), connections: CONNECTIONS, lasting: TURN };
    let (mut echoes, mut alone, mut crowded) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        echoes.push(run(peer.url("/echo"), full()));
        alone.push(run(ebb.decide_url(), full()));
        let crowd = Crowd::gather(ebb.address, CROWD);
        crowded.push(run(ebb.decide_url(), full()));
        crowd.disperse();
    }
    let (echo, one, amid) = (median(&echoes), median(&alone), median(&crowded));
    println!("\nsingle decisions, {CONNECTIONS} connections, median of {ROUNDS} rounds");
    let ratio = one.rate / echo.rate;
    println!("  bare axum JSON echo     {:>9.0} /s   p99 {:?}", echo.rate, echo.p99);
    println!("  decisions               {:>9.0} /s   p99 {:?}   {ratio:.2} of the echo", one.rate, one.p99);
    let kept = amid.rate / one.rate;
    println!("  among {CROWD} idle and slow {:>9.0} /s   p99 {:?}   {kept:.2} of that alone", amid.rate, amid.p99);
    bars.hold(&format!("at least {SINGLE_BAR} of the echo"), ratio >= SINGLE_BAR);
    bars.hold(&format!("at least {CROWDED_BAR} among {CROWD} idle and slow connections"), kept >= CROWDED_BAR);

    let half = || Load { script: traffic.paced(CONNECTIONS, one.rate / 2.0), connections: CONNECTIONS, lasting: TURN };
    let (mut quiet, mut busy) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        quiet.push(run(ebb.decide_url(), half()));
        let crowd = Crowd::gather(ebb.address, CROWD);
        busy.push(run(ebb.decide_url(), half()));
        crowd.disperse();
    }
    let (quiet, busy) = (median_p99(&quiet), median_p99(&busy));
    println!("\nhalf load");
    println!("  alone                   {:>9.0} /s   p99 {:?}", quiet.rate, quiet.p99);
    println!("  among {CROWD} idle and slow {:>9.0} /s   p99 {:?}", busy.rate, busy.p99);
    let allowed = quiet.p99.mul_f64(CROWDED_P99_BAR).max(P99_FLOOR);
    bars.hold(&format!("p99 at half load at most {allowed:?} among {CROWD} idle and slow"), busy.p99 <= allowed);
    for all in [&echoes, &alone, &crowded] {
        bars.hold("every request was answered with 200", all.iter().all(|one| one.failures == 0));
    }
}

fn batches(traffic: &Traffic, bars: &mut Bars) {
    let ebb = Server::ebb(None);
    traffic.warm(&ebb);
    let load = || Load { script: traffic.batches(), connections: 8, lasting: TURN };
    let all: Vec<Measured> = (0..ROUNDS).map(|_| wrk::run(&ebb.decide_url(), load(), None)).collect();
    let batch = median(&all);
    let decisions = batch.rate * BATCH as f64;
    println!("\nbatches of {BATCH} decisions, 8 connections, all cores, median of {ROUNDS} rounds");
    println!("  decisions               {decisions:>9.0} /s   p99 of a batch {:?}", batch.p99);
    bars.hold(&format!("at least {BATCH_BAR:.0} decisions a second"), decisions >= BATCH_BAR);
    bars.hold("every batch was answered with 200", all.iter().all(|one| one.failures == 0));
}

fn median(all: &[Measured]) -> Measured {
    let mut sorted = all.to_vec();
    sorted.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    sorted[sorted.len() / 2]
}

fn median_p99(all: &[Measured]) -> Measured {
    let mut sorted = all.to_vec();
    sorted.sort_by_key(|one| one.p99);
    sorted[sorted.len() / 2]
}
