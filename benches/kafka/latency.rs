//! From the moment a producer gives a record its time to the moment a reader of committed records has its output, under
//! half of the load that the service can carry here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::producer::Producer;

use crate::rig::{PARTITIONS, Rig, Service, clicks, now_ms, send};
use crate::tail::Tail;

const TOPIC: &str = "bench.live";
/// Joining and the first transactions are not measured.
const WARM_UP: Duration = Duration::from_secs(4);
const MEASURED: Duration = Duration::from_secs(10);

/// The service, and the bare loop with transactions, under the same load.
pub fn measure(rig: &Rig, rate: f64) {
    println!("\nfrom append to committed output at {rate:.0} records/s (half of the load above)");
    for (kind, name) in [("ebb", "ebb, exactly once"), ("peer", "bare consume and produce, transactions")] {
        rig.make_topics(TOPIC, PARTITIONS);
        let group = format!("latency-{kind}");
        let command = match kind {
            "ebb" => rig.service(&Service { name: &group, topic: TOPIC, memory: "4MiB", with_outputs: true }),
            _ => rig.peer("copy", &group, TOPIC),
        };
        let _process = rig.start(command, &group);
        let mut ages = ages(rig, rate);
        ages.sort_unstable();
        let at = |share: f64| ages[((ages.len() - 1) as f64 * share) as usize];
        println!(
            "  {name:<40} p50 {:>5} ms   p99 {:>5} ms   largest {:>5} ms   of {} outputs",
            at(0.5),
            at(0.99),
            at(1.0),
            ages.len()
        );
    }
}

fn ages(rig: &Rig, rate: f64) -> Vec<i64> {
    let (is_over, tail) = (AtomicBool::new(false), Tail::of(rig, TOPIC, PARTITIONS));
    thread::scope(|scope| {
        scope.spawn(|| feed(rig, rate, &is_over));
        let (begun, mut ages) = (Instant::now(), Vec::new());
        while begun.elapsed() < WARM_UP + MEASURED {
            if let Some(age) = tail.next_age_ms(Duration::from_millis(100))
                && begun.elapsed() > WARM_UP
            {
                ages.push(age);
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(!ages.is_empty(), "no outputs came; see the logs in {}", rig.folder.display());
        ages
    })
}

fn feed(rig: &Rig, rate: f64, is_over: &AtomicBool) {
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
    producer.flush(Duration::from_secs(30)).expect("all clicks are in the log");
}
