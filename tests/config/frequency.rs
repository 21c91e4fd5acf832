//! The frequency view as it is configured: what its counters answer, and what they take.

use ebb_core::{Record, Shard};
use ebb_sketch::filter::structure::frequency::FrequencyFilter;
use ebb_sketch::hash::{Fingerprint, HashKey};
use ebb_sketch::random::{Random, mix};

use crate::{parse, stream_error};

fn counters(keys: &str) -> FrequencyFilter {
    let config = parse(&format!("streams: {{s: {{event: {{item: ip}}, frequency: {{{keys}}}}}}}")).expect(keys);
    let plan = ebb::app::plan(&config.streams["s"], &config.limits, &HashKey::new([7; 16])).expect(keys);
    FrequencyFilter::new(*plan.frequency.expect("configured").spec())
}

fn item(x: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(x)) << 64 | u128::from(mix(!x)))
}

/// Zipf-distributed items, exponent 1, one per millisecond.
fn zipf(items: u64, length: usize) -> Vec<u64> {
    let sums: Vec<f64> = (1..=items)
        .scan(0.0, |sum, rank| {
            *sum += 1.0 / rank as f64;
            Some(*sum)
        })
        .collect();
    let mut random = Random::new(5);
    let mut draw = || {
        let at = random.unit() * sums[sums.len() - 1];
        sums.partition_point(|sum| *sum <= at) as u64
    };
    (0..length).map(|_| draw()).collect()
}

#[test]
fn counters_never_take_more_than_the_given_memory() {
    for memory in [1024, 1025, 1500, 2047, 4096, 5000, 10_007, 65_536, 100_000, 1 << 20, (1 << 20) + 77, 5 << 20] {
        for keys in [
            "method: forward",
            "method: basic",
            "method: optimised",
            "method: optimised, carry: all, cells: 1",
            "method: optimised, epoch: 5h",
            "method: optimised, epoch: 1s",
            "method: optimised, digit_bits: 5, fraction_bits: 1, epoch: 1h",
            "method: optimised, digit_bits: 16, pool: 1",
            "method: optimised, pool: 90",
        ] {
            let mut counts = counters(&format!("memory: {memory}B, {keys}"));
            let empty = counts.memory_bytes();
            (0..3_000).for_each(|x| counts.add(item(x % 700), x as i64));
            (0..20).for_each(|x| (0..2_000).for_each(|_| counts.add(item(x), 3_000)));
            let full = counts.memory_bytes();
            assert!(empty <= memory && full == empty, "{memory} {keys}: {empty} {full}");
            assert!(memory - empty <= 128 || memory - empty <= memory / 100, "{memory} {keys}: only {empty} are used");
        }
    }
}

#[test]
fn first_sightings_need_nothing_of_the_pool() {
    for carry in ["each", "all"] {
        let mut counts = counters(&format!("memory: 4KiB, method: optimised, carry: {carry}"));
        (0..2_000).for_each(|x| counts.add(item(x), 0));
        assert_eq!(counts.lost_increments(), 0, "{carry}");
        assert!((0..2_000).map(|x| counts.estimate(item(x), 0)).all(|count| !count.lower_bound && count.value >= 1.0));
    }
}

#[test]
fn optimised_is_as_accurate_as_basic_in_half_its_memory() {
    let (items, half_life_ms) = (6_000, 20_000);
    let stream = zipf(items, 100_000);
    let now = stream.len() as i64;
    let mut exact = vec![0.0; items as usize];
    for (time, x) in stream.iter().enumerate() {
        exact[*x as usize] += libm::exp2(-(now - time as i64) as f64 / half_life_ms as f64);
    }
    let excess = |keys: &str| {
        let mut counts = counters(&format!("{keys}, half_life: {half_life_ms}ms"));
        stream.iter().enumerate().for_each(|(time, x)| counts.add(item(*x), time as i64));
        let answers: Vec<f64> = (0..items).map(|x| counts.estimate(item(x), now).value).collect();
        assert_eq!(counts.lost_increments(), 0, "{keys}");
        assert!(answers.iter().zip(&exact).all(|(answer, exact)| *answer >= exact * (1.0 - 1e-12)), "{keys}");
        answers.iter().zip(&exact).map(|(answer, exact)| answer - exact).sum::<f64>() / items as f64
    };
    let basic = excess("method: basic, memory: 64KiB");
    let (each, all) =
        (excess("method: optimised, memory: 32KiB"), excess("method: optimised, memory: 32KiB, carry: all"));
    assert!(each <= basic * 1.02, "excess: basic {basic}, optimised in half the memory {each}");
    assert!(all <= each, "carry all never answers higher: {all} {each}");
    let same_memory = excess("method: optimised, memory: 64KiB");
    assert!(same_memory < basic * 0.6, "excess: basic {basic}, optimised in the same memory {same_memory}");
}

#[test]
fn carry_all_differs_from_each_and_never_answers_higher() {
    let fill = |carry: &str| {
        let keys = format!("memory: 48KiB, method: optimised, digit_bits: 11, pool: 6000, carry: {carry}");
        let mut counts = counters(&keys);
        zipf(6_000, 18_000).into_iter().for_each(|x| counts.add(item(x), 0));
        assert_eq!(counts.lost_increments(), 0, "{carry}");
        counts
    };
    let (each, all) = (fill("each"), fill("all"));
    let answers = |counts: &FrequencyFilter| (0..6_000).map(|x| counts.estimate(item(x), 0).value).collect::<Vec<_>>();
    let (each, all) = (answers(&each), answers(&all));
    assert!(all.iter().zip(&each).all(|(all, each)| all <= each));
    assert!(all.iter().sum::<f64>() < each.iter().sum::<f64>(), "the policy has no effect");
}

#[test]
fn an_event_counts_as_often_as_its_weight_says() {
    for method in ["forward", "basic", "optimised", "optimised, carry: all"] {
        let text = format!(
            "streams: {{s: {{event: {{item: ip, weight: n}}, frequency: {{memory: 64KiB, method: {method}}}}}}}"
        );
        let config = parse(&text).unwrap();
        let plan = ebb::app::plan(&config.streams["s"], &config.limits, &HashKey::new([7; 16])).unwrap();
        let mut shard = Shard::new(plan.clone(), 0).unwrap();
        for (offset, weight) in [3.0, 2.5, 1_000.0, 0.0].into_iter().enumerate() {
            let payload = format!(r#"{{"ip": "a", "n": {weight}}}"#);
            shard.apply(Record { offset: offset as u64, timestamp_ms: 0, payload: payload.as_bytes() });
        }
        let count = shard.frequency(&plan.reader.read_subject(br#"{"ip": "a"}"#).unwrap()).unwrap();
        // Rounding and the epoch add at most a sixteenth of a half-life's decay.
        assert!((1_005.5..1_005.5 * 1.05).contains(&count.value) && !count.lower_bound, "{method}: {count:?}");
    }
}

#[test]
fn epochs_may_be_longer_than_a_half_life() {
    for method in ["basic", "optimised"] {
        let mut counts = counters(&format!("half_life: 1h, epoch: 2h, method: {method}, memory: 64KiB"));
        (0..64).for_each(|_| counts.add(item(1), 0));
        let now = 4 * 3_600_000;
        counts.advance(now);
        let count = counts.estimate(item(1), now).value;
        // Four half-lives leave 4; at most a whole epoch is missing from the decay.
        assert!((4.0..=17.0).contains(&count), "{method}: {count}");
    }
    let message = stream_error("frequency: {method: basic, epoch: 20h}");
    assert!(message.contains("epoch (line 4): 20h is longer than 19 half-lives; the maximum is 19h"), "{message}");
}

#[test]
fn digits_that_cannot_work_are_refused_with_what_would() {
    for (keys, expected) in [
        ("carry: all", "frequency.carry (line 4): does not apply to method forward"),
        ("method: basic, carry: all", "frequency.carry (line 4): does not apply to method basic, which has no digits"),
        ("method: basic, digit_bits: 4", "frequency.digit_bits (line 4): does not apply to method basic"),
        ("method: basic, pool: 4", "frequency.pool (line 4): does not apply to method basic"),
        ("fraction_bits: 4", "frequency.fraction_bits (line 4): does not apply to method forward"),
        (
            "method: optimised, digit_bits: 4, fraction_bits: 4",
            "digit_bits (line 4): with 4 fractional bits one observation needs 5 bits, and rounding keeps 5 bits of an \
             idle count; set digit_bits: 5",
        ),
        (
            "method: optimised, memory: 1KiB, pool: 100000",
            "frequency.memory (line 4): a pool of 100000 digits and the 50016 counters that can use it do not fit; set memory: ",
        ),
        ("method: optimised, half_life: 1d, epoch: 1ms", "frequency.epoch (line 4): with so many sweeps per half-life"),
        (
            "method: optimised, memory: 1KiB, digit_bits: 17",
            "digit_bits (line 4): 17 is out of range; expected a whole",
        ),
        (
            "method: optimised, fraction_bits: 16",
            "fraction_bits (line 4): a digit of 16 bits must hold one observation",
        ),
        ("memory: 1023B", "frequency.memory (line 4): \"1023B\" is out of range; expected a size from 1KiB"),
    ] {
        let message = stream_error(&format!("frequency: {{{keys}}}"));
        assert!(message.contains(expected), "{keys}: {message}");
    }
    let message = stream_error("frequency: {method: optimised, memory: 1KiB, pool: 100000}");
    let least = message.rsplit("set memory: ").next().expect("a remedy");
    counters(&format!("method: optimised, pool: 100000, memory: {least}"));
}
