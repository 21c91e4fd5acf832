use ebb::store::{Bounds, JournalBatch, NextOffset, OpenReport, Record, StoreError};

use crate::support::{batch, identity, open, replayed, shard};

fn bounds(first: u64, next: u64) -> Option<Bounds> {
    Some(Bounds { first: NextOffset(first), next: NextOffset(next) })
}

#[test]
fn what_is_appended_is_replayed_from_any_position_before_and_after_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let size = |offset: u64| [0, 1, 180, 4000, 5000, 70_000][offset as usize % 6];
    let (store, _) = open(dir.path());
    let mut next = 0;
    for count in [1, 2, 0, 7, 100, 1, 40] {
        let records = (next..next + count).map(|offset| crate::support::record(&shard(3), offset, size(offset)));
        let batch = JournalBatch { shard: shard(3), first: NextOffset(next), records: records.collect() };
        store.append(&[batch]).unwrap();
        next += count;
    }
    let check = |store: &ebb::store::Store| {
        assert_eq!(store.journal_bounds(&shard(3)), bounds(0, next));
        for from in 0..=next {
            let (offsets, error) = replayed(store, &shard(3), from, size);
            assert!(error.is_none(), "{error:?}");
            assert_eq!(offsets, (from..next).collect::<Vec<_>>());
        }
    };
    check(&store);
    drop(store);
    let (store, report) = open(dir.path());
    assert_eq!(report, OpenReport::default());
    check(&store);
}

#[test]
fn a_record_of_a_mebibyte_fits_and_a_larger_than_allowed_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    store.append(&[batch(&shard(0), 0, 2, (1 << 20) + 4096)]).unwrap();
    let huge = Record { timestamp_ms: 0, payload: vec![0; (2 << 20) + 1] };
    let huge = JournalBatch { shard: shard(0), first: NextOffset(2), records: vec![huge] };
    assert!(matches!(store.append(&[huge]), Err(StoreError::TooLarge { .. })));
    let (offsets, error) = replayed(&store, &shard(0), 0, |_| (1 << 20) + 4096);
    assert!(error.is_none() && offsets == [0, 1]);
}

#[test]
fn records_that_do_not_follow_are_refused_for_all_shards_of_the_append() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    store.append(&[batch(&shard(0), 10, 5, 10), batch(&shard(1), 0, 5, 10)]).unwrap();
    for wrong in [14, 16, 0] {
        let refused = store.append(&[batch(&shard(1), 5, 1, 10), batch(&shard(0), wrong, 1, 10)]);
        assert!(matches!(refused, Err(StoreError::OutOfOrder { expected: NextOffset(15), .. })), "{refused:?}");
    }
    assert_eq!((store.journal_bounds(&shard(0)), store.journal_bounds(&shard(1))), (bounds(10, 15), bounds(0, 5)));
    assert_eq!(replayed(&store, &shard(1), 0, |_| 10).0, [0, 1, 2, 3, 4]);
}

#[test]
fn the_journal_is_truncated_behind_the_oldest_checkpoint_and_no_further() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    for step in 0..50 {
        store.append(&[batch(&shard(0), step * 10, 10, 300)]).unwrap();
    }
    assert_eq!(
        store.truncate(&shard(0), NextOffset(400)).unwrap(),
        Some(NextOffset(0)),
        "no checkpoint, no truncation"
    );
    for next in [105, 200, 300] {
        store.save(&shard(0), &identity(), NextOffset(next), b"state").unwrap();
    }
    assert_eq!(store.truncate(&shard(0), NextOffset(300)).unwrap(), Some(NextOffset(105)));
    assert_eq!(store.journal_bounds(&shard(0)), bounds(105, 500));
    assert_eq!(replayed(&store, &shard(0), 105, |_| 300).0, (105..500).collect::<Vec<_>>());
    let (offsets, error) = replayed(&store, &shard(0), 104, |_| 300);
    assert!(offsets.is_empty());
    let Some(StoreError::Lost { lost, .. }) = error else { panic!("{error:?}") };
    assert_eq!((lost.from, lost.to), (NextOffset(104), NextOffset(105)));

    for _ in 0..3 {
        store.save(&shard(0), &identity(), NextOffset(500), b"state").unwrap();
    }
    assert_eq!(store.truncate(&shard(0), NextOffset(500)).unwrap(), Some(NextOffset(500)));
    drop(store);
    let (store, report) = open(dir.path());
    assert_eq!(report, OpenReport::default(), "an empty journal is no loss");
    assert_eq!(store.journal_bounds(&shard(0)), bounds(500, 500));
    assert_eq!(replayed(&store, &shard(0), 500, |_| 300).0, [0u64; 0]);
    store.append(&[batch(&shard(0), 500, 1, 300)]).unwrap();
    assert_eq!(replayed(&store, &shard(0), 500, |_| 300).0, [500]);
}

#[test]
fn a_checkpoint_ahead_of_an_unknown_journal_says_where_it_continues() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    assert_eq!(store.journal_bounds(&shard(0)), None);
    assert_eq!(replayed(&store, &shard(0), 70, |_| 1).0, [0u64; 0]);
    assert!(matches!(store.append(&[batch(&shard(0), 69, 1, 1)]), Err(StoreError::OutOfOrder { .. })));
    store.append(&[batch(&shard(0), 70, 1, 1)]).unwrap();
    assert_eq!(replayed(&store, &shard(0), 70, |_| 1).0, [70]);
}
