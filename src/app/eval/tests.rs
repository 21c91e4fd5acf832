use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::kafka::properties;
use ebb_eval::{StreamReport, binomial};
use ebb_sketch::random::Random;
use ebb_traffic::requests::{Request, RequestOptions, Requests};

/// Evaluates a file of this name and text; the streams are those of the YAML.
fn evaluated(name: &str, text: &str, streams: &str) -> anyhow::Result<Report> {
    evaluated_in(&tempfile::tempdir()?, name, text, streams)
}

/// As [`evaluated`], with the hash key of the folder if it has one.
fn evaluated_in(folder: &tempfile::TempDir, name: &str, text: &str, streams: &str) -> anyhow::Result<Report> {
    let file = folder.path().join(name);
    fs::write(&file, text)?;
    let yaml = format!("data_dir: {}\nstreams:\n  {streams}\n", folder.path().display());
    let config = Config::parse(&yaml, [], properties::check).map_err(|errors| anyhow::anyhow!("{errors}"))?;
    let decays = vec!["window:10s".parse()?, "exponential:half_life=1h".parse()?];
    evaluate(&config, &EvalOptions { file, format: None, streams: Vec::new(), decays, every: Some(5_000) })
}

fn only(report: &Report) -> &StreamReport {
    assert_eq!(report.streams.len(), 1);
    &report.streams[0]
}

/// (item, seconds) of events that repeat now and then.
fn events(count: usize, items: u64) -> Vec<(u64, i64)> {
    let mut random = Random::new(3);
    (0..count as i64).map(|at| (random.below(items), 1_700_000_000 + at)).collect()
}

#[test]
fn csv_with_rfc3339_times_equals_json_with_milliseconds() {
    let (mut csv, mut jsonl) = (String::from("ip,at,cost\n"), String::new());
    for (item, seconds) in events(400, 60) {
        let at = jiff::Timestamp::from_second(seconds).unwrap();
        csv += &format!("\"10,{item}\",{at},{}\n", item * 3);
        jsonl += &format!("{{\"ip\":\"10,{item}\",\"at\":{},\"cost\":{}}}\n", seconds * 1_000, item * 3);
    }
    let stream = |unit: &str| {
        format!(
            "s: {{event: {{item: ip, time: {{path: at, unit: {unit}}}, value: cost}}, dedup: {{window: 20s, memory: 4KiB}}, \
             aggregates: {{spent: {{of: value}}}}}}"
        )
    };
    let shown = |report: Report| serde_json::to_string(&report.streams).unwrap();
    let columns = evaluated("a.csv", &csv, &stream("rfc3339")).unwrap();
    assert!(only(&columns).errors.repeats > 50 && only(&columns).aggregates[0].checks.len() >= 10);
    assert_eq!(shown(columns), shown(evaluated("a.jsonl", &jsonl, &stream("ms")).unwrap()));
}

#[test]
fn bad_lines_are_counted_by_reason() {
    let text = "ip\tts\na\t1\nb\nc\tnoon\n\t2\nd\t4000000000000000\ne\t2\n";
    let report = evaluated("a.tsv", text, "s: {event: {item: ip, time: ts}}").unwrap();
    assert_eq!((report.lines, &report.bad_lines), (6, &BTreeMap::from([("columns", 1)])));
    let verdicts = &only(&report).verdicts;
    assert_eq!((verdicts.unique, &verdicts.rejected), (2, &BTreeMap::from([("future", 1), ("schema", 2)])));
    let text = "{\"ip\":1,\"ts\":1}\nnonsense\n\n{\"ip\":1,\"ip\":2,\"ts\":1}\n{\"ts\":5}\n";
    let report = evaluated("a.jsonl", text, "s: {event: {item: ip, time: ts}}").unwrap();
    let rejected = BTreeMap::from([("duplicate_key", 1), ("empty", 1), ("parse", 1), ("schema", 1)]);
    assert_eq!(only(&report).verdicts.rejected, rejected);
    assert!(report.text().contains("rejected 4 (duplicate_key 1, empty 1, parse 1, schema 1)"), "{}", report.text());
}

#[test]
fn event_windows_count_the_events_of_each_partition() {
    let sent = events(3_000, 300);
    let jsonl: String = sent.iter().map(|(item, s)| format!("{{\"ip\":{item},\"ts\":{}}}\n", s * 1_000)).collect();
    let stream = "s: {event: {item: ip, time: ts}, dedup: {window: 64 events, bits: 4, memory: 64KiB, seen: last}}";
    let report = evaluated("a.jsonl", &jsonl, stream).unwrap();
    let repeats = (0..sent.len()).filter(|at| sent[at.saturating_sub(64)..*at].iter().any(|one| one.0 == sent[*at].0));
    let found = only(&report);
    assert_eq!(found.errors.repeats, repeats.count() as u64);
    assert_eq!((found.errors.missed_duplicates, found.standard_answers.false_negatives), (0, 0));
    assert!(found.errors.false_duplicates > 0, "events of one block are indistinguishable");
    assert_eq!(found.errors.false_duplicates, found.errors.at_the_edge);
    let apart = evaluated("a.jsonl", &jsonl, &stream.replace("{event", "{partitions: 3, event")).unwrap();
    assert_eq!(only(&apart).standard_answers.false_negatives, 0);
    assert!(
        only(&apart).errors.repeats > found.errors.repeats,
        "64 events of a third of the stream span more of the stream"
    );
}

#[test]
fn undersized_filter_is_reported_and_penalties_reduce_its_cost() {
    let jsonl: String =
        events(20_000, 15_000).iter().map(|(item, s)| format!("{{\"ip\":{item},\"ts\":{}}}\n", s * 1_000)).collect();
    let stream =
        |penalty: &str| format!("s: {{event: {{item: ip, time: ts}}, dedup: {{window: 1h, memory: 2KiB{penalty}}}}}");
    let plain = evaluated("a.jsonl", &jsonl, &stream("")).unwrap();
    let own = &only(&plain).standard_answers;
    assert!(own.false_positives > 1_000 && own.false_negatives == 0, "{own:?}");
    assert!(only(&plain).calibration.is_empty() && !only(&plain).penalty.configured);
    let priced = stream(", penalty: {false_duplicate: 1, missed_duplicate: 0.1}");
    let priced = evaluated("a.jsonl", &jsonl, &priced).unwrap();
    let stream = only(&priced);
    assert_eq!(stream.standard_errors.false_duplicates, only(&plain).errors.false_duplicates);
    assert!(stream.errors.false_duplicates < stream.standard_errors.false_duplicates);
    assert!(stream.penalty.saved_against_standard > Some(0.3), "{:?}", stream.penalty);
    assert!(stream.calibration.iter().map(|bin| bin.stated).sum::<u64>() > 1_000, "{:?}", stream.bases);
    assert!(stream.memory.exact_bytes > 20 * stream.memory.filter_bytes);
}

#[test]
fn probabilistic_bounds_fail_at_most_as_often_as_stated() {
    const KEYS: u64 = 32;
    let options = RequestOptions { start_ms: 800_000_000_000, ..RequestOptions::default() };
    let lines = Requests::new(5, options).unwrap().take(4_000).map(|request| request.tsv());
    let text: String = std::iter::once(Request::HEADER.to_owned()).chain(lines).collect();
    let stream = "s: {event: {item: [host, url], time: {path: time, unit: s}, value: bytes}, dedup: {memory: 64KiB}, \
                  aggregates: {sent: {of: value, top: url, epsilon: 0.1, delta: 0.1, step: 1, max: 10000000}}}";
    let mut failed: BTreeMap<String, u64> = BTreeMap::new();
    for key in 0..KEYS {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("hash.key"), format!("{:032x}\n", u128::from(ebb_sketch::random::mix(key))))
            .unwrap();
        let report = evaluated_in(&folder, "a.tsv", &text, stream).unwrap();
        for check in &only(&report).aggregates[0].checks {
            assert_eq!((check.deterministic_outside, check.answers), (0, 1), "{check:?}");
            let question = format!("{} {}", check.decay, check.statistic);
            assert!(check.decay == "window:10s" || check.probabilistic == 1, "{question} is an estimate from a sample");
            *failed.entry(question).or_default() += check.probabilistic_outside;
        }
    }
    assert_eq!(failed.len(), 21, "three decays, seven statistics");
    // Each question alone: one answer a key, and the keys are drawn independently.
    for (question, failures) in &failed {
        assert!(
            binomial::upper_tail(KEYS, *failures, 0.1) > binomial::SIGNIFICANCE,
            "{question}: {failures} of {KEYS}"
        );
    }
}

#[test]
fn invalid_options_are_errors_with_a_hint() {
    let error = |name: &str, streams: &str| format!("{:#}", evaluated(name, "ip,ts\n", streams).unwrap_err());
    assert!(error("a.csv", "s: {event: {item: ip}}").contains("streams.s.event.time"));
    assert!(error("a.log", "s: {event: {item: ip, time: ts}}").contains("--format jsonl, csv or tsv"));
    let empty = evaluated("a.csv", "ip,ts\n", "s: {event: {item: ip, time: ts}}").unwrap();
    assert_eq!((empty.lines, only(&empty).errors.firsts), (0, 0));
    assert!(empty.page().unwrap().ends_with("</html>\n"), "an empty report has a page, too");
}

#[test]
fn errors_are_counted_by_importance_class() {
    let mut random = Random::new(8);
    let mut text = String::new();
    for at in 0..20_000i64 {
        let item = random.below(4_000);
        let tier = ["bronze", "silver", "gold"][(item % 3) as usize];
        text += &format!("{{\"ip\":{item},\"ts\":{},\"tier\":\"{tier}\"}}\n", 1_700_000_000_000 + at * 1_000);
    }
    let stream = "s: {event: {item: ip, time: ts, importance: tier}, dedup: {filter: importance-mc, window: 2000 events, \
                  error: 0.05, missed: 0.02, importance_classes: {gold: 3, silver: 2, bronze: 1}}}";
    let report = evaluated("a.jsonl", &text, stream).unwrap();
    let stream = only(&report);
    assert_eq!((stream.window.as_deref(), stream.counted_within.as_deref()), (None, Some("2000 events")));
    let named: Vec<&str> = stream.classes.iter().map(|class| class.class.as_str()).collect();
    assert_eq!((named, stream.seen), (vec!["bronze", "silver", "gold"], "last"));
    let missed = |at: usize| {
        let errors = &stream.classes[at].errors;
        errors.missed_duplicates as f64 / errors.repeats as f64
    };
    assert!(
        missed(2) < 0.02 && missed(2) < missed(1) && missed(1) < missed(0),
        "{} {} {}",
        missed(0),
        missed(1),
        missed(2)
    );
    let repeats: u64 = stream.classes.iter().map(|class| class.errors.repeats).sum();
    assert_eq!(repeats, stream.errors.repeats);
    assert!(
        report.text().contains("importance class") && report.text().contains("no window (repeats are counted within")
    );
}
