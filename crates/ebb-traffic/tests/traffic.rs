//! The synthetic click stream as the service reads it.

use std::collections::BTreeMap;

use ebb_core::{EventSpec, Path, Reader, Reason, TimeUnit};
use ebb_sketch::hash::HashKey;
use ebb_traffic::{Click, DayProfile, Defect, Traffic, TrafficOptions, targets};

const START_MS: i64 = 1_700_000_000_000;

fn path(text: &str) -> Path {
    text.parse().unwrap()
}

fn reader() -> Reader {
    let spec = EventSpec {
        key: Some(path("campaign")),
        time: Some((path("ts"), TimeUnit::Milliseconds)),
        id: Some(path("click_id")),
        value: Some(path("cost")),
        importance: Some(path("tier")),
        labels: vec![path("country"), path("device")],
        ..EventSpec::of_item(vec![path("ip"), path("ad"), path("user")])
    };
    Reader::new(spec, HashKey::new([7; 16])).unwrap()
}

fn clicks(malformed_share: f64) -> impl Iterator<Item = Click> {
    let options =
        TrafficOptions { start_ms: START_MS, malformed_share, day: DayProfile::Diurnal, ..TrafficOptions::default() };
    Traffic::new(11, options).unwrap().take(60_000)
}

#[test]
fn clicks_are_readable_and_match_their_ground_truth() {
    let (reader, mut items, mut ids) = (reader(), BTreeMap::new(), BTreeMap::new());
    for click in clicks(0.0) {
        let event = reader.read(&click.json).unwrap();
        assert_eq!(event.time_ms, Some(click.truth.time_ms));
        assert!((1.0..=4.0).contains(&event.importance.unwrap()));
        assert_eq!(*items.entry(click.truth.item).or_insert(event.item), event.item);
        assert_eq!(*ids.entry(click.truth.id).or_insert(event.id), event.id);
    }
    let distinct = |fingerprints: Vec<_>| fingerprints.into_iter().collect::<std::collections::BTreeSet<_>>().len();
    assert_eq!(distinct(items.values().map(|item| Some(*item)).collect()), items.len());
    assert_eq!(distinct(ids.values().copied().collect()), ids.len());
}

#[test]
fn payloads_have_about_180_bytes() {
    let sizes: Vec<usize> = clicks(0.0).map(|click| click.json.len()).collect();
    let mean = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
    assert!((175.0..190.0).contains(&mean), "{mean}");
    assert!(sizes.iter().all(|size| (170..=200).contains(size)));
}

#[test]
fn each_defect_is_rejected_with_its_reason() {
    let reader = reader();
    for click in clicks(0.2) {
        let reason = match click.truth.defect {
            None | Some(Defect::FarFuture) => None,
            Some(Defect::Empty) => Some(Reason::Empty),
            Some(Defect::NotText) => Some(Reason::Encoding),
            Some(Defect::Truncated) => Some(Reason::Parse),
            Some(Defect::Deep) => Some(Reason::Limits),
            Some(Defect::DuplicateKey) => Some(Reason::DuplicateKey),
            Some(Defect::MissingField | Defect::WrongType) => Some(Reason::Schema),
        };
        let read = reader.read(&click.json);
        assert_eq!(read.as_ref().err(), reason.as_ref(), "{}", String::from_utf8_lossy(&click.json));
        if click.truth.defect == Some(Defect::FarFuture) {
            assert!(read.unwrap().time_ms.unwrap() > click.at_ms + 300 * 86_400_000);
        }
    }
}

#[test]
fn costs_are_log_normal_between_and_within_campaigns() {
    let reader = reader();
    let mut costs = BTreeMap::<_, Vec<f64>>::new();
    for click in clicks(0.0) {
        let event = reader.read(&click.json).unwrap();
        costs.entry(event.key.unwrap()).or_default().push(libm::log(event.value.unwrap()));
    }
    let moments = |logs: &[f64]| {
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let variance = logs.iter().map(|log| (log - mean) * (log - mean)).sum::<f64>() / logs.len() as f64;
        (mean, variance.sqrt())
    };
    let by_campaign: Vec<(f64, f64)> =
        costs.values().filter(|logs| logs.len() > 50).map(|logs| moments(logs)).collect();
    assert!(by_campaign.len() > 100);
    let (mean, spread) = moments(&by_campaign.iter().map(|campaign| campaign.0).collect::<Vec<_>>());
    assert!((mean - libm::log(targets::MEDIAN_COST)).abs() < 0.25, "{mean}");
    assert!((spread - targets::CAMPAIGN_COST_SPREAD).abs() < 0.2, "{spread}");
    for (_, within) in by_campaign {
        assert!((within - targets::CLICK_COST_SPREAD).abs() < 0.12, "{within}");
    }
}
