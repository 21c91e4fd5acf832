//! How long a killed instance is away: from the start of the new process to the first output that a reader of committed
//! records has, with 64 MiB of state to take back and clicks that keep coming.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ebb_sketch::random::Random;
use rdkafka::producer::Producer;

use crate::bars::Bars;
use crate::rig::{Rig, Service, clicks, now_ms, send, told};
use crate::tail::Tail;

const TOPIC: &str = "bench.restart";
const MEMORY: &str = "64MiB";
const RATE: f64 = 2_000.0;
const PATIENCE: Duration = Duration::from_secs(60);
/// What was committed before the kill is read by then.
const SETTLE: Duration = Duration::from_millis(500);
const BAR_SECONDS: f64 = 3.0;

pub fn measure(rig: &Rig, bars: &mut Bars) {
    rig.make_topics(TOPIC, 1);
    let times = told("EBB_BENCH_RESTARTS", 20).max(1);
    let is_over = AtomicBool::new(false);
    let mut seconds = thread::scope(|scope| {
        scope.spawn(|| feed(rig, &is_over));
        let seconds = restarts(rig, times);
        is_over.store(true, Ordering::Relaxed);
        seconds
    });
    seconds.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| seconds[((seconds.len() as f64 * share).ceil() as usize).clamp(1, seconds.len()) - 1];
    println!(
        "\nrestart after kill -9 to the first committed output, {MEMORY} of state, {times} times, {RATE} records/s\n  \
         p50 {:.2} s   p99 {:.2} s   largest {:.2} s",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    bars.at_most("seconds from restart to the first committed output, p99", at(0.99), BAR_SECONDS);
}

fn restarts(rig: &Rig, times: u64) -> Vec<f64> {
    let service = Service { name: "restart", topic: TOPIC, memory: MEMORY, with_outputs: true };
    let (mut random, tail) = (Random::new(7), Tail::of(rig, TOPIC, 1));
    let first = |tail: &Tail| {
        let begun = Instant::now();
        tail.next_age_ms(PATIENCE).unwrap_or_else(|| panic!("no output after {PATIENCE:?}"));
        begun.elapsed().as_secs_f64()
    };
    let mut process = rig.start(rig.service(&service), service.name);
    first(&tail);
    // An orderly stop leaves a checkpoint: from now on there is state to take back.
    process.signal("TERM");
    assert!(process.wait_end(PATIENCE).is_some_and(|status| status.success()), "SIGTERM was not obeyed");
    process = rig.start(rig.service(&service), service.name);
    first(&tail);
    let mut seconds = Vec::new();
    for _ in 0..times {
        let run = Duration::from_millis(500 + random.below(1_500));
        let begun = Instant::now();
        while begun.elapsed() < run {
            tail.next_age_ms(Duration::from_millis(50));
        }
        drop(process);
        let killed = Instant::now();
        while killed.elapsed() < SETTLE {
            tail.next_age_ms(Duration::from_millis(50));
        }
        process = rig.start(rig.service(&service), service.name);
        seconds.push(first(&tail));
    }
    let log = fs::read_to_string(rig.folder.join(format!("{}.log", service.name))).expect("what it said");
    let cold = log.lines().filter(|line| line.contains("partition taken on") && line.contains("state=0")).count();
    assert_eq!(cold, 1, "a restart found no state; see the log in {}", rig.folder.display());
    seconds
}

fn feed(rig: &Rig, is_over: &AtomicBool) {
    let (producer, begun) = (rig.producer(), Instant::now());
    for (number, click) in (0u64..).zip(clicks(now_ms(), RATE)) {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        thread::sleep(Duration::from_secs_f64(number as f64 / RATE).saturating_sub(begun.elapsed()));
        producer.poll(Duration::ZERO);
        send(&producer, TOPIC, 1, &click, now_ms());
    }
    producer.flush(Duration::from_secs(30)).expect("all clicks are in the log");
}
