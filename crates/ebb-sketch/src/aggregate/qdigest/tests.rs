use super::*;
use crate::random::Random;
use std::collections::BTreeMap;

/// The compression by its definition, on a map of heap ids, range by range.
fn naive(nodes: &BTreeMap<u64, f64>, bits: u8, range_capacity: f64) -> BTreeMap<u64, f64> {
    let subtree = |top: u64| {
        let within = |id: &u64| id.ilog2() >= top.ilog2() && id >> (id.ilog2() - top.ilog2()) == top;
        nodes.iter().filter(|(id, _)| within(id)).map(|(_, weight)| weight).sum::<f64>()
    };
    let mut kept = BTreeMap::new();
    let mut open = vec![(1u64, 0.0)];
    while let Some((id, debt)) = open.pop() {
        let remains = subtree(id) - debt;
        if remains <= 0.0 {
            continue;
        }
        if id.ilog2() == u32::from(bits) || remains <= range_capacity {
            kept.insert(id, remains);
            continue;
        }
        let own = nodes.get(&id).copied().unwrap_or(0.0);
        let keep = own.max(range_capacity).min(remains);
        kept.insert(id, keep);
        let owed = debt + keep - own;
        let left = owed.min(subtree(2 * id));
        open.extend([(2 * id, left), (2 * id + 1, owed - left)]);
    }
    kept
}

fn random_digest(bits: u8, items: usize, random: &mut Random) -> QDigest {
    let mut digest = QDigest::new(DigestShape::new(bits, 0.001).unwrap());
    for _ in 0..items {
        let value = random.below(1 << bits) >> random.below(u64::from(bits));
        digest.insert(value, (1 + random.below(5)) as f64);
    }
    digest
}

#[test]
fn compression_matches_the_naive_definition() {
    let mut random = Random::new(1);
    for round in 0..60 {
        let mut digest = random_digest(7, 1 + 5 * round, &mut random);
        for range_capacity in [1.0, 3.0, 8.0, 2.0, 40.0] {
            digest.fold_buffer();
            let expected = naive(&digest.nodes().into_iter().collect(), 7, range_capacity);
            digest.compress_at(range_capacity);
            assert_eq!(
                digest.nodes(),
                expected.into_iter().collect::<Vec<_>>(),
                "round {round}, range_capacity {range_capacity}"
            );
        }
    }
}

/// The published recursion lets a childless range above its capacity keep everything although it owes part of it, which
/// creates weight.
#[test]
fn overfull_leafless_range_pays_its_debt() {
    let mut forest: Forest<f64> = Forest::new(2);
    forest.add_sorted(vec![Node { range: DyadicRange::new(1, 0), mass: 3.0 }]);
    forest.compress(1.0);
    assert_eq!(forest.weight(), 3.0);
    assert_eq!(forest.nodes.iter().map(|node| node.mass).collect::<Vec<_>>(), [1.0, 2.0]);
}

#[test]
fn roots_are_compressed_independently() {
    let mut random = Random::new(3);
    let mut whole: Forest<f64> = Forest::new(6);
    let mut apart: Vec<Forest<f64>> = (0..4).map(|_| Forest::new(6)).collect();
    let mut positions: Vec<u64> = (0..200).map(|_| random.below(256)).collect();
    positions.sort_unstable();
    for group in positions.chunk_by(|a, b| a == b) {
        let node = Node { range: DyadicRange::new(6, group[0]), mass: group.len() as f64 };
        whole.add_sorted(vec![node.clone()]);
        apart[(group[0] >> 6) as usize].add_sorted(vec![node]);
    }
    whole.compress(7.0);
    apart.iter_mut().for_each(|one| one.compress(7.0));
    assert_eq!(whole.nodes, apart.into_iter().flat_map(|one| one.nodes).collect::<Vec<_>>());
}

#[test]
fn split_off_preserves_ranks_and_errors_of_both_parts() {
    let mut random = Random::new(4);
    for round in 0..40u64 {
        let mut digest = random_digest(8, 300, &mut random);
        if round % 2 == 0 {
            digest.compress_at(20.0);
        }
        let (whole, before) = (digest.weight(), digest.clone());
        let weight = (whole * random.unit()).floor().max(1.0);
        let part = digest.split_off(weight);
        assert!((part.weight() - weight).abs() < 1e-9 && (digest.weight() + weight - whole).abs() < 1e-9);
        for value in (0..=256).step_by(8) {
            let (a, b, both) = (part.rank_below(value), digest.rank_below(value), before.rank_below(value));
            assert!((a.0 + b.0 - both.0).abs() < 1e-9 && (a.1 + b.1 - both.1).abs() < 1e-9, "rank of {value}");
            // The relative width of the bounds is that of the whole.
            if round % 2 == 0 {
                assert!(a.1 - a.0 <= (both.1 - both.0) * weight / whole + 1e-9);
            }
        }
    }
}

#[test]
fn digest_size_is_bounded() {
    let shape = DigestShape::new(16, 0.05).unwrap();
    let mut digest = QDigest::new(shape);
    let mut random = Random::new(5);
    for _ in 0..60_000 {
        let value = random.below(1 << 16) >> random.below(16);
        digest.insert(value, 1.0);
        assert!(digest.len() <= shape.max_nodes() + shape.batch());
    }
    assert!((digest.weight() - 60_000.0).abs() < 1e-6);
}

#[test]
fn quantiles_are_within_half_of_beta() {
    let mut random = Random::new(6);
    let mut digest = QDigest::new(DigestShape::new(10, 0.1).unwrap());
    let mut values: Vec<u64> = (0..5000).map(|_| random.below(1024) >> random.below(10)).collect();
    values.iter().for_each(|value| digest.insert(*value, 1.0));
    values.sort_unstable();
    let reading = digest.reading();
    for percent in 1..=100usize {
        let found = reading.quantile(percent as f64 / 100.0).unwrap().unwrap();
        let exact = values[(percent * 50).max(1) - 1];
        assert!((found.lower..=found.upper).contains(&exact), "{found:?} of {exact}");
        let through = values.partition_point(|value| *value <= found.value) as f64 / 5000.0;
        let below = values.partition_point(|value| *value < found.value) as f64 / 5000.0;
        let phi = percent as f64 / 100.0;
        assert!(below <= phi + 0.05 + 1e-9 && through >= phi - 0.05 - 1e-9, "{found:?}");
    }
}
