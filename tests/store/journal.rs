use ebb::store::{JournalBatch, JournalBounds, JournalRecord, LostRange, NextOffset, OpenReport, StoreError};

use crate::support::{batch, identity, open, replayed, shard};

fn bounds(first: u64, next: u64) -> Option<JournalBounds> {
    Some(JournalBounds { first: NextOffset(first), next: NextOffset(next) })
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
    let huge = JournalRecord { timestamp_ms: 0, payload: vec![0; (2 << 20) + 1] };
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
    let Some(StoreError::RecordsLost { range: lost, .. }) = error else { panic!("{error:?}") };
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

/// Ten entries of ten records each, of which `remove` takes some away behind the store's back.
fn with_a_hole(remove: impl Fn(u64) -> bool) -> (tempfile::TempDir, ebb::store::Store, OpenReport) {
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
fn a_hole_in_the_middle_is_named_and_what_is_behind_it_can_still_be_read() {
    let (_dir, store, report) = with_a_hole(|first| (30..=50).contains(&first));
    assert_eq!(report, OpenReport::default(), "only reading finds it");
    let (offsets, error) = replayed(&store, &shard(0), 5, |_| 300);
    assert_eq!((offsets, lost(error)), ((5..30).collect(), (30, 60)));
    let (offsets, error) = replayed(&store, &shard(0), 45, |_| 300);
    assert_eq!((offsets, lost(error)), (vec![], (45, 60)));
    let (offsets, error) = replayed(&store, &shard(0), 60, |_| 300);
    assert!(error.is_none() && offsets == (60..100).collect::<Vec<_>>());
}

#[test]
fn a_lost_head_tail_or_whole_is_reported_at_once_and_its_positions_are_never_given_again() {
    for (from, to) in [(0, 20), (70, 100), (0, 100)] {
        let (_dir, store, report) = with_a_hole(|first| (from..to).contains(&first));
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
fn a_loss_is_over_once_a_checkpoint_stands_behind_it() {
    let (dir, store, _) = with_a_hole(|first| first >= 70);
    store.save(&shard(0), &identity(), NextOffset(100), b"state").unwrap();
    store.truncate(&shard(0), NextOffset(100)).unwrap();
    drop(store);
    let (store, report) = open(dir.path());
    assert_eq!(report, OpenReport::default());
    assert!(replayed(&store, &shard(0), 100, |_| 300).1.is_none());
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
