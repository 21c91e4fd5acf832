//! Time from the restart of a killed instance to its first committed output, with 64 MiB of state to restore under load.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ebb_sketch::random::Random;
use rdkafka::producer::Producer;

use crate::log_lines::PARTITION_RESTORED;
use crate::output_reader::OutputReader;
use crate::rig::{Rig, ServiceSpec, clicks, env_number, now_ms, send};
use crate::targets::Targets;

const TOPIC: &str = "bench.restart";
const MEMORY: &str = "64MiB";
const RATE: f64 = 2_000.0;
const TIMEOUT: Duration = Duration::from_secs(60);
/// After this time all outputs from before the kill have been read.
const DRAIN_PERIOD: Duration = Duration::from_millis(500);
const TARGET_SECONDS: f64 = 3.0;

pub fn measure(rig: &Rig, targets: &mut Targets) {
    rig.create_topics(TOPIC, 1);
    let times = env_number("EBB_BENCH_RESTARTS", 20).max(1);
    let is_over = AtomicBool::new(false);
    let mut seconds = thread::scope(|scope| {
        scope.spawn(|| produce(rig, &is_over));
        let seconds = measure_restarts(rig, times);
        is_over.store(true, Ordering::Relaxed);
        seconds
    });
    seconds.sort_unstable_by(f64::total_cmp);
    let quantile = |share: f64| seconds[((seconds.len() as f64 * share).ceil() as usize).clamp(1, seconds.len()) - 1];
    println!(
        "\nrestart after kill -9 to the first committed output, {MEMORY} of state, {times} restarts, {RATE} records/s\n  \
         p50 {:.2} s   p99 {:.2} s   max {:.2} s",
        quantile(0.5),
        quantile(0.99),
        quantile(1.0)
    );
    targets.require_at_most("seconds from restart to the first committed output, p99", quantile(0.99), TARGET_SECONDS);
}

fn measure_restarts(rig: &Rig, times: u64) -> Vec<f64> {
    let service = ServiceSpec { name: "restart", topic: TOPIC, memory: MEMORY, with_outputs: true };
    let (mut random, outputs) = (Random::new(7), OutputReader::new(rig, TOPIC, 1));
    let seconds_to_first_output = || {
        let begun = Instant::now();
        outputs.next_age_ms(TIMEOUT).unwrap_or_else(|| panic!("no output within {TIMEOUT:?}"));
        begun.elapsed().as_secs_f64()
    };
    let mut process = rig.start(rig.service(&service), service.name);
    seconds_to_first_output();
    // A graceful stop writes a checkpoint, so that every later start restores state.
    process.signal("TERM");
    assert!(
        process.wait_for_exit(TIMEOUT).is_some_and(|status| status.success()),
        "the service did not stop on SIGTERM"
    );
    process = rig.start(rig.service(&service), service.name);
    seconds_to_first_output();
    let mut seconds = Vec::new();
    for _ in 0..times {
        let uptime = Duration::from_millis(500 + random.below(1_500));
        let begun = Instant::now();
        while begun.elapsed() < uptime {
            outputs.next_age_ms(Duration::from_millis(50));
        }
        drop(process);
        let killed = Instant::now();
        while killed.elapsed() < DRAIN_PERIOD {
            outputs.next_age_ms(Duration::from_millis(50));
        }
        process = rig.start(rig.service(&service), service.name);
        seconds.push(seconds_to_first_output());
    }
    let log = fs::read_to_string(rig.directory.join(format!("{}.log", service.name))).expect("read the log");
    let cold = log.lines().filter(|line| line.contains(PARTITION_RESTORED) && line.contains("state=0")).count();
    assert_eq!(cold, 1, "a restart restored no state; see the log in {}", rig.directory.display());
    seconds
}

fn produce(rig: &Rig, is_over: &AtomicBool) {
    let (producer, begun) = (rig.producer(), Instant::now());
    for (number, click) in (0u64..).zip(clicks(now_ms(), RATE)) {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        thread::sleep(Duration::from_secs_f64(number as f64 / RATE).saturating_sub(begun.elapsed()));
        producer.poll(Duration::ZERO);
        send(&producer, TOPIC, 1, &click, now_ms());
    }
    producer.flush(Duration::from_secs(30)).expect("write all clicks");
}
