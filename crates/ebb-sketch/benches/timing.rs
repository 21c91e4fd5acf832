//! The timing filter against a plain Bloom filter and an exact map with expiry, in one run.
//!
//! `cargo bench --bench timing` prints the races; `cargo bench --bench timing -- --criterion` measures with criterion.
//! "Hashed" contestants start from a fingerprint, as a shard does; "from bytes" contestants hash the item with a keyed
//! SipHash-1-3. The timing filter prefetches batches of 64 lines, for which the plain filter's crate has no call, and its
//! memory is in huge pages, as in production.

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;

use criterion::Criterion;
use ebb_sketch::filter::belief::ArrivalShare;
use ebb_sketch::filter::inference::decision::Penalties;
use ebb_sketch::filter::inference::posterior::{AgePrior, Posterior};
use ebb_sketch::filter::inference::prior::ReuseSpec;
use ebb_sketch::filter::inference::{InferentialFilter, PriorSpec, Question, Seen};
use ebb_sketch::filter::structure::timing::AgeLikelihood;
use ebb_sketch::filter::structure::timing::{AgeUnit, LikelihoodScope, TimingFilter, TimingSpec};
use ebb_sketch::hash::{Fingerprint, HashKey};
use ebb_sketch::random::{Random, mix};
use fastbloom::BloomFilter;

mod support;
use support::{Peer, race};

const WINDOW_MS: u64 = 3_600_000;
const BATCH: usize = 64;
/// A stream in which about half of the arrivals repeat an item of the same pass.
struct Stream {
    items: Vec<Fingerprint>,
    bytes: Vec<[u8; 24]>,
}

fn stream(arrivals: usize) -> Stream {
    let mut random = Random::new(7);
    let mut number = |at: u64| if at > 0 && random.below(2) == 0 { random.below(at) } else { at };
    let numbers: Vec<u64> = (0..arrivals as u64).map(&mut number).collect();
    let items = numbers.iter().map(|&n| Fingerprint(u128::from(mix(n ^ 7)) << 64 | u128::from(mix(n)))).collect();
    let bytes = numbers.iter().map(|&n| item_bytes(n)).collect();
    Stream { items, bytes }
}

fn item_bytes(number: u64) -> [u8; 24] {
    let mut bytes = [b'.'; 24];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The time of each arrival and the salt of each pass; both continue from pass to pass.
struct Clock {
    start: u64,
    arrivals: u64,
    /// Milliseconds per arrival, in units of 2^-32.
    step: u64,
    pass: u64,
}

impl Clock {
    fn new(arrivals_per_window: u64) -> Self {
        Self { start: 1_700_000_000_000, arrivals: 0, step: (WINDOW_MS << 32) / arrivals_per_window, pass: 0 }
    }

    fn tick(&mut self) -> i64 {
        self.arrivals += 1;
        self.now_ms()
    }

    fn now_ms(&self) -> i64 {
        (self.start + ((u128::from(self.arrivals) * u128::from(self.step)) >> 32) as u64) as i64
    }

    fn next_pass(&mut self) -> Fingerprint {
        self.pass += 1;
        Fingerprint(u128::from(mix(self.pass)) << 64 | u128::from(mix(!self.pass)))
    }
}

fn salted(item: Fingerprint, salt: Fingerprint) -> Fingerprint {
    Fingerprint(item.0 ^ salt.0)
}

fn observe_standard(filter: &mut TimingFilter, clock: &mut Clock, items: &[Fingerprint]) -> u64 {
    let (mut duplicates, salt) = (0, clock.next_pass());
    for batch in items.chunks(BATCH) {
        batch.iter().for_each(|&item| filter.prefetch(salted(item, salt)));
        for &item in batch {
            let (item, now) = (salted(item, salt), clock.tick());
            filter.advance(now);
            let reading = filter.read(item);
            duplicates += u64::from(filter.standard_answer(&reading, now, WINDOW_MS));
            filter.insert(item, now);
            filter.count_arrival(now);
        }
    }
    duplicates
}

fn penalties() -> Penalties {
    Penalties::new(3.0, 2.0).unwrap()
}

fn observe_batch(filter: &mut InferentialFilter, clock: &mut Clock, batch: &[Fingerprint]) -> u64 {
    let penalties = penalties();
    batch.iter().for_each(|&item| filter.prefetch(item));
    let mut observe = |item: &Fingerprint| {
        let question = Question::new(*item, clock.tick(), WINDOW_MS).with_penalties(penalties);
        u64::from(filter.observe(&question).is_some_and(|answer| answer.duplicate))
    };
    batch.iter().map(&mut observe).sum()
}

fn observe_inferential(filter: &mut InferentialFilter, clock: &mut Clock, items: &[Fingerprint]) -> u64 {
    let salt = clock.next_pass();
    let mut salted_items = [Fingerprint::default(); BATCH];
    let mut observe = |batch: &[Fingerprint]| {
        salted_items.iter_mut().zip(batch).for_each(|(to, &item)| *to = salted(item, salt));
        observe_batch(filter, clock, &salted_items[..batch.len()])
    };
    items.chunks(BATCH).map(&mut observe).sum()
}

fn observe_bytes(filter: &mut InferentialFilter, clock: &mut Clock, key: &HashKey, items: &[[u8; 24]]) -> u64 {
    let salt = clock.next_pass().high().to_le_bytes();
    let mut fingerprints = [Fingerprint::default(); BATCH];
    let mut observe = |batch: &[[u8; 24]]| {
        for (fingerprint, bytes) in fingerprints.iter_mut().zip(batch) {
            *fingerprint = key.fingerprint(&salted_bytes(bytes, salt));
        }
        observe_batch(filter, clock, &fingerprints[..batch.len()])
    };
    items.chunks(BATCH).map(&mut observe).sum()
}

fn salted_bytes(bytes: &[u8; 24], salt: [u8; 8]) -> [u8; 24] {
    let mut salted = *bytes;
    salted[8..16].copy_from_slice(&salt);
    salted
}

/// A plain filter never forgets: it is cleared once per window, so that it holds as many items.
struct PlainFilter {
    filter: BloomFilter,
    clock: Clock,
    passes_per_window: u64,
}

impl PlainFilter {
    fn next_pass(&mut self) -> Fingerprint {
        if self.clock.pass.is_multiple_of(self.passes_per_window) {
            self.filter.clear();
        }
        self.clock.next_pass()
    }

    fn observe(&mut self, items: &[Fingerprint]) {
        let salt = self.next_pass().high();
        for item in items {
            let hash = item.high() ^ salt;
            black_box(self.filter.contains_hash(hash));
            black_box(self.filter.insert_hash(hash));
        }
    }

    fn observe_bytes(&mut self, items: &[[u8; 24]]) {
        let salt = self.next_pass().high().to_le_bytes();
        for bytes in items {
            let bytes = salted_bytes(bytes, salt);
            black_box(self.filter.contains(&bytes));
            black_box(self.filter.insert(&bytes));
        }
    }
}

/// Exact answers: a map of last sightings and a queue of expiries.
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
        // hashbrown: between 8/7 and 16/7 slots per entry, of 32 bytes and a control byte.
        let slots = (self.last.capacity() * 8 / 7).next_power_of_two();
        slots * (32 + 1) + self.queue.capacity() * 32
    }
}

fn spec(memory: u64) -> TimingSpec {
    TimingSpec::time(WINDOW_MS, 0, memory).unwrap()
}

fn constant(arrivals_per_window: u64) -> PriorSpec {
    PriorSpec::Constant(ArrivalShare::new(1.0 / arrivals_per_window as f64).unwrap())
}

/// Arrivals that leave 16 bits per distinct item; two of three arrivals are distinct.
fn arrivals_per_window(memory: u64) -> u64 {
    memory * 8 / 16 * 3 / 2
}

fn learned() -> PriorSpec {
    PriorSpec::Learned(ReuseSpec::new(WINDOW_MS, 2048).unwrap())
}

/// One race: memory, arrivals per pass (of the filters, and of the exact map), and rounds.
struct RaceSpec {
    title: &'static str,
    rounds: u32,
    memory: u64,
    arrivals: usize,
    map_arrivals: usize,
}

fn observations(race_spec: &RaceSpec) {
    let &RaceSpec { title, rounds, memory, arrivals, map_arrivals } = race_spec;
    let (stream, map_stream) = (stream(arrivals), self::stream(map_arrivals));
    let operations = arrivals as u64;
    let key = HashKey::new([9; 16]);
    let bits = memory as usize * 8;
    let per_window = arrivals_per_window(memory);
    let passes_per_window = (per_window / operations).max(1);
    let plain = |filter| PlainFilter { filter, clock: Clock::new(per_window), passes_per_window };
    let mut own_choice = plain(BloomFilter::with_num_bits(bits).expected_items(bits / 16));
    let mut four_hashes = plain(BloomFilter::with_num_bits(bits).hashes(4));
    let mut plain_bytes = plain(BloomFilter::with_num_bits(bits).expected_items(bits / 16));
    let mut standard = TimingFilter::new(spec(memory)).unwrap();
    let inferential = |prior| InferentialFilter::new(spec(memory), Seen::Last, prior).unwrap();
    let (mut constant, mut from_bytes) = (inferential(constant(per_window)), inferential(learned()));
    let mut learned = inferential(learned());
    let mut clocks: [Clock; 4] = std::array::from_fn(|_| Clock::new(per_window));
    let [standard_clock, constant_clock, bytes_clock, learned_clock] = &mut clocks;
    let mut exact = ExactMap::default();
    let mut exact_clock = Clock::new(6 * map_arrivals as u64);
    println!("\nplain filter: {} hashes by its own choice", own_choice.filter.num_hashes());
    let peers = vec![
        Peer::new("plain check + insert, hashed", operations, || own_choice.observe(&stream.items)),
        Peer::new("plain check + insert, 4 hashes, hashed", operations, || four_hashes.observe(&stream.items)),
        Peer::new("timing, standard answer, hashed", operations, || {
            black_box(observe_standard(&mut standard, standard_clock, &stream.items));
        }),
        Peer::new("timing, constant share + decision, hashed", operations, || {
            black_box(observe_inferential(&mut constant, constant_clock, &stream.items));
        }),
        Peer::new("timing, learned prior + decision, hashed", operations, || {
            black_box(observe_inferential(&mut learned, learned_clock, &stream.items));
        }),
        Peer::new("plain check + insert, from bytes", operations, || plain_bytes.observe_bytes(&stream.bytes)),
        Peer::new("timing, learned prior + decision, from bytes", operations, || {
            black_box(observe_bytes(&mut from_bytes, bytes_clock, &key, &stream.bytes));
        }),
        Peer::new("exact map with expiry, hashed", map_arrivals as u64, || {
            let salt = exact_clock.next_pass();
            for &item in &map_stream.items {
                black_box(exact.observe(salted(item, salt), exact_clock.tick()));
            }
        }),
    ];
    let ns = race(title, rounds, peers);
    println!(
        "  posterior + decision of the plain filter: x{:.2} (constant share), x{:.2} (learned), x{:.2} (learned, from bytes)\n  \
         standard answer {:.1} M/s; exact map x{:.2} of learned, in {} MiB for {} items; fill {:.3}",
        ns[3] / ns[0],
        ns[4] / ns[0],
        ns[6] / ns[5],
        1e3 / ns[2],
        ns[7] / ns[4],
        exact.memory_bytes() >> 20,
        exact.last.len(),
        standard.fill(),
    );
}

fn posterior_alone() {
    let stream = stream(1 << 16);
    let mut filter = TimingFilter::new(spec(512 << 10)).unwrap();
    let mut clock = Clock::new(arrivals_per_window(512 << 10));
    (0..12).for_each(|_| {
        observe_standard(&mut filter, &mut clock, &stream.items);
    });
    let salt = Fingerprint(u128::from(mix(clock.pass)) << 64 | u128::from(mix(!clock.pass)));
    let reading = |&item: &Fingerprint| (salted(item, salt), filter.read(salted(item, salt)));
    let readings: Vec<_> = stream.items.iter().map(reading).collect();
    let share = ArrivalShare::new(1e-5).unwrap();
    let now = clock.now_ms();
    let penalties = penalties();
    let likelihood = |item, reading| filter.likelihood(item, reading, AgeUnit::Arrivals, LikelihoodScope::Filter);
    let likelihoods: Vec<AgeLikelihood> = readings.iter().map(|(item, reading)| likelihood(*item, reading)).collect();
    let window = filter.window_in(AgeUnit::Arrivals, now, WINDOW_MS);
    let operations = readings.len() as u64;
    race(
        "posterior alone",
        20,
        vec![
            Peer::new("P_in and P_out from likelihood", operations, || {
                for &likelihood in &likelihoods {
                    black_box(Posterior::new(likelihood, AgePrior::Geometric(share)).within(window));
                }
            }),
            Peer::new("likelihood, posterior and decision of a reading", operations, || {
                for (item, reading) in &readings {
                    let likelihood = filter.likelihood(*item, reading, AgeUnit::Arrivals, LikelihoodScope::Filter);
                    let window = filter.window_in(AgeUnit::Arrivals, now, WINDOW_MS);
                    let belief = Posterior::new(likelihood, AgePrior::Geometric(share)).within(window);
                    black_box(penalties.decide(&belief));
                }
            }),
            Peer::new("the same with the likelihood of the line", operations, || {
                for (item, reading) in &readings {
                    let likelihood = filter.likelihood(*item, reading, AgeUnit::Arrivals, LikelihoodScope::Line);
                    let window = filter.window_in(AgeUnit::Arrivals, now, WINDOW_MS);
                    let belief = Posterior::new(likelihood, AgePrior::Geometric(share)).within(window);
                    black_box(penalties.decide(&belief));
                }
            }),
        ],
    );
}

fn main() {
    if std::env::args().any(|argument| argument == "--criterion") {
        let stream = stream(1 << 16);
        let mut filter = InferentialFilter::new(spec(512 << 10), Seen::Last, constant(1 << 18)).unwrap();
        let mut clock = Clock::new(arrivals_per_window(512 << 10));
        Criterion::default().sample_size(20).bench_function("65536 observations, posterior + decision", |bencher| {
            bencher.iter(|| observe_inferential(&mut filter, &mut clock, &stream.items));
        });
        let mut filter = TimingFilter::new(spec(512 << 10)).unwrap();
        Criterion::default().sample_size(20).bench_function("65536 observations, standard answer", |bencher| {
            bencher.iter(|| observe_standard(&mut filter, &mut clock, &stream.items));
        });
        return;
    }
    posterior_alone();
    observations(&RaceSpec {
        title: "in cache: 512 KiB",
        rounds: 60,
        memory: 512 << 10,
        arrivals: 1 << 16,
        map_arrivals: 1 << 16,
    });
    if std::env::var_os("EBB_SMALL").is_none() {
        observations(&RaceSpec {
            title: "1 GiB",
            rounds: 6,
            memory: 1 << 30,
            arrivals: 1 << 20,
            map_arrivals: 1 << 20,
        });
    }
}
