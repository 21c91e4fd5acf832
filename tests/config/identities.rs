//! A stored state is read only under the plan identity it was written with. The identities below belong to states that
//! exist: a change of any of them discards those states at the next start.

use ebb_sketch::hash::HashKey;

use crate::parse;

/// The stream's keys, and the identity of its plan.
const IDENTITIES: [(&str, &str); 20] = [
    ("event: {item: [ip, ad]}", "f0652edbb37e735ae224df006a03d830"),
    ("event: {item: [ip, ad]}, dedup: {rate: 2000}", "cace703d1ca708ddde32b6c65e3e08ec"),
    ("event: {item: ip}, dedup: {error: 0.01, items: 100000}", "e2806cdbe5930bd23d760854365e3ab8"),
    ("event: {item: ip}, dedup: {window: 1000000 events}", "8324a794a92a15f0ff797ea5106635e5"),
    ("event: {item: ip}, dedup: {window: 7ms, memory: 1KiB}", "610bcc5c0b2e473c2516ee79f2da781c"),
    ("event: {item: ip}, dedup: {bits: 3, seen: last}", "b84fc6e872eefc92fc6b5df97b8dff1e"),
    ("event: {item: ip}, dedup: {cells: 7, rate: 10}", "cc06ae3237e12b50378d7eeb23b26587"),
    ("event: {item: ip}, dedup: {blocks: 5, lateness: 1m}", "34a547f5e684475d0028417b4c9f2a97"),
    ("event: {item: ip}, dedup: {window: 5000 events, bits: 5, prior: 0.01}", "f68b032e2f31226a00e76275ea3f3cc6"),
    ("event: {item: ip, key: k}, dedup: {isolate: 16, memory: 4MiB}", "b8f2412985043ae5eda51e6df8db3e3b"),
    ("event: {item: ip}, dedup: {filter: stable, memory: 1MiB}", "06e954d20517e2274c00beb942107821"),
    ("event: {item: ip}, dedup: {filter: stable, error: 0.05, items: 10000}", "6ad3d2e46d89a3c73e4754f0d658c27a"),
    (
        "event: {item: ip, importance: t}, dedup: {filter: importance-2c, memory: 1MiB, bits: 4}",
        "5eaf5a0737bdae90b254a2aeb60071c5",
    ),
    (
        "event: {item: ip, importance: t}, dedup: {filter: importance-mc, decrements: 9, cells: 3}",
        "1a45c06443d5c2b9e905a1122ae50206",
    ),
    (
        "event: {item: ip, importance: t}, dedup: {filter: importance-h, memory: 64KiB, importance_max: 5}",
        "30ea8408438c9420b7042eee4d4a6dab",
    ),
    ("event: {item: ip}, dedup: {filter: classic, prior: 0.1}", "5b3ff6457fa0e70f8657e27aee181854"),
    ("event: {item: ip, time: {path: ts, unit: us}}, frequency: {}", "26de69fc78906718d672fa0eea33d68f"),
    (
        "event: {item: ip, time: {path: ts, unit: rfc3339}}, frequency: {method: basic, half_life: 100ms}",
        "5de2d0249b24e1a834bab5dc4b610a49",
    ),
    ("event: {item: ip}, frequency: {method: optimised, carry: all, epoch: 1m}", "7fffdfbb8f107e7d706fbc4b7a8c6e1e"),
    (
        "event: {item: ip, key: k, value: v, weight: w}, aggregates: {a: {of: value, over: unique, keys: 9}, b: {of: x.y, \
         method: cascade, top: l}, c: {method: forward, decay: 'exponential:half_life=10m'}}",
        "0ff0757fb17f3a9daeb6dbfbc322d538",
    ),
];

#[test]
fn plan_identities_of_existing_states_do_not_change() {
    let mut changed = Vec::new();
    for (keys, identity) in IDENTITIES {
        let config = parse(&format!("streams: {{s: {{{keys}}}}}")).unwrap();
        let plan = ebb::app::plan(&config.streams["s"], &config.limits, &HashKey::new([7; 16])).unwrap();
        let now: String = plan.identity().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        if now != identity {
            changed.push(format!("{keys}: {now}"));
        }
    }
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}
