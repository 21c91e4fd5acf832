//! Random sequences of appends, checkpoints, truncations and reopenings, compared with a naive model in memory.

use std::collections::BTreeMap;

use ebb::store::{JournalBounds, NextOffset, OpenReport, Store, StoreError};

use crate::support::{Draws, batch, identity, open, replayed, shard};

const RECORD_BYTES: usize = 700;

/// The expected contents of one shard.
#[derive(Debug, Default, Clone)]
struct ShardModel {
    bounds: Option<(u64, u64)>,
    /// (generation, next offset, state), oldest first.
    kept: Vec<(u64, u64, Vec<u8>)>,
    saved: u64,
}

impl ShardModel {
    fn next(&self) -> u64 {
        self.bounds.map_or(0, |(_, next)| next)
    }

    fn save(&mut self, next: u64, state: Vec<u8>) -> u64 {
        self.saved += 1;
        self.kept.push((self.saved, next, state));
        if self.kept.len() > 3 {
            self.kept.remove(0);
        }
        self.saved
    }

    fn truncate(&mut self, before: u64) -> Option<u64> {
        let oldest = self.kept.iter().map(|(_, next, _)| *next).min();
        let (first, next) = self.bounds.as_mut()?;
        if let Some(oldest) = oldest {
            *first = (*first).max(oldest.min(before).min(*next));
        }
        Some(*first)
    }
}

fn check(store: &Store, partition: u32, model: &ShardModel, draws: &mut Draws) {
    let shard = shard(partition);
    let expected = model.bounds.map(|(first, next)| JournalBounds { first: NextOffset(first), next: NextOffset(next) });
    assert_eq!(store.journal_bounds(&shard), expected);
    if let Some((first, next)) = model.bounds {
        let from = first + draws.below(next - first + 1);
        let (offsets, error) = replayed(store, &shard, from, |_| RECORD_BYTES);
        assert!(error.is_none() && offsets == (from..next).collect::<Vec<_>>(), "{offsets:?} {error:?}");
    }
    let max_next = draws.below(model.next() + 10);
    let expected = model.kept.iter().rev().find(|(_, next, _)| *next <= max_next);
    let found = store.load(&shard, &identity(), Some(NextOffset(max_next))).unwrap().checkpoint;
    let found = found.map(|found| (found.generation, found.next.0, found.state));
    assert!(found.as_ref() == expected, "max_next {max_next}");
}

fn step(store: &Store, partition: u32, model: &mut ShardModel, draws: &mut Draws) {
    let id = shard(partition);
    match draws.below(10) {
        0..=4 => {
            let (next, count) = (model.next(), draws.below(200));
            store.append(&[batch(&id, next, count, RECORD_BYTES)]).unwrap();
            let first = model.bounds.map_or(next, |(first, _)| first);
            model.bounds = Some((first, next + count));
        }
        5 | 6 => {
            let next = model.next().saturating_sub(draws.below(20));
            let limit = [10, 5000, 300_000, 1_500_000][draws.below(4) as usize];
            let bytes = draws.below(limit) as usize;
            let state = draws.bytes(bytes);
            let saved = store.save(&id, &identity(), NextOffset(next), &state).unwrap();
            assert_eq!(saved.generation, model.save(next, state));
        }
        7 | 8 => {
            let before = draws.below(model.next() + 50);
            let first = store.truncate(&id, NextOffset(before)).unwrap();
            assert_eq!(first.map(|first| first.0), model.truncate(before));
        }
        _ => {
            let wrong = model.next() + 1 + draws.below(5);
            if model.bounds.is_some() {
                let refused = store.append(&[batch(&id, wrong, 1, RECORD_BYTES)]);
                assert!(matches!(refused, Err(StoreError::OutOfOrder { .. })), "{refused:?}");
            }
        }
    }
}

#[test]
fn random_call_sequences_agree_with_the_model() {
    let sequences: u64 = std::env::var("EBB_CASES").map_or(6, |cases| cases.parse::<u64>().expect("a number") / 40);
    for seed in 0..sequences {
        let mut draws = Draws(seed);
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path()).0;
        let mut models: BTreeMap<u32, ShardModel> =
            (0..3).map(|partition| (partition, ShardModel::default())).collect();
        for _ in 0..60 {
            let partition = draws.below(3) as u32;
            let model = models.get_mut(&partition).unwrap();
            step(&store, partition, model, &mut draws);
            check(&store, partition, model, &mut draws);
            if draws.below(15) == 0 {
                drop(store);
                let (again, report) = open(dir.path());
                assert_eq!(OpenReport { compacted_from: None, ..report }, OpenReport::default(), "seed {seed}");
                store = again;
            }
        }
        models.iter().for_each(|(partition, model)| check(&store, *partition, model, &mut draws));
    }
}
