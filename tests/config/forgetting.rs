//! The keys of filters that forget at random, and of the classic filter.

use ebb::app;
use ebb_core::{ClassScale, FilterSpec, Span, StableViewSpec};
use ebb_sketch::filter::stable_posterior::SharePriorSpec;
use ebb_sketch::hash::HashKey;

use crate::{error, parse};

fn importance_error(dedup: &str) -> String {
    error(&format!("streams:\n  s:\n    event: {{item: ip, importance: tier}}\n    dedup: {{{dedup}}}\n"))
}

fn filter(dedup: &str) -> FilterSpec {
    let config =
        parse(&format!("streams: {{s: {{event: {{item: ip, importance: tier}}, dedup: {{{dedup}}}}}}}")).unwrap();
    app::plan(&config.streams["s"], &config.limits, &HashKey::new([7; 16])).unwrap().dedup.filter
}

fn stable(dedup: &str) -> StableViewSpec {
    *filter(dedup).stable().expect("a filter that forgets at random")
}

#[test]
fn conflicts_are_reported_at_the_key_to_change() {
    for (dedup, expected) in [
        ("missed: 0.1", "dedup.missed (line 4): does not apply to filter timing; remove it"),
        ("filter: classic, missed: 0.1", "dedup.missed (line 4): does not apply to filter classic; remove it"),
        ("filter: stable, missed: 2", "dedup.missed (line 4): \"2\" is not valid; expected a number greater than 0"),
        ("filter: stable, missed: 0.1, memory: 1MiB", "dedup.missed (line 4): requires the number of events within"),
        (
            "filter: stable, missed: 0.000001, memory: 1KiB, window: 1000000 events",
            "dedup.missed (line 4): the share of missed duplicates cannot be 0.000001: this memory forgets more",
        ),
        (
            "filter: stable, missed: 0.00000001, error: 0.00000000001, window: 1000000000000 events",
            "dedup.missed (line 4): the share of missed duplicates cannot be 0.00000001: no filter of up to a terabyte",
        ),
        (
            "filter: stable, missed: 0.1, memory: 1MiB, window: 10 events, decrements: 3",
            "dedup.decrements (line 4): is determined by missed; remove one of them",
        ),
        (
            "filter: stable, seen: first",
            "dedup.seen (line 4): first does not apply to filter stable, which renews an item",
        ),
        ("filter: stable, memory: 1KiB, cells: 16, bits: 8", "dedup.memory (line 4): the target rate cannot be 0.01"),
        ("importance_classes: percentiles", "importance_classes (line 4): does not apply to filter timing; remove it"),
        (
            "filter: stable, importance_mix: {1: 1}",
            "importance_mix (line 4): does not apply to filter stable; remove it",
        ),
        (
            "filter: importance-mc, importance_classes: ranks",
            "importance_classes (line 4): \"ranks\" is not valid; expected",
        ),
        (
            "filter: importance-mc, importance_classes: {}",
            "importance_classes (line 4): has 0 classes; expected 1 to 16",
        ),
        (
            "filter: importance-mc, importance_classes: {gold: 0}",
            "importance_classes.gold (line 4): \"0\" is not valid; expected a number greater than 0",
        ),
        (
            "filter: importance-mc, importance_classes: {gold: 3}, importance_mix: {silver: 1}",
            "importance_mix (line 4): \"silver\" is not one of importance_classes: gold",
        ),
        (
            "filter: importance-mc, importance_mix: {gold: 1}",
            "importance_mix (line 4): \"gold\" is not an importance; expected a number of at least 0",
        ),
        (
            "filter: importance-mc, importance_classes: percentiles, importance_mix: {1: 1}",
            "importance_mix (line 4): does not apply to percentiles, which are equally frequent",
        ),
    ] {
        let message = importance_error(dedup);
        assert!(message.contains(expected), "{dedup}: {message}");
    }
}

#[test]
fn penalties_need_a_posterior() {
    let penalty = "penalty: {false_duplicate: 1, missed_duplicate: 1}";
    for (dedup, expected) in [
        (
            "filter: classic",
            "dedup.penalty (line 4): requires a prior, which filter classic does not learn; add prior:",
        ),
        ("filter: stable", "dedup.penalty (line 4): requires the number of events within the window"),
        ("filter: stable, rate: 5, bits: 8", "dedup.penalty (line 4): requires counters of at most 5 bits"),
        ("filter: classic, prior: 1", "dedup.prior (line 4): \"1\" is not a valid prior"),
        ("filter: classic, prior: 0", "dedup.prior (line 4): \"0\" is not a valid prior"),
    ] {
        let message = importance_error(&format!("{dedup}, {penalty}"));
        assert!(message.contains(expected), "{dedup}: {message}");
    }
    assert!(matches!(
        filter(&format!("filter: classic, prior: 0.001, {penalty}")),
        FilterSpec::Classic { share: Some(_), .. }
    ));
    assert_eq!(stable(&format!("filter: stable, rate: 5, {penalty}")).prior, Some(SharePriorSpec::Learned));
    let constant = stable(&format!("filter: importance-h, rate: 5, prior: 0.001, {penalty}")).prior;
    assert!(matches!(constant, Some(SharePriorSpec::Constant(_))));
    assert_eq!(stable("filter: stable, rate: 5").prior, None, "without penalties nothing is inferred");
    let priced = format!(
        "streams: {{s: {{event: {{item: ip, key: k}}, dedup: {{filter: classic, rules: [{{keys: a, {penalty}}}]}}}}}}"
    );
    assert!(parse(&priced).unwrap_err().contains("rules.0.penalty (line 1): requires a prior"));
}

#[test]
fn keys_reach_the_filter() {
    let sized = stable("filter: importance-mc, window: 1h, rate: 10, error: 0.05, importance_classes: {a: 8, b: 2}");
    assert_eq!((sized.window, sized.window_events), (Some(Span::Milliseconds(3_600_000)), Some(36_000)));
    let ClassScale::Linear(scale) = sized.scale else { panic!("{sized:?}") };
    assert_eq!(scale.value(8.0), sized.filter.max_value(), "the largest importance of the table has the largest value");
    assert_eq!(stable("filter: importance-mc, importance_classes: percentiles").scale, ClassScale::Percentiles);
    let even = stable("filter: importance-mc, window: 1000 events, error: 0.05");
    let rare = stable("filter: importance-mc, window: 1000 events, error: 0.05, importance_mix: {1: 99, 10: 1}");
    assert!(rare.filter.cell_bytes() < even.filter.cell_bytes(), "rare important items need less memory");
    assert!(rare.mix.is_some() && even.mix.is_none());
    let small = stable("filter: stable, window: 5000 events, memory: 256KiB, missed: 0.02");
    let large = stable("filter: stable, window: 5000 events, memory: 512KiB, missed: 0.02");
    assert!(small.filter.decrements() < large.filter.decrements(), "more memory allows more decrements");
    let FilterSpec::Classic { hashes, .. } = filter("filter: classic, items: 100000, error: 0.0000001") else {
        panic!()
    };
    assert!(hashes > 8, "{hashes}");
}
