//! Stable filters and decayed counts against a plain Bloom filter's check and insert, on one core, in one run.
//!
//! All start from the item's bytes, so hashing is included. `cargo bench --bench variants`.

mod support;

use std::hint::black_box;

use criterion::Criterion;
use ebb_sketch::filter::structure::classic::ClassicFilter;
use ebb_sketch::filter::structure::frequency::basic::BasicSpec;
use ebb_sketch::filter::structure::frequency::digit_plan::DigitChoice;
use ebb_sketch::filter::structure::frequency::epochs::EpochSpec;
use ebb_sketch::filter::structure::frequency::forward::ForwardSpec;
use ebb_sketch::filter::structure::frequency::optimised::{Carry, DigitSpec, OptimisedSpec};
use ebb_sketch::filter::structure::frequency::{FrequencyFilter, FrequencySpec};
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::stable::importance::ImportanceRule;
use ebb_sketch::filter::structure::stable::{StableFilter, StableSpec};
use ebb_sketch::hash::HashKey;
use ebb_sketch::random::Random;
use support::{Peer, race};

const ITEMS: usize = 1 << 20;
/// Many short rounds, so that the best one is undisturbed by other processes.
const OPERATIONS: usize = 1 << 15;
const ROUNDS: u32 = 128;
const TOP: u8 = 7;

const RULES: [(&str, ImportanceRule); 5] = [
    ("stable", ImportanceRule::Stable),
    ("importance-2c", ImportanceRule::TwoClass { low: 3 }),
    ("importance-mc", ImportanceRule::MultiClass),
    ("importance-h (thinned)", ImportanceRule::Harmonic),
    ("importance-h (literal)", ImportanceRule::HarmonicLiteral),
];

/// Items of 24 bytes, a third of which repeat.
fn items() -> Vec<[u8; 24]> {
    let mut random = Random::new(1);
    let mut items: Vec<[u8; 24]> = Vec::with_capacity(ITEMS);
    for index in 0..ITEMS {
        let repeated = index > 0 && random.below(3) == 0;
        let item = if repeated { items[random.below(index as u64) as usize] } else { fresh(&mut random) };
        items.push(item);
    }
    items
}

fn fresh(random: &mut Random) -> [u8; 24] {
    let mut item = [0; 24];
    item.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&random.next_u64().to_le_bytes()));
    item
}

/// The stream in pieces of one round each, cyclically.
fn rounds(items: &[[u8; 24]]) -> impl Iterator<Item = &[[u8; 24]]> {
    items.chunks_exact(OPERATIONS).cycle()
}

fn plain(bytes: u64, items: &[[u8; 24]]) -> Peer<'_> {
    let mut filter = fastbloom::BloomFilter::with_num_bits(bytes as usize * 8).hashes(5);
    let mut rounds = rounds(items);
    Peer::new("fastbloom check+insert", OPERATIONS as u64, move || {
        rounds.next().into_iter().flatten().for_each(|item| {
            black_box((filter.contains(item), filter.insert(item)));
        });
    })
}

fn classic<'a>(bytes: u64, items: &'a [[u8; 24]], key: &'a HashKey) -> Peer<'a> {
    let mut filter = ClassicFilter::new(CellLayout::in_memory(bytes).expect("room"), 5).expect("valid");
    let mut rounds = rounds(items);
    Peer::new("classic", OPERATIONS as u64, move || {
        rounds.next().into_iter().flatten().for_each(|item| {
            black_box(filter.insert(key.fingerprint(item)));
        });
    })
}

fn stable<'a>(bytes: u64, which: usize, items: &'a [[u8; 24]], key: &'a HashKey) -> Peer<'a> {
    let (name, rule) = RULES[which];
    let size = CellLayout::in_memory(bytes).expect("room");
    let mut filter = StableFilter::new(StableSpec::new(size, 5, 10, TOP, rule).expect("valid"));
    let (mut offset, mut rounds) = (0, rounds(items));
    Peer::new(name, OPERATIONS as u64, move || {
        for item in rounds.next().into_iter().flatten() {
            offset += 1;
            let value = 1 + item[0] % TOP;
            black_box(filter.observe(key.fingerprint(item), value, &mut Random::for_record(7, 3, offset)));
        }
    })
}

fn races(items: &[[u8; 24]], key: &HashKey) {
    for (title, bytes) in [("256 KiB, in cache", 256 << 10), ("64 MiB, out of cache", 64u64 << 20)] {
        let mut peers = vec![plain(bytes, items), classic(bytes, items, key)];
        // The lists of the literal rule take sixteen times the memory of the cells, so only the small size runs it.
        let rules = if bytes > 1 << 20 { RULES.len() - 1 } else { RULES.len() };
        peers.extend((0..rules).map(|which| stable(bytes, which, items, key)));
        let ns = race(&format!("dedup variants, K = 5, P = 10, M = 7, {title}"), ROUNDS, peers);
        let slowest = ns[2..6].iter().copied().fold(0.0, f64::max);
        println!("  slowest of stable, 2c, mc, h: {:.2} M/s (target: more than 3)", 1e3 / slowest);
    }
    for (title, bytes) in [("256 KiB, in cache", 256u64 << 10), ("16 MiB", 16 << 20)] {
        let mut peers = vec![plain(bytes, items)];
        peers.extend(frequencies(bytes).into_iter().map(|(name, spec)| counting(name, spec, items, key)));
        peers.push(asking("forward, anywhere, add and estimate", frequencies(bytes).swap_remove(0).1, items, key));
        let ns = race(&format!("frequency, add, 4 cells an item, {title}"), ROUNDS, peers);
        println!("  forward: {:.2} M/s (target: more than 5)", 1e3 / ns[1]);
    }
}

fn frequencies(bytes: u64) -> Vec<(&'static str, FrequencySpec)> {
    const HOUR_MS: u64 = 3_600_000;
    let epochs = EpochSpec::halving(HOUR_MS, 1).expect("valid");
    let lines = CellLayout::in_memory(bytes).expect("room");
    let form = DigitSpec { digit_bits: 4, fraction_bits: 0, pool: (bytes / 8) as u32, carry: Carry::Each };
    let all = DigitSpec { carry: Carry::All, ..form };
    let planned = |carry| {
        let choice = DigitChoice::planned(carry);
        FrequencySpec::Optimised(OptimisedSpec::in_memory(bytes, 4, epochs, choice).expect("room"))
    };
    // A third of the memory is for the pool and its table.
    let digits = CellLayout::Spread(bytes * 2 / 3);
    vec![
        (
            "forward, anywhere",
            FrequencySpec::Forward(ForwardSpec::new(CellLayout::Spread(bytes / 8), 4, HOUR_MS).expect("valid")),
        ),
        ("forward, in one line", FrequencySpec::Forward(ForwardSpec::new(lines, 4, HOUR_MS).expect("valid"))),
        ("basic", FrequencySpec::Basic(BasicSpec::new(CellLayout::Spread(bytes / 4), 4, epochs, 8).expect("valid"))),
        ("optimised, each", FrequencySpec::Optimised(OptimisedSpec::new(digits, 4, epochs, form).expect("valid"))),
        ("optimised, all", FrequencySpec::Optimised(OptimisedSpec::new(digits, 4, epochs, all).expect("valid"))),
        ("optimised, each, planned", planned(Carry::Each)),
        ("optimised, all, planned", planned(Carry::All)),
    ]
}

fn counting<'a>(name: &'static str, spec: FrequencySpec, items: &'a [[u8; 24]], key: &'a HashKey) -> Peer<'a> {
    let (mut counts, mut now_ms, mut rounds) = (FrequencyFilter::new(spec), 0, rounds(items));
    Peer::new(name, OPERATIONS as u64, move || {
        for item in rounds.next().into_iter().flatten() {
            // A thousand observations per second of event time.
            now_ms += 1;
            counts.add(key.fingerprint(item), now_ms);
        }
    })
}

fn asking<'a>(name: &'static str, spec: FrequencySpec, items: &'a [[u8; 24]], key: &'a HashKey) -> Peer<'a> {
    let (mut counts, mut now_ms, mut rounds) = (FrequencyFilter::new(spec), 0, rounds(items));
    Peer::new(name, OPERATIONS as u64, move || {
        for item in rounds.next().into_iter().flatten() {
            now_ms += 1;
            let item = key.fingerprint(item);
            counts.add(item, now_ms);
            black_box(counts.estimate(item, now_ms));
        }
    })
}

fn recorded(items: &[[u8; 24]], key: &HashKey) {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1))
        .configure_from_args();
    for which in 0..RULES.len() {
        let mut peer = stable(256 << 10, which, items, key);
        criterion.bench_function(&format!("variants/{} x32Ki", peer.name), |bencher| bencher.iter(&mut peer.run));
    }
    let (name, spec) = frequencies(16 << 20).swap_remove(0);
    let mut peer = counting(name, spec, items, key);
    criterion.bench_function(&format!("variants/{name} x32Ki"), |bencher| bencher.iter(&mut peer.run));
    criterion.final_summary();
}

fn main() {
    let (items, key) = (items(), HashKey::new([7; 16]));
    races(&items, &key);
    recorded(&items, &key);
}
