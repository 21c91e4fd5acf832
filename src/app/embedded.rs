//! The embedded service: shards over the journal, without Kafka.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::storage::{PartitionCount, compare_partitions, partitions_text};
use crate::config::Config;
use crate::store::{ShardId, Store};
use crate::workers::{ShardPlacement, StreamLayout, Workers, WorkersOptions};
use ebb_core::Plan;

/// The shards of each worker.
type Assignments = Vec<Vec<(ShardId, Arc<Plan>)>>;
/// Where the shards of each stream are.
type ShardMap = BTreeMap<String, StreamLayout>;

/// Starts the workers with all shards of all streams.
pub(super) fn start_workers(
    config: &Config,
    plans: BTreeMap<String, Arc<Plan>>,
    options: &WorkersOptions,
) -> anyhow::Result<(Workers, ShardMap)> {
    let mut streams = BTreeMap::new();
    for (name, plan) in plans {
        let partitions = config.streams[&name].partitions as u32;
        check_partitions(&options.store, &name, partitions)?;
        streams.insert(name, (plan, partitions));
    }
    let (assignments, shards) = assign(streams, config.workers as usize);
    Ok((Workers::start(options, assignments)?, shards))
}

fn check_partitions(store: &Store, stream: &str, partitions: u32) -> anyhow::Result<()> {
    match compare_partitions(store, &format!("partitions/{stream}"), partitions)? {
        PartitionCount::Unchanged => Ok(()),
        PartitionCount::Changed(recorded) => anyhow::bail!(
            "streams.{stream}.partitions: is {partitions}, but the state in data_dir has {}; restore that value, or start \
             with an empty data_dir",
            partitions_text(recorded)
        ),
    }
}

/// Assigns the shards to the workers in turn.
fn assign(streams: BTreeMap<String, (Arc<Plan>, u32)>, workers: usize) -> (Assignments, ShardMap) {
    let shards: usize = streams.values().map(|(_, partitions)| *partitions as usize).sum();
    let mut assignments: Assignments = vec![Vec::new(); workers.min(shards).max(1)];
    let (mut shards, mut next) = (ShardMap::new(), 0);
    for (name, (plan, partitions)) in streams {
        let mut places = Vec::new();
        for partition in 0..partitions {
            let worker = next % assignments.len();
            next += 1;
            places.push(ShardPlacement { worker, slot: assignments[worker].len() });
            assignments[worker].push((ShardId { stream: name.clone(), partition }, plan.clone()));
        }
        shards.insert(name, StreamLayout { plan, shards: places });
    }
    (assignments, shards)
}
