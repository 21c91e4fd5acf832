//! HTTP throughput and latency, compared with a bare axum echo server in the same run on the same cores. Needs wrk (`make
//! bench-http` installs it); exits with 1 if a target is missed.
//!
//! - single decisions, as a ratio to the echo: both servers on one core, wrk on another if there is one;
//! - the same with 2,000 idle and slow connections, which must change little;
//! - p99 at half of the measured load, with and without those connections;
//! - batches of 1,000 decisions, on all cores.
//!
//! Rounds alternate, so that changes in the speed of the machine affect both servers.

mod servers;
mod slow_clients;
mod wrk;

use std::process::ExitCode;
use std::time::Duration;

use servers::{Server, echo};
use slow_clients::SlowClients;
use wrk::{Load, Measurement, Traffic};

/// Minimum ratio of single decisions to the echo.
const SINGLE_TARGET: f64 = 0.6;
/// Minimum decisions per second in batches.
const BATCH_TARGET: f64 = 1e6;
/// Minimum ratio of the throughput, and maximum ratio of p99, with idle and slow connections to those without.
const SLOW_CLIENTS_TARGET: f64 = 0.85;
const SLOW_CLIENTS_P99_TARGET: f64 = 1.5;
/// A p99 below this is dominated by the machine.
const P99_FLOOR: Duration = Duration::from_millis(5);

const SLOW_CLIENTS: usize = 2_000;
const BATCH: usize = 1_000;
const ROUNDS: usize = 3;
const CONNECTIONS: usize = 64;
const ROUND: Duration = Duration::from_secs(4);

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
    let mut targets = Targets::default();
    single(&traffic, &mut targets);
    batches(&traffic, &mut targets);
    if targets.missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints each target and counts the missed ones.
#[derive(Default)]
struct Targets {
    missed: usize,
}

impl Targets {
    fn check(&mut self, target: &str, is_met: bool) {
        println!("  {} {target}", if is_met { "met   " } else { "MISSED" });
        self.missed += usize::from(!is_met);
    }
}

fn single(traffic: &Traffic, targets: &mut Targets) {
    let (server_core, load_core) = servers::cores();
    let peer = Server::echo(server_core);
    let ebb = Server::ebb(server_core);
    traffic.warm(&ebb);
    let run = |url: String| {
        let load = Load { script: traffic.single(), connections: CONNECTIONS, duration: ROUND };
        wrk::run(&url, load, load_core)
    };
    let (mut echoes, mut alone, mut crowded) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        echoes.push(run(peer.url("/echo")));
        alone.push(run(ebb.decide_url()));
        let clients = SlowClients::connect(ebb.address, SLOW_CLIENTS);
        crowded.push(run(ebb.decide_url()));
        clients.stop();
    }
    let (echo, decisions, with_slow) = (median(&echoes), median(&alone), median(&crowded));
    println!("\nsingle decisions, {CONNECTIONS} connections, median of {ROUNDS} rounds");
    let (ratio, kept) = (decisions.rate / echo.rate, with_slow.rate / decisions.rate);
    print_line("bare axum JSON echo", echo, "");
    print_line("decisions", decisions, &format!("{ratio:.2} of the echo"));
    print_line(&format!("with {SLOW_CLIENTS} slow clients"), with_slow, &format!("{kept:.2} of decisions"));
    targets.check(&format!("at least {SINGLE_TARGET} of the echo"), ratio >= SINGLE_TARGET);
    let target = format!("at least {SLOW_CLIENTS_TARGET} with {SLOW_CLIENTS} slow clients");
    targets.check(&target, kept >= SLOW_CLIENTS_TARGET);
    for all in [&echoes, &alone, &crowded] {
        targets.check("every response has status 200", all.iter().all(|one| one.failures == 0));
    }
    half_load(traffic, &ebb, decisions.rate / 2.0, targets);
}

fn half_load(traffic: &Traffic, ebb: &Server, rate: f64, targets: &mut Targets) {
    let (_, load_core) = servers::cores();
    let run = || {
        let load = Load { script: traffic.paced(CONNECTIONS, rate), connections: CONNECTIONS, duration: ROUND };
        wrk::run(&ebb.decide_url(), load, load_core)
    };
    let (mut alone, mut crowded) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        alone.push(run());
        let clients = SlowClients::connect(ebb.address, SLOW_CLIENTS);
        crowded.push(run());
        clients.stop();
    }
    let (alone, with_slow) = (median_p99(&alone), median_p99(&crowded));
    println!("\nhalf load");
    print_line("decisions", alone, "");
    print_line(&format!("with {SLOW_CLIENTS} slow clients"), with_slow, "");
    let allowed = alone.p99.mul_f64(SLOW_CLIENTS_P99_TARGET).max(P99_FLOOR);
    let target = format!("p99 at half load at most {allowed:?} with {SLOW_CLIENTS} slow clients");
    targets.check(&target, with_slow.p99 <= allowed);
}

fn print_line(name: &str, measured: Measurement, note: &str) {
    println!("  {name:<23} {:>9.0} /s   p99 {:?}   {note}", measured.rate, measured.p99);
}

fn batches(traffic: &Traffic, targets: &mut Targets) {
    let ebb = Server::ebb(None);
    traffic.warm(&ebb);
    let load = || Load { script: traffic.batches(), connections: 8, duration: ROUND };
    let all: Vec<Measurement> = (0..ROUNDS).map(|_| wrk::run(&ebb.decide_url(), load(), None)).collect();
    let batch = median(&all);
    let decisions = batch.rate * BATCH as f64;
    println!("\nbatches of {BATCH} decisions, 8 connections, all cores, median of {ROUNDS} rounds");
    println!("  decisions               {decisions:>9.0} /s   p99 of a batch {:?}", batch.p99);
    targets.check(&format!("at least {BATCH_TARGET:.0} decisions a second"), decisions >= BATCH_TARGET);
    targets.check("every batch has status 200", all.iter().all(|one| one.failures == 0));
}

fn median(all: &[Measurement]) -> Measurement {
    let mut sorted = all.to_vec();
    sorted.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    sorted[sorted.len() / 2]
}

fn median_p99(all: &[Measurement]) -> Measurement {
    let mut sorted = all.to_vec();
    sorted.sort_by_key(|one| one.p99);
    sorted[sorted.len() / 2]
}
