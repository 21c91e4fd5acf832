use std::collections::BTreeMap;

use super::*;

const DAY_MS: i64 = 24 * HOUR_MS;
const START_MS: i64 = 20_000 * DAY_MS;

fn day() -> Vec<Request> {
    let options = RequestOptions { start_ms: START_MS, ..RequestOptions::default() };
    Requests::new(7, options).unwrap().take_while(|request| request.at_ms < START_MS + DAY_MS).collect()
}

#[test]
fn lines_depend_only_on_the_seed() {
    let lines = |seed| -> String {
        Requests::new(seed, RequestOptions::default()).unwrap().take(500).map(|request| request.tsv()).collect()
    };
    assert_eq!(lines(1), lines(1));
    assert_ne!(lines(1), lines(2));
}

#[test]
fn lines_are_in_the_order_of_writing_and_after_their_requests() {
    let day = day();
    assert!(day.windows(2).all(|pair| pair[0].at_ms <= pair[1].at_ms));
    assert!(day.iter().all(|request| request.time_ms <= request.at_ms));
}

#[test]
fn rate_of_a_day_is_the_configured_rate_plus_crowds() {
    let (requests, expected) = (day().len() as f64, 0.5 * 86_400.0);
    let crowds = (targets::CROWD_FACTOR - 1.0) * targets::CROWD_LASTS_MS as f64 / targets::CROWD_EVERY_MS as f64;
    assert!((requests / (expected * (1.0 + crowds)) - 1.0).abs() < 0.15, "{requests} for {expected}");
}

#[test]
fn urls_hosts_and_sizes_are_skewed() {
    let day = day();
    let share_of_tenth = |of: fn(&Request) -> u64, weight: fn(&Request) -> u64| {
        let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
        day.iter().for_each(|request| *sums.entry(of(request)).or_default() += weight(request));
        let mut sums: Vec<u64> = sums.into_values().collect();
        sums.sort_unstable_by(|a, b| b.cmp(a));
        let tenth: u64 = sums[..sums.len() / 10].iter().sum();
        tenth as f64 / sums.iter().sum::<u64>() as f64
    };
    assert!(share_of_tenth(|request| request.url.into(), |_| 1) > 0.4);
    assert!(share_of_tenth(|request| request.host.into(), |_| 1) > 0.3);
    assert!(share_of_tenth(|request| request.url.into(), |request| request.bytes.into()) > 0.5);
}

#[test]
fn some_requests_repeat_soon_and_some_lines_are_late() {
    let day = day();
    let mut last: BTreeMap<(u32, u32), i64> = BTreeMap::new();
    let repeats = day.iter().filter(|request| {
        let before = last.insert((request.host, request.url), request.time_ms);
        before.is_some_and(|before| request.time_ms - before < 600_000)
    });
    let share = repeats.count() as f64 / day.len() as f64;
    assert!((0.03..0.4).contains(&share), "{share}");
    let late = |ms: i64| day.iter().filter(|one| one.at_ms - one.time_ms >= ms).count() as f64 / day.len() as f64;
    assert!((0.02..0.04).contains(&late(2_000)), "{}", late(2_000));
    assert!((0.0003..0.003).contains(&late(60_000)), "{}", late(60_000));
}

#[test]
fn flash_crowd_requests_one_page() {
    let day = day();
    let crowd = |request: &Request| -> Option<bool> {
        let requests = Requests::new(7, RequestOptions { start_ms: START_MS, ..RequestOptions::default() }).unwrap();
        Some(requests.crowd_page(request.time_ms)? == request.url)
    };
    let pages: Vec<bool> = day.iter().step_by(7).filter(|one| one.url < 800).filter_map(crowd).collect();
    let on_page = pages.iter().filter(|is_crowd_page| **is_crowd_page).count();
    assert!(pages.len() > 100 && on_page * 8 > pages.len(), "{on_page} of {}", pages.len());
}

#[test]
fn line_has_the_columns_of_the_header() {
    let request = Request { at_ms: 5, time_ms: 807_256_800_045, host: 42, url: 801, bytes: 0, pages: 800 };
    assert_eq!(request.tsv(), "host-00042.example\t-\t807256800\tGET\t/images/0001.gif\t304\t0\t\t\n");
    assert_eq!(Request::HEADER.split('\t').count(), request.tsv().split('\t').count());
    assert_eq!(Request { url: 17, ..request }.url_text(), "/pages/0017.html");
}

#[test]
fn invalid_options_are_refused_with_the_nearest_valid_value() {
    let error = Requests::new(1, RequestOptions { hosts: 0, ..RequestOptions::default() }).unwrap_err();
    assert_eq!((error.option, error.nearest), ("hosts", 1.0));
    assert!(Requests::new(1, RequestOptions { rate_per_second: f64::NAN, ..RequestOptions::default() }).is_err());
}
