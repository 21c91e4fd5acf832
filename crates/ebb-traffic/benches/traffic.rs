//! The synthetic click stream must never limit what is fed by it: at least a million clicks a second.

use std::hint::black_box;

use ebb_traffic::{Traffic, TrafficOptions};

#[path = "../../ebb-sketch/benches/support/mod.rs"]
mod support;

const CLICKS: u64 = 1_000_000;

fn main() {
    let traffic = |rate_per_second| {
        Traffic::new(1, TrafficOptions { rate_per_second, ..TrafficOptions::default() })
            .expect("the rates are possible")
    };
    let (mut demo, mut million, mut kept) = (traffic(3e3), traffic(1e6), traffic(1e6));
    let mut click = kept.next().expect("traffic never ends");
    let peers = vec![
        support::Peer::new("a click of its own, 3 000/s", CLICKS, || {
            demo.by_ref().take(CLICKS as usize).for_each(|click| {
                black_box(click);
            });
        }),
        support::Peer::new("a click of its own, 1 000 000/s", CLICKS, || {
            million.by_ref().take(CLICKS as usize).for_each(|click| {
                black_box(click);
            });
        }),
        support::Peer::new("over an earlier click, 1 000 000/s", CLICKS, || {
            for _ in 0..CLICKS {
                kept.overwrite(black_box(&mut click));
            }
        }),
    ];
    support::race("traffic", 5, peers);
}
