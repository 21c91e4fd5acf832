use ebb::store::{CheckpointIdentity, CheckpointRefusal, NextOffset, OpenReport, StoreError, StoreOptions};
use ebb_sketch::hash::KeyDigest;

use crate::support::{Draws, identity, open, options, shard};

const MIB: usize = 1 << 20;

#[test]
fn states_of_all_sizes_round_trip_before_and_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let sizes = [0, 1, 4095, 4096, 4097, MIB - 1, MIB, MIB + 1, 20 * MIB];
    let states: Vec<Vec<u8>> = sizes.iter().map(|size| Draws(*size as u64).bytes(*size)).collect();
    let (store, report) = open(dir.path());
    assert_eq!(report, OpenReport::default());
    for (partition, state) in states.iter().enumerate() {
        let saved = store.save(&shard(partition as u32), &identity(), NextOffset(partition as u64), state).unwrap();
        assert_eq!((saved.generation, saved.bytes), (1, state.len() as u64));
    }
    let check = |store: &ebb::store::Store| {
        for (partition, state) in states.iter().enumerate() {
            let loaded = store.load(&shard(partition as u32), &identity(), None).unwrap();
            assert!(loaded.refused.is_empty(), "{:?}", loaded.refused);
            let checkpoint = loaded.checkpoint.unwrap();
            assert_eq!(checkpoint.next, NextOffset(partition as u64));
            assert!(checkpoint.state == *state, "{} bytes differ", state.len());
        }
    };
    check(&store);
    drop(store);
    let (store, report) = open(dir.path());
    assert_eq!(report, OpenReport::default());
    check(&store);
    assert_eq!(store.load(&shard(99), &identity(), None).unwrap(), Default::default());
}

#[test]
fn only_the_newest_three_generations_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    for round in 1..=12u64 {
        let saved = store.save(&shard(0), &identity(), NextOffset(round * 10), &Draws(round).bytes(2 * MIB)).unwrap();
        assert_eq!(saved.generation, round);
    }
    for (max_next, expected) in [(None, Some(12)), (Some(119), Some(11)), (Some(100), Some(10)), (Some(99), None)] {
        let loaded = store.load(&shard(0), &identity(), max_next.map(NextOffset)).unwrap();
        let newer = loaded.refused.iter().filter(|(_, refusal)| matches!(refusal, CheckpointRefusal::Ahead(_))).count();
        assert_eq!(newer as u64, 12 - expected.unwrap_or(9), "{max_next:?}");
        assert_eq!(loaded.checkpoint.as_ref().map(|checkpoint| checkpoint.generation), expected);
        if let Some(checkpoint) = loaded.checkpoint {
            assert_eq!(checkpoint.next, NextOffset(checkpoint.generation * 10));
            assert!(checkpoint.state == Draws(checkpoint.generation).bytes(2 * MIB));
        }
    }
}

#[test]
fn generation_numbers_continue_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    for round in 1..=5 {
        let (store, _) = open(dir.path());
        assert_eq!(store.save(&shard(0), &identity(), NextOffset(round), b"state").unwrap().generation, round);
    }
}

#[test]
fn checkpoint_of_another_identity_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    store.save(&shard(0), &identity(), NextOffset(5), b"state").unwrap();
    let cases = [
        (CheckpointIdentity { config_hash: [8; 32], ..identity() }, CheckpointRefusal::Config),
        (
            CheckpointIdentity { key_digest: KeyDigest([4; 8]), ..identity() },
            CheckpointRefusal::HashKey(KeyDigest([3; 8])),
        ),
        (
            CheckpointIdentity { log: "clicks@made-2".into(), ..identity() },
            CheckpointRefusal::Log("clicks@made-1".into()),
        ),
        (CheckpointIdentity { schema: 2, ..identity() }, CheckpointRefusal::Schema(1)),
    ];
    for (other, refusal) in cases {
        let loaded = store.load(&shard(0), &other, None).unwrap();
        assert_eq!((loaded.checkpoint, loaded.refused), (None, vec![(1, refusal)]));
    }
    store.save(&shard(0), &CheckpointIdentity { schema: 2, ..identity() }, NextOffset(9), b"new state").unwrap();
    let loaded = store.load(&shard(0), &identity(), None).unwrap();
    assert_eq!(loaded.refused, vec![(2, CheckpointRefusal::Schema(2))]);
    assert_eq!(loaded.checkpoint.unwrap().state, b"state");
}

#[test]
fn metadata_survives_reopening_and_large_values_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    assert_eq!(store.get_metadata("partitions/clicks").unwrap(), None);
    store.put_metadata("partitions/clicks", b"8").unwrap();
    store.put_metadata("partitions/clicks", b"16").unwrap();
    drop(store);
    let (store, _) = open(dir.path());
    assert_eq!(store.get_metadata("partitions/clicks").unwrap().as_deref(), Some(&b"16"[..]));
    assert!(matches!(store.put_metadata("large", &[0; 4096]), Err(StoreError::TooLarge { .. })));
}

#[test]
fn store_in_use_cannot_be_opened_twice() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, _) = open(dir.path());
    let refused = ebb::store::Store::open(dir.path(), options());
    assert!(matches!(&refused, Err(StoreError::InUse(path)) if path == dir.path()), "{refused:?}");
}

#[test]
fn write_into_the_reserve_is_refused_and_the_store_stays_healthy() {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions { reserve_bytes: 1 << 60, ..options() };
    let (store, _) = ebb::store::Store::open(dir.path(), options).unwrap();
    assert!(matches!(store.put_metadata("name", b"1"), Err(StoreError::DiskFull { .. })));
    assert_eq!(store.health(), ebb::store::StoreHealth::Healthy);
    store.save(&shard(0), &identity(), NextOffset(1), b"state").unwrap();
}

#[test]
fn partial_files_and_orphan_chunks_of_a_killed_process_are_removed_on_open() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    store.save(&shard(0), &identity(), NextOffset(1), &Draws(1).bytes(10_000)).unwrap();
    drop(store);
    std::fs::write(dir.path().join("db/snap.0000000000000001.generating"), []).unwrap();
    let db = sled::open(dir.path().join("db"));
    assert!(db.is_err(), "sled alone does not open it");
    std::fs::write(dir.path().join("db/snap.0000000000000001.generating"), []).unwrap();
    let (store, report) = open(dir.path());
    assert_eq!(report, OpenReport { removed_files: 1, ..OpenReport::default() });
    drop(store);

    let db = sled::open(dir.path().join("db")).unwrap();
    let (key, chunk) = db.scan_prefix(b"c").next().unwrap().unwrap();
    let mut orphan = key.to_vec();
    orphan[17..25].copy_from_slice(&9u64.to_be_bytes());
    db.insert(&orphan, chunk).unwrap();
    drop(db);
    let (store, report) = open(dir.path());
    assert_eq!(report, OpenReport { orphan_chunks: 1, ..OpenReport::default() });
    drop(store);
    assert_eq!(open(dir.path()).1, OpenReport::default());
    let db = sled::open(dir.path().join("db")).unwrap();
    assert_eq!(db.scan_prefix(b"c").count(), 3, "only the chunks of the saved state are left");
}
