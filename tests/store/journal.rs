use ebb::store::{JournalBatch, JournalBounds, JournalRecord, LostRange, NextOffset, OpenReport, StoreError};

use crate::support::{batch, identity, open, replayed, shard};

fn bounds(first: u64, next: u64) -> Option<JournalBounds> {
    Some(JournalBounds { first: NextOffset(first), next: NextOffset(next) })
}

#[test]
fn appended_records_are_replayed_from_any_offset_before_and_after_reopening() {
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
fn large_record_is_stored_and_oversized_record_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    store.append(&[batch(&shard(0), 0, 2, (1 << 20) + 4096)]).unwrap();
    let huge = JournalRecord { timestamp_ms: 0, payload: vec![0; (2 << 20) + 1] };
    let huge = JournalBatch { shard: shard(0), first: NextOffset(2), records: vec![huge] };
    assert!(matches!(store.append(&[huge]), Err(StoreError::TooLarge { .. })));
    let (offsets, error) = replayed(&store, &shard(0), 0, |_| (1 << 20) + 4096);
    assert!(error.is_none() && offsets == [0, 1]);
}

#[test]
fn out_of_order_append_is_refused_for_all_shards_of_the_append() {
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
fn journal_is_truncated_only_up_to_the_oldest_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    for step in 0..50 {
        store.append(&[batch(&shard(0), step * 10, 10, 300)]).unwrap();
    }
    assert_eq!(
        store.truncate(&shard(0), NextOffset(400)).unwrap(),
        Some(NextOffset(0)),
        "no truncation without a checkpoint"
    );
    for next in [105, 200, 300] {
        store.save(&shard(0), &identity(), NextOffset(next), b"state").unwrap();
    }
    assert_eq!(store.truncate(&shard(0), NextOffset(300)).unwrap(), Some(NextOffset(105)));
    assert_eq!(store.journal_bounds(&shard(0)), bounds(105, 500));
    assert_eq!(replayed(&store, &shard(0), 105, |_| 300).0, (105..500).collect::<Vec<_>>());
    let (offsets, error) = replayed(&store, &shard(0), 104, |_| 300);
    assert!(offsets.is_empty());
    let Some(StoreError::RecordsLost { range: lost, .. }) = error else { panic!("{error:?}") };
    assert_eq!((lost.from, lost.to), (NextOffset(104), NextOffset(105)));

    for _ in 0..3 {
        store.save(&shard(0), &identity(), NextOffset(500), b"state").unwrap();
    }
    assert_eq!(store.truncate(&shard(0), NextOffset(500)).unwrap(), Some(NextOffset(500)));
    drop(store);
    let (store, report) = open(dir.path());
    assert_eq!(report, OpenReport::default(), "an empty journal is not a loss");
    assert_eq!(store.journal_bounds(&shard(0)), bounds(500, 500));
    assert_eq!(replayed(&store, &shard(0), 500, |_| 300).0, [0u64; 0]);
    store.append(&[batch(&shard(0), 500, 1, 300)]).unwrap();
    assert_eq!(replayed(&store, &shard(0), 500, |_| 300).0, [500]);
}

/// A store with ten entries of ten records each, without the entries that `remove` selects.
fn store_with_gap(remove: impl Fn(u64) -> bool) -> (tempfile::TempDir, ebb::store::Store, OpenReport) {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    for step in 0..10 {
        store.append(&[batch(&shard(0), step * 10, 10, 300)]).unwrap();
    }
    drop(store);
    let db = sled::open(dir.path().join("db")).unwrap();
    for (key, _) in db.scan_prefix(b"j").map(|pair| pair.unwrap()) {
        let first = u64::from_be_bytes(key[17..25].try_into().unwrap());
        if remove(first) {
            db.remove(key).unwrap();
        }
    }
    drop(db);
    let (store, report) = open(dir.path());
    (dir, store, report)
}

fn lost(error: Option<StoreError>) -> (u64, u64) {
    let Some(StoreError::RecordsLost { range: lost, .. }) = error else { panic!("{error:?}") };
    assert_eq!(lost.shard, shard(0));
    (lost.from.0, lost.to.0)
}

#[test]
fn gap_in_the_middle_is_reported_and_records_after_it_are_readable() {
    let (_dir, store, report) = store_with_gap(|first| (30..=50).contains(&first));
    assert_eq!(report, OpenReport::default(), "only a replay detects it");
    let (offsets, error) = replayed(&store, &shard(0), 5, |_| 300);
    assert_eq!((offsets, lost(error)), ((5..30).collect(), (30, 60)));
    let (offsets, error) = replayed(&store, &shard(0), 45, |_| 300);
    assert_eq!((offsets, lost(error)), (vec![], (45, 60)));
    let (offsets, error) = replayed(&store, &shard(0), 60, |_| 300);
    assert!(error.is_none() && offsets == (60..100).collect::<Vec<_>>());
}

#[test]
fn lost_head_or_tail_is_reported_on_open_and_its_offsets_are_not_reused() {
    for (from, to) in [(0, 20), (70, 100), (0, 100)] {
        let (_dir, store, report) = store_with_gap(|first| (from..to).contains(&first));
        let expected = LostRange { shard: shard(0), from: NextOffset(from), to: NextOffset(to) };
        assert_eq!(report.lost, vec![expected]);
        let (offsets, error) = replayed(&store, &shard(0), 0, |_| 300);
        assert_eq!((offsets, lost(error)), ((0..from).collect(), (from, to)));
        assert_eq!(store.journal_bounds(&shard(0)), bounds(0, 100));
        store.append(&[batch(&shard(0), 100, 1, 300)]).unwrap();
        assert_eq!(replayed(&store, &shard(0), to, |_| 300).0, (to..101).collect::<Vec<_>>());
    }
}

#[test]
fn loss_is_no_longer_reported_after_a_later_checkpoint() {
    let (dir, store, _) = store_with_gap(|first| first >= 70);
    store.save(&shard(0), &identity(), NextOffset(100), b"state").unwrap();
    store.truncate(&shard(0), NextOffset(100)).unwrap();
    drop(store);
    let (store, report) = open(dir.path());
    assert_eq!(report, OpenReport::default());
    assert!(replayed(&store, &shard(0), 100, |_| 300).1.is_none());
}

#[test]
fn replay_of_an_unknown_journal_defines_where_it_continues() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    assert_eq!(store.journal_bounds(&shard(0)), None);
    assert_eq!(replayed(&store, &shard(0), 70, |_| 1).0, [0u64; 0]);
    assert!(matches!(store.append(&[batch(&shard(0), 69, 1, 1)]), Err(StoreError::OutOfOrder { .. })));
    store.append(&[batch(&shard(0), 70, 1, 1)]).unwrap();
    assert_eq!(replayed(&store, &shard(0), 70, |_| 1).0, [70]);
}
