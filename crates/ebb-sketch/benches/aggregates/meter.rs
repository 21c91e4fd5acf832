//! Processor time beside the wall clock, and the latency of questions.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::support::Peer;

/// Nanoseconds that this thread has really been running: on a machine that is shared, the wall clock also counts others.
fn running_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok()
}

/// The best processor time of each contestant.
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
                let held = best.entry(name).or_insert(f64::INFINITY);
                *held = held.min(ns);
            }
        })
    }

    pub fn print(&self) {
        for (name, ns) in self.0.borrow().iter() {
            println!("  processor time: {name:<44} {ns:>9.1} ns/op {:>9.3} M/s", 1e3 / ns);
        }
    }
}

/// Nanoseconds of one question, the median of many.
pub fn latency(what: &str, mut ask: impl FnMut() -> f64) {
    let mut times: Vec<Duration> = Vec::new();
    while times.len() < 25 {
        let start = Instant::now();
        black_box(ask());
        times.push(start.elapsed());
    }
    times.sort();
    println!("  question: {what:<60} {:>12.1} us", times[times.len() / 2].as_nanos() as f64 / 1e3);
}
