//! Contestants measured in turn within one run. Machines are noisy, so results are ratios between contestants.

use std::time::Instant;

/// A contestant: a name and a closure that performs `operations` operations.
pub struct Peer<'a> {
    pub name: &'static str,
    pub operations: u64,
    pub run: Box<dyn FnMut() + 'a>,
}

impl<'a> Peer<'a> {
    pub fn new(name: &'static str, operations: u64, run: impl FnMut() + 'a) -> Self {
        Self { name, operations, run: Box::new(run) }
    }
}

/// Runs all contestants in turn, `rounds` times, and prints the best round of each with its ratio to the first. Returns
/// nanoseconds per operation, in order.
pub fn race(title: &str, rounds: u32, mut peers: Vec<Peer<'_>>) -> Vec<f64> {
    let mut best = vec![f64::INFINITY; peers.len()];
    for _ in 0..rounds {
        for (peer, best) in peers.iter_mut().zip(&mut best) {
            let start = Instant::now();
            (peer.run)();
            *best = best.min(start.elapsed().as_nanos() as f64 / peer.operations as f64);
        }
    }
    println!("\n{title}");
    for (peer, ns) in peers.iter().zip(&best) {
        println!(
            "  {:<44} {ns:>9.1} ns/op {:>9.3} M/s   x{:.2} of {}",
            peer.name,
            1e3 / ns,
            ns / best[0],
            peers[0].name
        );
    }
    best
}
