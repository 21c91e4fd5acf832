//! CPU time beside the wall clock, and the latency of queries.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::support::Peer;

/// The CPU time of this thread: on a shared machine the wall clock also counts others.
fn running_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok()
}

/// The smallest CPU time of each peer.
#[derive(Default)]
pub struct Meter(RefCell<BTreeMap<&'static str, f64>>);

impl Meter {
    pub fn peer<'a>(&'a self, name: &'static str, operations: usize, mut run: impl FnMut() + 'a) -> Peer<'a> {
        Peer::new(name, operations as u64, move || {
            let begin = running_ns();
            run();
            if let Some((begin, end)) = begin.zip(running_ns()) {
                let ns = (end - begin) as f64 / operations as f64;
                let mut best = self.0.borrow_mut();
                let smallest = best.entry(name).or_insert(f64::INFINITY);
                *smallest = smallest.min(ns);
            }
        })
    }

    pub fn print(&self) {
        for (name, ns) in self.0.borrow().iter() {
            println!("  CPU time: {name:<44} {ns:>9.1} ns/op {:>9.3} M/s", 1e3 / ns);
        }
    }
}

/// Prints the median latency of a query.
pub fn latency(what: &str, mut query: impl FnMut() -> f64) {
    let mut times: Vec<Duration> = Vec::new();
    while times.len() < 25 {
        let start = Instant::now();
        black_box(query());
        times.push(start.elapsed());
    }
    times.sort();
    println!("  query: {what:<60} {:>12.1} us", times[times.len() / 2].as_nanos() as f64 / 1e3);
}
