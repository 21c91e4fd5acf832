//! Workers on the partitions of topics: the threads, and what stops in which order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use tokio::sync::{mpsc, watch};

use super::kafka::{Ends, KafkaOptions, KafkaWorker, Links, Poll, Running, StreamSpec, Tenant, look_out};
use super::owned::Restored;
use super::residency::Residency;
use super::stream::{Place, Placed};
use super::worker::{Followed, QUEUE, StartError, Workers, WorkersOptions};
use crate::kafka::{Consumer, TopicPartition};
use crate::store::ShardId;

/// By stream: where its shards are.
pub type Places = BTreeMap<String, Placed>;

impl Workers {
    /// Joins the group and begins to fold what it assigns, on `threads` threads. Partitions are dealt out by number, so
    /// that one comes back to the same producer after a restart.
    pub fn follow(
        options: &WorkersOptions,
        kafka: KafkaOptions,
        streams: &BTreeMap<String, Arc<StreamSpec>>,
        threads: usize,
    ) -> Result<(Self, Places), StartError> {
        let (lists, places, parts) = deal(streams, threads);
        let topics: Vec<&str> = streams.values().map(|stream| &*stream.topic).collect();
        let consumer = Consumer::subscribe(&kafka.settings, &topics)?;
        let mut workers = Self::without_threads(options)?;
        let running = Running::default();
        look_out(&kafka.settings, parts.keys().cloned().collect(), running.clone())?;
        let (commands, commanded) = channel();
        let shards = lists.iter().flatten().map(|tenant: &Tenant| tenant.id.clone());
        let links = Links {
            options: Arc::new(kafka),
            group: consumer.group(),
            store: options.store.clone(),
            metrics: options.metrics.clone(),
            jobs: workers.jobs(),
            commands,
            residency: Residency::of(shards),
        };
        let mut feeds = Vec::new();
        let residency = links.residency.clone();
        for (index, tenants) in lists.into_iter().enumerate() {
            let (sender, inbox) = mpsc::channel(QUEUE);
            let (feed, fed) = mpsc::unbounded_channel();
            let (report, restored) = watch::channel(Restored::Done);
            let worker = KafkaWorker::new(index, tenants, links.clone(), report)?;
            let thread = thread::Builder::new().name(format!("worker-{index}"));
            workers.add(thread.spawn(move || worker.run(fed, inbox))?, sender, restored);
            feeds.push(feed);
        }
        drop(links);
        let (joined, has_joined) = watch::channel(Restored::Working);
        let (ended, has_ended) = watch::channel(None);
        let ends = Ends { feeds, commands: commanded, joined, ended };
        let poll = Poll::new(consumer, parts, ends, running.clone(), options.metrics.clone());
        let thread = thread::Builder::new().name("poll".into()).spawn(move || poll.run())?;
        workers.followed = Some(Followed { running, thread, has_ended, residency });
        workers.also_wait_for(has_joined);
        Ok((workers, places))
    }
}

type Dealt = (Vec<Vec<Tenant>>, Places, BTreeMap<TopicPartition, (usize, usize)>);

fn deal(streams: &BTreeMap<String, Arc<StreamSpec>>, threads: usize) -> Dealt {
    let all: usize = streams.values().map(|stream| stream.partitions as usize).sum();
    let mut lists: Vec<Vec<Tenant>> = Vec::new();
    lists.resize_with(threads.min(all).max(1), Vec::new);
    let (mut places, mut parts, mut turn) = (Places::new(), BTreeMap::new(), 0);
    for (name, stream) in streams {
        for partition in 0..stream.partitions {
            let worker = turn % lists.len();
            turn += 1;
            let place = Place { worker, shard: lists[worker].len() };
            let part = TopicPartition { topic: stream.topic.clone(), partition };
            let id = ShardId { stream: name.clone(), partition };
            lists[worker].push(Tenant::away(id, part.clone(), stream.clone()));
            let placed = places.entry(name.clone());
            placed.or_insert(Placed { plan: stream.plan.clone(), shards: Vec::new() }).shards.push(place);
            parts.insert(part, (place.worker, place.shard));
        }
    }
    (lists, places, parts)
}
