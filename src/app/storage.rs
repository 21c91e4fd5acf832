//! Opens the store, and records in it what must not change while its state is used.

use std::time::Duration;

use crate::config::Config;
use crate::metrics::Metrics;
use crate::store::{OpenReport, Store, StoreOptions};

/// Opens the store in the data directory and logs what was repaired or lost.
pub(super) fn open_store(config: &Config, metrics: &Metrics) -> anyhow::Result<Store> {
    let options = StoreOptions {
        generations: config.checkpoint.generations as usize,
        deadline: Duration::from_millis(config.checkpoint.deadline.0),
        ..StoreOptions::default()
    };
    let (store, report) = Store::open(&config.data_dir.join("store"), options)?;
    let OpenReport { quarantined, compacted_from, removed_files, orphan_chunks, lost, unreadable_slots } = report;
    if let Some(aside) = quarantined {
        metrics.store_set_aside.inc();
        tracing::error!(
            reason = aside.reason,
            moved_to = %aside.path.display(),
            "the store is unreadable; it was moved aside and an empty one created"
        );
    }
    if let Some(bytes) = compacted_from {
        tracing::info!(
            bytes_before = bytes,
            bytes_after = store.disk_bytes(),
            "compacted the store to free disk space"
        );
    }
    for lost in lost {
        tracing::error!(shard = %lost.shard, from = lost.from.0, to = lost.to.0, "recorded events are lost");
    }
    if removed_files + orphan_chunks + unreadable_slots > 0 {
        tracing::warn!(removed_files, orphan_chunks, unreadable_slots, "removed leftovers of an unclean shutdown");
    }
    metrics.store_bytes.set(store.disk_bytes() as i64);
    Ok(store)
}

/// Whether the stored state was made with the same number of partitions. A new store records the number.
pub(super) enum PartitionCount {
    Unchanged,
    /// The number of partitions that the state was made with; `None` if the record is damaged.
    Changed(Option<u32>),
}

/// Compares the number of partitions with the one that is recorded under `name`, or records it. Items are distributed by
/// the number of partitions: with another number, an item's state would be in another partition than its events.
pub(super) fn compare_partitions(store: &Store, name: &str, partitions: u32) -> anyhow::Result<PartitionCount> {
    match store.get_metadata(name)? {
        None => {
            store.put_metadata(name, &partitions.to_be_bytes())?;
            Ok(PartitionCount::Unchanged)
        }
        Some(recorded) if recorded == partitions.to_be_bytes() => Ok(PartitionCount::Unchanged),
        Some(recorded) => {
            let recorded = <[u8; 4]>::try_from(recorded.as_slice()).ok().map(u32::from_be_bytes);
            Ok(PartitionCount::Changed(recorded))
        }
    }
}

/// The recorded number of partitions in an error message.
pub(super) fn partitions_text(recorded: Option<u32>) -> String {
    recorded.map_or_else(|| "another number of partitions".into(), |partitions| format!("{partitions} partitions"))
}
