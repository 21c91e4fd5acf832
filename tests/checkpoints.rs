//! Many shards share one checkpoint thread: every shard is saved, and a stop saves all of them a last time.

use std::collections::BTreeMap;
use std::sync::Arc;

use ebb::metrics::Metrics;
use ebb::store::{ShardId, Store, StoreOptions};
use ebb::workers::{Readiness, ShardPlacement, Stream, StreamLayout, Streams, Workers, WorkersOptions};
use ebb_core::{DedupSpec, EventSpec, FilterSpec, NextOffset, Plan, Reader, Seen};
use ebb_sketch::filter::structure::timing::TimingSpec;
use ebb_sketch::hash::HashKey;

const SHARDS: u32 = 12;

fn plan() -> Arc<Plan> {
    let spec = EventSpec::of_item(vec!["id".parse().unwrap()]);
    let reader = Arc::new(Reader::new(spec, HashKey::new([2; 16])).unwrap());
    let filter = FilterSpec::learning(TimingSpec::time(60_000, 6_000, 256 << 10).unwrap(), 64).unwrap();
    let dedup = DedupSpec::new(filter, Seen::First);
    Arc::new(Plan { reader, max_skew_ms: 1_000, dedup, frequency: None, aggregates: Vec::new() })
}

fn start(store: Arc<Store>) -> (Workers, Streams) {
    let plan = plan();
    let list = (0..SHARDS).map(|partition| (ShardId { stream: "s".into(), partition }, plan.clone())).collect();
    let workers = Workers::start(&WorkersOptions { store, metrics: Metrics::new() }, vec![list]).unwrap();
    let shards = (0..SHARDS as usize).map(|slot| ShardPlacement { worker: 0, slot }).collect();
    let streams = Streams::new(&workers, BTreeMap::from([("s".into(), StreamLayout { plan, shards })]));
    (workers, streams)
}

async fn record(stream: &Stream, ids: std::ops::Range<u32>) {
    let submissions = ids.map(|id| stream.submission(format!(r#"{{"id":{id}}}"#).into_bytes()).unwrap()).collect();
    stream.record(submissions).await.unwrap();
}

/// The next offset and the checkpointed offset of each partition.
async fn positions(stream: &Stream) -> Vec<(NextOffset, Option<NextOffset>)> {
    let shards = stream.status().await.unwrap();
    shards.iter().map(|shard| (shard.status.as_of.next, shard.checkpoint.map(|stored| stored.next))).collect()
}

#[test]
fn every_shard_is_checkpointed_on_request_and_on_stop() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let open = || Arc::new(Store::open(folder.path(), StoreOptions::default()).unwrap().0);
    let ends = runtime.block_on(async {
        let (workers, streams) = start(open());
        assert_eq!(streams.settled().await, Readiness::Ready);
        let stream = streams.get("s").unwrap();
        record(stream, 0..2_000).await;
        // One request: postponed checkpoints are resumed while the worker does other work.
        workers.request_checkpoints().await;
        let mut saved = Vec::new();
        for _ in 0..200_000 {
            saved = positions(stream).await;
            if saved.iter().all(|(next, checkpoint)| *checkpoint == Some(*next)) {
                break;
            }
        }
        assert!(saved.iter().all(|(next, checkpoint)| *checkpoint == Some(*next)), "{saved:?}");
        record(stream, 2_000..4_000).await;
        let ends: Vec<NextOffset> = positions(stream).await.into_iter().map(|(next, _)| next).collect();
        drop(streams);
        workers.stop().await;
        ends
    });
    runtime.block_on(async {
        let (workers, streams) = start(open());
        assert_eq!(streams.settled().await, Readiness::Ready);
        let restored = positions(streams.get("s").unwrap()).await;
        let expected: Vec<_> = ends.into_iter().map(|next| (next, Some(next))).collect();
        assert_eq!(restored, expected, "the last checkpoint covers the whole log");
        drop(streams);
        workers.stop().await;
    });
}
