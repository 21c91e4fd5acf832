//! The timing filter beside a plain Bloom filter and an exact map with expiry, in one run.
//!
//! `cargo bench --bench timing` prints the races; `cargo bench --bench timing -- --criterion` measures with criterion.
//! "Hashed" peers start from a fingerprint that was made at the edge, as a shard does; "from bytes" peers hash the item
//! themselves, both with a keyed SipHash-1-3. Our side touches a batch of 64 lines before it works on them: the plain
//! filter's crate offers no such call. Our memory is madvised to huge pages, as the product's is.

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;

use criterion::Criterion;
use ebb::filter::decision::Penalties;
use ebb::filter::inference::{InferentialFilter, PriorSpec, Question, Seen};
use ebb::filter::posterior::{AgePrior, Evidence, Posterior, Share};
use ebb::filter::prior::ReuseSpec;
use ebb::filter::timing::{AgeUnit, Likelihood, TimingFilter, TimingSpec};
use ebb::hash::{Fingerprint, HashKey};
use ebb::random::{Random, mix};
use fastbloom::BloomFilter;

mod support;
use support::{Peer, race};

const WINDOW_MS: u64 = 3_600_000;
const BATCH: usize = 64;

/// A stream of which about half the arrivals repeat an item of the last window.
struct Stream {
    items: Vec<Fingerprint>,
    bytes: Vec<[u8; 24]>,
    /// Arrivals in a millisecond, so that one pass over the stream is one window.
    per_ms: usize,
}

fn stream(arrivals: usize, seed: u64) -> Stream {
    let mut random = Random::new(seed);
    let numbers: Vec<u64> =
        (0..arrivals as u64).map(|at| if at > 0 && random.below(2) == 0 { random.below(at) } else { at }).collect();
    let items = numbers.iter().map(|&n| Fingerprint(u128::from(mix(n ^ seed)) << 64 | u128::from(mix(n)))).collect();
    let bytes = numbers
        .iter()
        .map(|&n| {
            let mut bytes = [b'.'; 24];
            bytes[..8].copy_from_slice(&n.to_le_bytes());
            bytes
        })
        .collect();
    Stream { items, bytes, per_ms: (arrivals / WINDOW_MS as usize).max(1) }
}

/// The clock runs on from pass to pass.
struct Clock {
    now_ms: i64,
    arrivals: usize,
    per_ms: usize,
}

impl Clock {
    fn new(stream: &Stream) -> Self {
        Self { now_ms: 1_700_000_000_000, arrivals: 0, per_ms: stream.per_ms }
    }

    fn tick(&mut self) -> i64 {
        self.arrivals += 1;
        if self.arrivals == self.per_ms {
            self.arrivals = 0;
            self.now_ms += 1;
        }
        self.now_ms
    }
}

fn observe_standard(filter: &mut TimingFilter, clock: &mut Clock, items: &[Fingerprint]) -> u64 {
    let mut duplicates = 0;
    for batch in items.chunks(BATCH) {
        batch.iter().for_each(|&item| filter.touch(item));
        for &item in batch {
            let now = clock.tick();
            filter.advance(now);
            let reading = filter.look(item);
            duplicates += u64::from(filter.standard(&reading, now, WINDOW_MS));
            filter.insert(item, now);
            filter.arrive(now);
        }
    }
    duplicates
}

fn penalties() -> Penalties {
    Penalties::new(3.0, 2.0).unwrap()
}

fn observe_inferential(filter: &mut InferentialFilter, clock: &mut Clock, items: &[Fingerprint]) -> u64 {
    let penalties = penalties();
    let mut duplicates = 0;
    for batch in items.chunks(BATCH) {
        batch.iter().for_each(|&item| filter.touch(item));
        for &item in batch {
            let question = Question::new(item, clock.tick(), WINDOW_MS).with_penalties(penalties);
            duplicates += u64::from(filter.observe(&question).is_some_and(|answer| answer.duplicate));
        }
    }
    duplicates
}

fn observe_bytes(filter: &mut InferentialFilter, clock: &mut Clock, key: &HashKey, items: &[[u8; 24]]) -> u64 {
    let mut fingerprints = [Fingerprint::default(); BATCH];
    items
        .chunks(BATCH)
        .map(|batch| {
            for (fingerprint, bytes) in fingerprints.iter_mut().zip(batch) {
                *fingerprint = key.fingerprint(bytes);
            }
            observe_inferential(filter, clock, &fingerprints[..batch.len()])
        })
        .sum()
}

/// Exact answers: a map of last sightings and a queue of what will expire.
#[derive(Default)]
struct ExactMap {
    last: HashMap<u128, i64>,
    queue: VecDeque<(i64, u128)>,
}

impl ExactMap {
    fn observe(&mut self, item: Fingerprint, now_ms: i64) -> bool {
        while let Some(&(time, old)) = self.queue.front()
            && time <= now_ms - WINDOW_MS as i64
        {
            self.queue.pop_front();
            if self.last.get(&old) == Some(&time) {
                self.last.remove(&old);
            }
        }
        let before = self.last.insert(item.0, now_ms);
        if before != Some(now_ms) {
            self.queue.push_back((now_ms, item.0));
        }
        before.is_some_and(|time| now_ms - time < WINDOW_MS as i64)
    }

    fn memory_bytes(&self) -> usize {
        // hashbrown: 16/7 slots for each entry at most, 8/7 at least, of 32 bytes and a control byte.
        let slots = (self.last.capacity() * 8 / 7).next_power_of_two();
        slots * (32 + 1) + self.queue.capacity() * 32
    }
}

fn spec(memory: u64) -> TimingSpec {
    TimingSpec::time(WINDOW_MS, 0, memory).unwrap()
}

fn constant(stream: &Stream) -> PriorSpec {
    PriorSpec::Constant(Share::new(1.0 / stream.items.len() as f64).unwrap())
}

fn learned() -> PriorSpec {
    PriorSpec::Learned(ReuseSpec::new(WINDOW_MS, 4096).unwrap())
}

fn observations(title: &str, memory: u64, arrivals: usize, map_arrivals: usize) {
    let stream = stream(arrivals, 7);
    let map_stream = self::stream(map_arrivals, 7);
    let operations = arrivals as u64;
    let key = HashKey::new([9; 16]);
    let bits = memory as usize * 8;
    let mut plain = BloomFilter::with_num_bits(bits).expected_items(arrivals);
    let mut plain_bytes = BloomFilter::with_num_bits(bits).expected_items(arrivals);
    let mut plain_four = BloomFilter::with_num_bits(bits).hashes(4);
    let mut standard = TimingFilter::new(spec(memory)).unwrap();
    let inferential = |prior| InferentialFilter::new(spec(memory), Seen::Last, prior).unwrap();
    let (mut constant, mut from_bytes) = (inferential(constant(&stream)), inferential(constant(&stream)));
    let mut learned = inferential(learned());
    let mut clocks: Vec<Clock> = (0..4).map(|_| Clock::new(&stream)).collect();
    let [standard_clock, constant_clock, bytes_clock, learned_clock] = &mut clocks[..] else { unreachable!() };
    let mut exact = ExactMap::default();
    let mut exact_clock = Clock { now_ms: 0, arrivals: 0, per_ms: (map_arrivals / WINDOW_MS as usize).max(1) };
    let halves: Vec<u64> = stream.items.iter().map(|item| item.high()).collect();
    println!("\nplain filter: {} hashes by its own choice", plain.num_hashes());
    let ns = race(
        title,
        3,
        vec![
            Peer::new("plain check + insert, hashed", operations, || {
                for &half in &halves {
                    black_box(plain.contains_hash(half));
                    black_box(plain.insert_hash(half));
                }
            }),
            Peer::new("plain check + insert, 4 hashes, hashed", operations, || {
                for &half in &halves {
                    black_box(plain_four.contains_hash(half));
                    black_box(plain_four.insert_hash(half));
                }
            }),
            Peer::new("timing, standard answer, hashed", operations, || {
                black_box(observe_standard(&mut standard, standard_clock, &stream.items));
            }),
            Peer::new("timing, posterior + decision, hashed", operations, || {
                black_box(observe_inferential(&mut constant, constant_clock, &stream.items));
            }),
            Peer::new("timing, learned prior + decision, hashed", operations, || {
                black_box(observe_inferential(&mut learned, learned_clock, &stream.items));
            }),
            Peer::new("plain check + insert, from bytes", operations, || {
                for bytes in &stream.bytes {
                    black_box(plain_bytes.contains(bytes));
                    black_box(plain_bytes.insert(bytes));
                }
            }),
            Peer::new("timing, posterior + decision, from bytes", operations, || {
                black_box(observe_bytes(&mut from_bytes, bytes_clock, &key, &stream.bytes));
            }),
            Peer::new("exact map with expiry, hashed", map_arrivals as u64, || {
                for &item in &map_stream.items {
                    black_box(exact.observe(item, exact_clock.tick()));
                }
            }),
        ],
    );
    println!(
        "  posterior + decision takes x{:.2} of the plain filter hashed, x{:.2} from bytes; standard {:.2} M/s; \
         exact map takes x{:.2} of us, in {} MiB for {} arrivals",
        ns[3] / ns[0],
        ns[6] / ns[5],
        1e3 / ns[2],
        ns[7] / ns[3],
        exact.memory_bytes() >> 20,
        map_arrivals
    );
}

fn posterior_alone() {
    let stream = stream(1 << 16, 3);
    let mut filter = TimingFilter::new(spec(512 << 10)).unwrap();
    let mut clock = Clock::new(&stream);
    (0..3).for_each(|_| {
        observe_standard(&mut filter, &mut clock, &stream.items);
    });
    let readings: Vec<_> = stream.items.iter().map(|&item| (item, filter.look(item))).collect();
    let share = Share::new(1e-5).unwrap();
    let now = clock.now_ms;
    let penalties = penalties();
    let evidence = |item, reading| filter.evidence(item, reading, AgeUnit::Arrivals, Likelihood::Whole);
    let evidences: Vec<Evidence> = readings.iter().map(|(item, reading)| evidence(*item, reading)).collect();
    let window = filter.window_in(AgeUnit::Arrivals, now, WINDOW_MS);
    let operations = readings.len() as u64;
    race(
        "posterior alone",
        20,
        vec![
            Peer::new("P_in and P_out from evidence", operations, || {
                for &evidence in &evidences {
                    black_box(Posterior::new(evidence, AgePrior::Geometric(share)).within(window));
                }
            }),
            Peer::new("evidence, posterior and decision of a reading", operations, || {
                for (item, reading) in &readings {
                    let evidence = filter.evidence(*item, reading, AgeUnit::Arrivals, Likelihood::Whole);
                    let window = filter.window_in(AgeUnit::Arrivals, now, WINDOW_MS);
                    let belief = Posterior::new(evidence, AgePrior::Geometric(share)).within(window);
                    black_box(penalties.decide(&belief));
                }
            }),
            Peer::new("the same with the likelihood of the line", operations, || {
                for (item, reading) in &readings {
                    let evidence = filter.evidence(*item, reading, AgeUnit::Arrivals, Likelihood::Line);
                    let window = filter.window_in(AgeUnit::Arrivals, now, WINDOW_MS);
                    let belief = Posterior::new(evidence, AgePrior::Geometric(share)).within(window);
                    black_box(penalties.decide(&belief));
                }
            }),
        ],
    );
}

fn main() {
    if std::env::args().any(|argument| argument == "--criterion") {
        let stream = stream(1 << 16, 7);
        let mut filter = InferentialFilter::new(spec(512 << 10), Seen::Last, constant(&stream)).unwrap();
        let mut clock = Clock::new(&stream);
        Criterion::default().sample_size(20).bench_function("64 observations with posterior and decision", |bencher| {
            bencher.iter(|| observe_inferential(&mut filter, &mut clock, &stream.items[..64]));
        });
        return;
    }
    posterior_alone();
    observations("in cache: 512 KiB", 512 << 10, 1 << 18, 1 << 18);
    if std::env::var_os("EBB_SMALL").is_none() {
        observations("1 GiB", 1 << 30, 1 << 22, 1 << 24);
    }
}
