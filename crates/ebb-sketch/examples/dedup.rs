//! A decaying dedup filter with posteriors: `cargo run -p ebb-sketch --example dedup`.
//!
//! Clicks repeat within minutes. A false duplicate loses the price of a good click, a missed duplicate pays for a repeat.
//! The filter holds 256 KiB, learns how soon items repeat, and gives the answer with the smaller expected cost.

use ebb_sketch::filter::inference::decision::Penalties;
use ebb_sketch::filter::inference::prior::ReuseSpec;
use ebb_sketch::filter::inference::{InferentialFilter, PriorSpec, Question, Seen};
use ebb_sketch::filter::structure::timing::TimingSpec;
use ebb_sketch::hash::HashKey;
use ebb_sketch::random::Random;
use ebb_sketch::units::{Bytes, parse_duration_ms};

const CLICKS: u64 = 400_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let window_ms = parse_duration_ms("10m")?;
    let spec = TimingSpec::time(window_ms, 0, 256 << 10)?;
    let prior = PriorSpec::Learned(ReuseSpec::new(window_ms, 4096)?);
    let mut filter = InferentialFilter::new(spec, Seen::First, prior)?;
    let key = HashKey::new(*b"use a secret key"); // unpredictable to those who send items
    let penalties = Penalties::new(1.0, 0.3)?;

    // 100 clicks per second; every third one repeats a click of the last minutes.
    let (mut random, mut numbers, mut duplicates) = (Random::new(1), Vec::new(), 0);
    for click in 0..CLICKS {
        let repeats = click > 0 && random.below(3) == 0;
        let number = if repeats { numbers[(click - 1 - random.below(click.min(20_000))) as usize] } else { click };
        numbers.push(number);
        let item = key.fingerprint(format!("click-{number}").as_bytes());
        let question = Question::new(item, click as i64 * 10, window_ms).with_penalties(penalties);
        if let Some(answer) = filter.observe(&question) {
            duplicates += u64::from(answer.duplicate);
        }
    }

    let now_ms = CLICKS as i64 * 10;
    println!("{duplicates} of {CLICKS} clicks are duplicates, found in {}", Bytes(filter.filter().memory_bytes()));
    println!("fill {:.2}, false-duplicate rate {:.3}", filter.filter().fill(), filter.filter().false_duplicate_rate());
    for (name, number) in [("a recent click", numbers[CLICKS as usize - 50]), ("a new click", CLICKS + 7)] {
        let item = key.fingerprint(format!("click-{number}").as_bytes());
        let answer = filter.ask(&Question::new(item, now_ms, window_ms).with_penalties(penalties));
        let seen = answer.belief.map_or_else(|| "not known yet".into(), |belief| format!("{:.4}", belief.inside));
        println!("{name}: duplicate = {}, P(seen) = {seen}, basis = {}", answer.duplicate, answer.basis.name());
    }

    // State is bytes: a decoded filter continues exactly like the one that was encoded.
    let restored = InferentialFilter::decode(spec, Seen::First, prior, &filter.encode())?;
    assert_eq!(restored.encode(), filter.encode());
    Ok(())
}
