//! What a record costs: the service and bare loops over the same log, in turn, the best of some rounds.
//!
//! Processor time is read from outside, between two committed positions of a process that is in full swing: starting,
//! joining and the records that are fetched ahead are outside of both ends.

use std::process::Command;
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::bars::Bars;
use crate::rig::{INPUT, PARTITIONS, Rig, Service, output, processor_seconds, told};

const LOOK_EVERY: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(180);
/// Of each partition: what the items of the log fill to a quarter. Checkpoints of it are taken as they usually are.
const MEMORY: &str = "4MiB";
/// Which part of the log is measured.
const FROM: f64 = 0.2;
const TO: f64 = 0.8;

/// What a record costs.
#[derive(Debug, Clone, Copy)]
struct Cost {
    processor_us: f64,
    wall_us: f64,
}

impl Cost {
    const NONE: Cost = Cost { processor_us: f64::INFINITY, wall_us: f64::INFINITY };

    fn best(self, other: Self) -> Self {
        Self { processor_us: self.processor_us.min(other.processor_us), wall_us: self.wall_us.min(other.wall_us) }
    }
}

struct Contestant<'a> {
    name: &'static str,
    /// Makes the command of a group.
    command: Box<dyn Fn(&str) -> Command + 'a>,
}

/// Kafka in to Kafka out; returns records a second of the service.
pub fn copy(rig: &Rig, bars: &mut Bars) -> f64 {
    let service = |group: &str| rig.service(&Service { name: group, topic: INPUT, memory: MEMORY, with_outputs: true });
    let contestants = [
        Contestant { name: "ebb, exactly once", command: Box::new(service) },
        Contestant { name: "bare consume and produce", command: Box::new(|group| rig.peer("copy", group, INPUT)) },
        Contestant {
            name: "bare, fetching as ebb does",
            command: Box::new(|group| rig.peer("copy-tuned", group, INPUT)),
        },
    ];
    let costs = race(rig, "Kafka in to Kafka out", &contestants);
    let ratio = costs[1].processor_us / costs[0].processor_us;
    bars.at_least("records per core, exactly once, against the bare loop", ratio, 0.7);
    1e6 / costs[0].wall_us
}

/// No outputs.
pub fn consume(rig: &Rig, bars: &mut Bars) {
    let service =
        |group: &str| rig.service(&Service { name: group, topic: INPUT, memory: MEMORY, with_outputs: false });
    let contestants = [
        Contestant { name: "ebb, no outputs", command: Box::new(service) },
        Contestant { name: "bare consume", command: Box::new(|group| rig.peer("consume", group, INPUT)) },
        Contestant {
            name: "bare, fetching as ebb does",
            command: Box::new(|group| rig.peer("consume-tuned", group, INPUT)),
        },
        Contestant {
            name: "bare consume in batches (Ebb's client)",
            command: Box::new(|group| rig.peer("consume-batches", group, INPUT)),
        },
    ];
    let costs = race(rig, "Kafka in, no outputs", &contestants);
    let ratio = costs[1].processor_us / costs[0].processor_us;
    bars.at_least("records per core without outputs against the bare consume loop", ratio, 0.5);
}

fn race(rig: &Rig, title: &str, contestants: &[Contestant<'_>]) -> Vec<Cost> {
    let mut best = vec![Cost::NONE; contestants.len()];
    for round in 0..told("EBB_BENCH_ROUNDS", 3) {
        for (index, (contestant, best)) in contestants.iter().zip(&mut best).enumerate() {
            let group = format!("{}-{index}-{round}", title.replace([' ', ','], "-"));
            *best = best.best(run(rig, (contestant.command)(&group), &group));
            forget_outputs(rig);
        }
    }
    println!("\n{title}");
    for (contestant, cost) in contestants.iter().zip(&best) {
        println!(
            "  {:<40} {:>6.2} us of processor {:>6.2} us of wall a record {:>8.0} records/s   x{:.2} per core x{:.2} by wall of {}",
            contestant.name,
            cost.processor_us,
            cost.wall_us,
            1e6 / cost.wall_us,
            cost.processor_us / best[0].processor_us,
            cost.wall_us / best[0].wall_us,
            contestants[0].name,
        );
    }
    best
}

/// Lets one contestant work through the log.
fn run(rig: &Rig, command: Command, group: &str) -> Cost {
    let watcher = Watcher::new(&rig.cluster.brokers(), group);
    let (mut process, begun) = (rig.start(command, group), Instant::now());
    let mut look_from = |share: f64| loop {
        let committed = watcher.committed();
        if committed as f64 >= share * rig.clicks as f64 {
            break (committed, processor_seconds(&process), Instant::now());
        }
        assert!(process.ended().is_none(), "{group} ended by itself; see its log in {}", rig.folder.display());
        assert!(begun.elapsed() < PATIENCE, "{group}: {committed} committed after {PATIENCE:?}");
        std::thread::sleep(LOOK_EVERY);
    };
    let (first, used_before, since) = look_from(FROM);
    let (last, used, until) = look_from(TO);
    let records = (last - first) as f64;
    Cost {
        processor_us: (used - used_before) * 1e6 / records,
        wall_us: until.duration_since(since).as_secs_f64() * 1e6 / records,
    }
}

/// What was written is not read again; the disk is not to fill up.
fn forget_outputs(rig: &Rig) {
    for verdict in crate::rig::VERDICTS {
        let name = output(INPUT, verdict);
        for partition in 0..PARTITIONS as i32 {
            let (first, end) = rig.admin.watermarks(&name, partition);
            if end > first {
                rig.admin.delete_records(&name, partition, end);
            }
        }
    }
}

/// Reads what a group has committed.
struct Watcher(BaseConsumer);

impl Watcher {
    fn new(brokers: &str, group: &str) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers).set("group.id", group).set("log_level", "0");
        // Whatever a transaction is about to commit does not keep it waiting.
        config.set("isolation.level", "read_uncommitted");
        Self(config.create().expect("a consumer"))
    }

    fn committed(&self) -> u64 {
        let mut list = TopicPartitionList::new();
        list.add_partition_range(INPUT, 0, PARTITIONS as i32 - 1);
        let Ok(committed) = self.0.committed_offsets(list, Duration::from_secs(5)) else { return 0 };
        let offset = |element: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| element.offset().to_raw();
        committed.elements().iter().filter_map(offset).map(|offset| offset.max(0) as u64).sum()
    }
}
