//! Throughput of the synthetic click stream. Target: one million clicks per second, so that it never limits a bench.

use std::hint::black_box;

use ebb_traffic::{Traffic, TrafficOptions};

#[path = "../../ebb-sketch/benches/support/mod.rs"]
mod support;

const CLICKS: u64 = 1_000_000;

fn main() {
    let traffic = |rate_per_second| {
        Traffic::new(1, TrafficOptions { rate_per_second, ..TrafficOptions::default() }).expect("valid rates")
    };
    let (mut demo, mut million, mut kept) = (traffic(3e3), traffic(1e6), traffic(1e6));
    let mut click = kept.next().expect("the stream is endless");
    let peers = vec![
        support::Peer::new("new buffer per click, 3 000/s", CLICKS, || {
            demo.by_ref().take(CLICKS as usize).for_each(|click| {
                black_box(click);
            });
        }),
        support::Peer::new("new buffer per click, 1 000 000/s", CLICKS, || {
            million.by_ref().take(CLICKS as usize).for_each(|click| {
                black_box(click);
            });
        }),
        support::Peer::new("reused buffer, 1 000 000/s", CLICKS, || {
            for _ in 0..CLICKS {
                kept.overwrite(black_box(&mut click));
            }
        }),
    ];
    support::race("traffic", 5, peers);
}
