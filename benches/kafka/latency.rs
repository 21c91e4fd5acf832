//! Latency from a record's timestamp to the receipt of its committed output, at half of the measured capacity.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::producer::Producer;

use crate::output_reader::OutputReader;
use crate::rig::{PARTITIONS, Rig, ServiceSpec, clicks, now_ms, send};

const TOPIC: &str = "bench.live";
/// Excludes the group join and the first transactions.
const WARM_UP: Duration = Duration::from_secs(4);
const MEASURED: Duration = Duration::from_secs(10);

/// Measures the service and the transactional baseline under the same load.
pub fn measure(rig: &Rig, rate: f64) {
    println!("\nlatency from append to committed output at {rate:.0} records/s (half of the capacity above)");
    for (kind, name) in [("ebb", "ebb, exactly once"), ("baseline", "baseline consume and produce, transactions")] {
        rig.create_topics(TOPIC, PARTITIONS);
        let group = format!("latency-{kind}");
        let command = match kind {
            "ebb" => rig.service(&ServiceSpec { name: &group, topic: TOPIC, memory: "4MiB", with_outputs: true }),
            _ => rig.baseline("copy", &group, TOPIC),
        };
        let _process = rig.start(command, &group);
        let mut ages = measure_ages(rig, rate);
        ages.sort_unstable();
        let quantile = |share: f64| ages[((ages.len() - 1) as f64 * share) as usize];
        println!(
            "  {name:<40} p50 {:>5} ms   p99 {:>5} ms   max {:>5} ms   of {} outputs",
            quantile(0.5),
            quantile(0.99),
            quantile(1.0),
            ages.len()
        );
    }
}

fn measure_ages(rig: &Rig, rate: f64) -> Vec<i64> {
    let (is_over, outputs) = (AtomicBool::new(false), OutputReader::new(rig, TOPIC, PARTITIONS));
    thread::scope(|scope| {
        scope.spawn(|| produce(rig, rate, &is_over));
        let (begun, mut ages) = (Instant::now(), Vec::new());
        while begun.elapsed() < WARM_UP + MEASURED {
            if let Some(age) = outputs.next_age_ms(Duration::from_millis(100))
                && begun.elapsed() > WARM_UP
            {
                ages.push(age);
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(!ages.is_empty(), "no outputs; see the logs in {}", rig.directory.display());
        ages
    })
}

fn produce(rig: &Rig, rate: f64, is_over: &AtomicBool) {
    let (producer, begun) = (rig.producer(), Instant::now());
    for (number, click) in (0u64..).zip(clicks(now_ms(), rate)) {
        if number.is_multiple_of(32) {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let due = Duration::from_secs_f64(number as f64 / rate);
            thread::sleep(due.saturating_sub(begun.elapsed()));
            producer.poll(Duration::ZERO);
        }
        send(&producer, TOPIC, PARTITIONS, &click, now_ms());
    }
    producer.flush(Duration::from_secs(30)).expect("write all clicks");
}
