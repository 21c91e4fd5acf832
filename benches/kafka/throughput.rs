//! Cost of a record: the service and the baselines process the same log in turn; the best of several rounds counts.
//!
//! CPU time is read from /proc between two committed positions in the middle of the log, so that startup, group join and
//! prefetching are excluded.

use std::process::Command;
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::rig::{INPUT, PARTITIONS, Rig, ServiceSpec, VERDICTS, cpu_seconds, env_number, output_topic};
use crate::targets::Targets;

const POLL_INTERVAL: Duration = Duration::from_millis(20);
const TIMEOUT: Duration = Duration::from_secs(180);
/// Per partition; the items of the log fill a quarter. Checkpoints are taken at the default interval.
const MEMORY: &str = "4MiB";
/// The measured range of the log.
const FROM: f64 = 0.2;
const TO: f64 = 0.8;

/// The cost of one record.
#[derive(Debug, Clone, Copy)]
struct Cost {
    cpu_us: f64,
    wall_us: f64,
}

impl Cost {
    const WORST: Cost = Cost { cpu_us: f64::INFINITY, wall_us: f64::INFINITY };

    fn best(self, other: Self) -> Self {
        Self { cpu_us: self.cpu_us.min(other.cpu_us), wall_us: self.wall_us.min(other.wall_us) }
    }
}

struct Contestant<'a> {
    name: &'static str,
    /// Builds the command for a consumer group.
    command: Box<dyn Fn(&str) -> Command + 'a>,
}

/// Measures consume, process and produce; returns the service's records per second.
pub fn measure_copy(rig: &Rig, targets: &mut Targets) -> f64 {
    let service =
        |group: &str| rig.service(&ServiceSpec { name: group, topic: INPUT, memory: MEMORY, with_outputs: true });
    let contestants = [
        Contestant { name: "ebb, exactly once", command: Box::new(service) },
        Contestant {
            name: "baseline consume and produce",
            command: Box::new(|group| rig.baseline("copy", group, INPUT)),
        },
        Contestant {
            name: "baseline, with Ebb's fetch settings",
            command: Box::new(|group| rig.baseline("copy-tuned", group, INPUT)),
        },
    ];
    let costs = compare(rig, "consume, process, produce", &contestants);
    let ratio = costs[1].cpu_us / costs[0].cpu_us;
    targets.require_at_least("records per core, exactly once, relative to the baseline", ratio, 0.7);
    1e6 / costs[0].wall_us
}

/// Measures consume and process without outputs.
pub fn measure_consume(rig: &Rig, targets: &mut Targets) {
    let service =
        |group: &str| rig.service(&ServiceSpec { name: group, topic: INPUT, memory: MEMORY, with_outputs: false });
    let contestants = [
        Contestant { name: "ebb, no outputs", command: Box::new(service) },
        Contestant { name: "baseline consume", command: Box::new(|group| rig.baseline("consume", group, INPUT)) },
        Contestant {
            name: "baseline, with Ebb's fetch settings",
            command: Box::new(|group| rig.baseline("consume-tuned", group, INPUT)),
        },
        Contestant {
            name: "baseline consume in batches (Ebb's client)",
            command: Box::new(|group| rig.baseline("consume-batches", group, INPUT)),
        },
    ];
    let costs = compare(rig, "consume, process", &contestants);
    let ratio = costs[1].cpu_us / costs[0].cpu_us;
    targets.require_at_least("records per core without outputs, relative to the baseline", ratio, 0.5);
}

fn compare(rig: &Rig, title: &str, contestants: &[Contestant<'_>]) -> Vec<Cost> {
    let mut best = vec![Cost::WORST; contestants.len()];
    for round in 0..env_number("EBB_BENCH_ROUNDS", 3) {
        for (index, (contestant, best)) in contestants.iter().zip(&mut best).enumerate() {
            let group = format!("{}-{index}-{round}", title.replace([' ', ','], "-"));
            *best = best.best(measure(rig, (contestant.command)(&group), &group));
            delete_outputs(rig);
        }
    }
    println!("\n{title}");
    for (contestant, cost) in contestants.iter().zip(&best) {
        println!(
            "  {:<40} {:>6.2} us CPU {:>6.2} us wall per record {:>8.0} records/s   x{:.2} CPU x{:.2} wall of {}",
            contestant.name,
            cost.cpu_us,
            cost.wall_us,
            1e6 / cost.wall_us,
            cost.cpu_us / best[0].cpu_us,
            cost.wall_us / best[0].wall_us,
            contestants[0].name,
        );
    }
    best
}

/// Runs one contestant over the log.
fn measure(rig: &Rig, command: Command, group: &str) -> Cost {
    let offsets = CommittedOffsets::new(&rig.cluster.brokers(), group);
    let (mut process, begun) = (rig.start(command, group), Instant::now());
    let mut sample_at = |share: f64| loop {
        let committed = offsets.sum();
        if committed as f64 >= share * rig.clicks as f64 {
            break (committed, cpu_seconds(&process), Instant::now());
        }
        assert!(process.exit_status().is_none(), "{group} exited; see its log in {}", rig.directory.display());
        assert!(begun.elapsed() < TIMEOUT, "{group}: {committed} committed after {TIMEOUT:?}");
        std::thread::sleep(POLL_INTERVAL);
    };
    let (first, cpu_before, since) = sample_at(FROM);
    let (last, cpu, until) = sample_at(TO);
    let records = (last - first) as f64;
    Cost {
        cpu_us: (cpu - cpu_before) * 1e6 / records,
        wall_us: until.duration_since(since).as_secs_f64() * 1e6 / records,
    }
}

/// Frees the disk space of outputs, which nobody reads.
fn delete_outputs(rig: &Rig) {
    for verdict in VERDICTS {
        let name = output_topic(INPUT, verdict);
        for partition in 0..PARTITIONS as i32 {
            let (first, end) = rig.admin.watermarks(&name, partition);
            if end > first {
                rig.admin.delete_records(&name, partition, end);
            }
        }
    }
}

/// Reads the committed offsets of a group.
struct CommittedOffsets(BaseConsumer);

impl CommittedOffsets {
    fn new(brokers: &str, group: &str) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers).set("group.id", group).set("log_level", "0");
        // Does not wait for pending transactional offset commits.
        config.set("isolation.level", "read_uncommitted");
        Self(config.create().expect("create a consumer"))
    }

    fn sum(&self) -> u64 {
        let mut list = TopicPartitionList::new();
        list.add_partition_range(INPUT, 0, PARTITIONS as i32 - 1);
        let Ok(committed) = self.0.committed_offsets(list, Duration::from_secs(5)) else { return 0 };
        let offset = |element: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| element.offset().to_raw();
        committed.elements().iter().filter_map(offset).map(|offset| offset.max(0) as u64).sum()
    }
}
