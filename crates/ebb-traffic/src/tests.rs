use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::*;

const START_MS: i64 = 1_700_000_000_000;

fn options() -> TrafficOptions {
    TrafficOptions { start_ms: START_MS, ..TrafficOptions::default() }
}

/// Long enough for twenty flash crowds, so that their share is near its target.
static LONG: LazyLock<Vec<Click>> = LazyLock::new(|| {
    let end_ms = START_MS + 20 * targets::BURST_EVERY_MS as i64;
    let options = TrafficOptions { rate_per_second: 100.0, ..options() };
    Traffic::new(5, options).unwrap().take_while(|click| click.at_ms < end_ms).collect()
});

fn bytes(traffic: Traffic, clicks: usize) -> Vec<u8> {
    traffic.take(clicks).flat_map(|click| [click.json, click.at_ms.to_le_bytes().to_vec()].concat()).collect()
}

fn share(clicks: &[Click], selects: impl Fn(&Click) -> bool) -> f64 {
    clicks.iter().filter(|click| selects(click)).count() as f64 / clicks.len() as f64
}

#[test]
fn golden_bytes_of_a_seed_are_unchanged() {
    let traffic = |seed| bytes(Traffic::new(seed, options()).unwrap(), 5_000);
    assert_eq!(
        blake3::hash(&traffic(1)).to_hex().as_str(),
        "e4bc8913298a6077383eb4e5c8e5c13f3ecbc8e52a25492d05a4daa8f1df1f75"
    );
    assert_eq!(traffic(1), traffic(1));
    assert_ne!(traffic(1), traffic(2));
}

#[test]
fn overwrite_gives_the_same_clicks_as_the_iterator() {
    let mut traffic = Traffic::new(3, options()).unwrap();
    let clicks: Vec<Click> = traffic.clone().take(2_000).collect();
    let mut click = clicks[1_999].clone();
    for expected in clicks {
        traffic.overwrite(&mut click);
        assert_eq!(click, expected);
    }
}

#[test]
fn shares_match_the_targets() {
    let clicks = &*LONG;
    let original = |source| share(clicks, |click| click.truth.source == source && click.truth.repeat.is_none());
    let repeats = |repeat| share(clicks, |click| click.truth.repeat == Some(repeat));
    for (name, actual, target) in [
        ("people", original(Source::Person), targets::PEOPLE),
        ("farm", original(Source::Farm), targets::FARM),
        ("crawler", original(Source::Crawler), targets::CRAWLER),
        ("burst", original(Source::Burst), targets::BURST),
        ("double clicks", repeats(Repeat::DoubleClick), targets::DOUBLE_CLICKS),
        ("retries", repeats(Repeat::Retry), targets::RETRIES),
    ] {
        assert!((actual / target - 1.0).abs() < 0.06, "{name}: {actual:.4} instead of {target}");
    }
    let seconds = 20.0 * targets::BURST_EVERY_MS as f64 / 1e3;
    assert!((clicks.len() as f64 / seconds / 100.0 - 1.0).abs() < 0.02, "{} clicks", clicks.len());
    assert!(clicks.iter().all(|click| click.truth.defect.is_none()));
}

#[test]
fn clicks_are_ordered_by_arrival_not_by_event_time() {
    let clicks = &*LONG;
    assert!(clicks.is_sorted_by_key(|click| click.at_ms));
    let backwards = clicks.windows(2).filter(|pair| pair[1].truth.time_ms < pair[0].truth.time_ms).count();
    assert!(backwards > clicks.len() / 10, "{backwards}");
}

#[test]
fn delays_have_a_heavy_tail() {
    let clicks: Vec<Click> = LONG.iter().filter(|click| click.truth.repeat.is_none()).cloned().collect();
    let later_than = |ms: i64| share(&clicks, |click| click.at_ms - click.truth.time_ms > ms);
    assert_eq!(later_than(19), 1.0);
    assert_eq!(later_than(targets::MAX_DELAY_MS as i64), 0.0);
    assert!((later_than(1_000) / targets::DELAY_TAIL_SHARE - 1.0).abs() < 0.06, "{}", later_than(1_000));
    assert!((0.0035..0.0055).contains(&later_than(10_000)), "{}", later_than(10_000));
    assert!((0.0003..0.0008).contains(&later_than(60_000)), "{}", later_than(60_000));
}

#[test]
fn campaigns_and_ads_of_people_follow_zipf() {
    let (mut campaigns, mut ads) = ([0.0; 200], [0.0; 25]);
    for click in LONG.iter().filter(|click| click.truth.source == Source::Person) {
        let ad = (click.truth.item >> 32) as u32;
        campaigns[(ad / 25) as usize] += 1.0;
        ads[(ad % 25) as usize] += 1.0;
    }
    for (name, counts, skew) in
        [("campaign", &campaigns[..], targets::CAMPAIGN_SKEW), ("ad", &ads[..], targets::AD_SKEW)]
    {
        for rank in [2, 4, 8, 16, 32, 64].into_iter().filter(|rank| *rank <= counts.len()) {
            let (got, law) = (counts[0] / counts[rank - 1], libm::pow(rank as f64, skew));
            assert!(
                (got / law - 1.0).abs() < 0.15,
                "{name} {rank}: the first is {got:.2} times as frequent, not {law:.2}"
            );
        }
    }
}

#[test]
fn people_click_several_times_in_a_session() {
    let (mut last, mut gaps_ms, mut people) = (BTreeMap::new(), Vec::new(), 0);
    for click in LONG.iter().filter(|click| click.truth.source == Source::Person && click.truth.repeat.is_none()) {
        people += 1;
        let visitor = (click.truth.item >> 64, click.truth.item as u32);
        gaps_ms.extend(last.insert(visitor, click.at_ms).map(|before_ms| click.at_ms - before_ms));
    }
    gaps_ms.retain(|gap_ms| *gap_ms < 10 * targets::SESSION_GAP_MS as i64);
    let (again, gap_ms) = (gaps_ms.len(), gaps_ms.iter().sum::<i64>() / gaps_ms.len() as i64);
    let expected = 1.0 - 1.0 / targets::SESSION_CLICKS as f64;
    assert!((again as f64 / f64::from(people) - expected).abs() < 0.02, "{again} of {people}");
    assert!(gap_ms.abs_diff(targets::SESSION_GAP_MS as i64) < 4_000, "{gap_ms}");
}

#[test]
fn only_retries_share_an_id_and_they_are_byte_identical() {
    let mut first = BTreeMap::new();
    let clicks = &*LONG;
    for click in clicks {
        let Some((at_ms, json)) = first.insert(click.truth.id, (click.at_ms, &click.json)) else {
            assert_ne!(click.truth.repeat, Some(Repeat::Retry));
            continue;
        };
        assert_eq!((click.truth.repeat, &click.json), (Some(Repeat::Retry), json));
        let gap_ms = (click.at_ms - at_ms) as u64;
        // Arrivals are rounded down to milliseconds, so the gap may be off by one.
        assert!((targets::RETRY_MS.start() - 1..=targets::RETRY_MS.end() + 1).contains(&gap_ms), "{gap_ms}");
    }
}

#[test]
fn double_clicks_follow_a_click_on_the_same_item() {
    let mut times = BTreeMap::<u128, Vec<i64>>::new();
    let mut gaps_ms = Vec::new();
    for Click { truth, .. } in LONG.iter() {
        let earlier = times.entry(truth.item).or_default();
        if truth.repeat == Some(Repeat::DoubleClick) {
            let gap = earlier.iter().map(|time_ms| (truth.time_ms - time_ms) as u64);
            let gap = gap.filter(|gap| targets::DOUBLE_CLICK_MS.contains(gap)).min();
            gaps_ms.push(gap.expect("there is a first click"));
        }
        earlier.push(truth.time_ms);
    }
    gaps_ms.sort_unstable();
    assert!((300..1_000).contains(&gaps_ms[gaps_ms.len() / 2]), "{}", gaps_ms[gaps_ms.len() / 2]);
}

#[test]
fn farm_replays_many_users_from_few_addresses_at_its_interval() {
    let (mut addresses, mut users) = (BTreeSet::new(), BTreeSet::new());
    let (mut last, mut replays) = (BTreeMap::new(), 0);
    let clicks = &*LONG;
    let farm = || clicks.iter().filter(|click| click.truth.source == Source::Farm && click.truth.repeat.is_none());
    for click in farm() {
        addresses.insert(click.truth.item >> 64);
        users.insert(click.truth.item as u32);
        if let Some(before_ms) = last.insert(click.truth.item, click.at_ms) {
            replays += 1;
            let interval_ms = click.at_ms - before_ms;
            assert!((45_000..75_000).contains(&interval_ms), "{interval_ms}");
        }
    }
    assert_eq!(addresses.len() as u64, targets::FARM_ADDRESSES);
    assert_eq!(users.len(), 720);
    assert_eq!(replays, farm().count() - 720);
}

#[test]
fn crawler_visits_all_ads_in_order_from_one_address() {
    let clicks = &*LONG;
    let steps = clicks.iter().filter(|click| click.truth.source == Source::Crawler && click.truth.repeat.is_none());
    let mut seen = 0;
    for (step, click) in steps.enumerate() {
        assert_eq!((click.truth.item >> 32) as u32, step as u32 % 5_000);
        assert_eq!((click.truth.item >> 64) as u32, 0xCB00_7107);
        seen = step;
    }
    assert!(seen > 5_000);
}

#[test]
fn each_interval_has_one_flash_crowd_that_doubles_the_rate() {
    let clicks = &*LONG;
    let second = |click: &Click| ((click.at_ms - START_MS) / 1_000) as usize;
    let mut per_second = vec![0u32; 20 * 120];
    clicks.iter().for_each(|click| per_second[second(click)] += 1);
    let mut crowds = BTreeMap::<usize, Vec<&Click>>::new();
    for click in clicks.iter().filter(|click| click.truth.source == Source::Burst && click.truth.repeat.is_none()) {
        crowds.entry(second(click) / 120).or_default().push(click);
    }
    assert_eq!(crowds.len(), 20);
    for crowd in crowds.values() {
        let campaigns: BTreeSet<u32> = crowd.iter().map(|click| (click.truth.item >> 32) as u32 / 25).collect();
        assert_eq!(campaigns.len(), 1);
        let (first, last) = (crowd[0], crowd[crowd.len() - 1]);
        assert!(last.at_ms - first.at_ms <= targets::BURST_LASTS_MS as i64);
        let peak = per_second[second(first)..second(first) + 3].iter().max().unwrap();
        assert!(*peak > 180, "{peak} clicks in the busiest second");
    }
}

#[test]
fn damage_changes_no_other_click() {
    let damaged = TrafficOptions { malformed_share: 0.05, ..options() };
    let clean = Traffic::new(8, options()).unwrap().take(20_000);
    let damaged: Vec<Click> = Traffic::new(8, damaged).unwrap().take(20_000).collect();
    let got = share(&damaged, |click| click.truth.defect.is_some());
    assert!((got - 0.05).abs() < 0.005, "{got}");
    for (clean, damaged) in clean.zip(&damaged) {
        assert_eq!((clean.at_ms, clean.truth.id), (damaged.at_ms, damaged.truth.id));
        assert_eq!(clean.json == damaged.json, damaged.truth.defect.is_none());
    }
    let defects: BTreeSet<Defect> = damaged.iter().filter_map(|click| click.truth.defect).collect();
    assert_eq!(defects.len(), Defect::ALL.len());
}

#[test]
fn number_of_scheduled_clicks_is_bounded_by_the_rate() {
    let mut traffic = Traffic::new(4, options()).unwrap();
    let max = (0..200_000).map(|_| (traffic.next(), traffic.follow_ups.len()).1).max();
    // Per 1 000 clicks/s: 40 double clicks with a gap of 0.7 s, 20 retries with a gap of 4 s, plus a flash crowd.
    assert!(max < Some(400), "{max:?}");
}

#[test]
fn extreme_start_times_do_not_overflow() {
    for start_ms in [i64::MIN, -1, i64::MAX] {
        let traffic = Traffic::new(4, TrafficOptions { start_ms, day: DayProfile::Diurnal, ..options() }).unwrap();
        assert_eq!(traffic.take(1_000).count(), 1_000);
    }
}

#[test]
fn invalid_options_are_refused_with_the_nearest_valid_value() {
    let refused = |options| Traffic::new(1, options).map(|_| ()).unwrap_err();
    let error = refused(TrafficOptions { rate_per_second: 0.0, ..options() });
    assert_eq!(error.to_string(), "rate_per_second must not be 0; the nearest valid value is 1");
    for options in [
        TrafficOptions { rate_per_second: f64::NAN, ..options() },
        TrafficOptions { malformed_share: 1.5, ..options() },
        TrafficOptions { campaigns: 0, ..options() },
        TrafficOptions { ads_per_campaign: 20_000, ..options() },
        TrafficOptions { people: 0, ..options() },
        TrafficOptions { farm_interval_ms: 0, ..options() },
    ] {
        let error = refused(options);
        assert!(error.nearest.is_finite(), "{error}");
    }
}
