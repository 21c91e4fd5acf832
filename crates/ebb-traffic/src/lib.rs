//! A synthetic click stream that resembles real traffic, for the demo, producers, benches and end-to-end tests.
//!
//! Sources: people in sessions on Zipf-distributed campaigns and ads, who sometimes double-click; a click farm that replays
//! the same (ip, ad, user); a crawler that visits all ads in order; and occasional flash crowds on one campaign. The
//! network delays clicks (mostly below a second, with a heavy tail, so that they arrive out of order and some of them
//! late), senders retry, and a configurable share of the payloads is damaged. [`targets`] has all figures. A payload has
//! about 180 bytes and these fields, in this order: `click_id`, `ts` (milliseconds), `ip`, `ad`, `user`, `campaign`, `tier`
//! (1 to 4), `cost`, `country`, `device`. [`requests`] generates the log of a web server instead.
//!
//! Guarantees:
//! - T1: the same seed and options give the same bytes on every machine, and damage changes no other click.
//! - T2: clicks come in the order of their arrival.
//! - T3: only retries share a `click_id`, and they are byte-identical.
//! - T4: memory is bounded by the rate, not by the length of the stream.
//!
//! The crate reads no clock: a caller that wants a live stream waits until [`Click::at_ms`]. It does not know how events
//! are read.
//!
//! ```
//! use ebb_traffic::{Repeat, Traffic, TrafficOptions};
//!
//! let options = TrafficOptions { start_ms: 1_700_000_000_000, ..TrafficOptions::default() };
//! let clicks: Vec<_> = Traffic::new(1, options)?.take(10_000).collect();
//! assert!(clicks.is_sorted_by_key(|click| click.at_ms));
//! assert!(clicks[0].json.starts_with(br#"{"click_id":""#));
//!
//! let retries = clicks.iter().filter(|click| click.truth.repeat == Some(Repeat::Retry)).count();
//! assert!((100..300).contains(&retries)); // about 2 %
//! # Ok::<(), ebb_traffic::TrafficError>(())
//! ```
#![deny(missing_docs)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod arrivals;
mod catalog;
mod click;
mod distributions;
mod json;
mod options;
pub mod requests;
pub mod targets;
mod visitors;

pub use click::{Click, GroundTruth, Repeat, Source};
pub use json::Defect;
pub use options::{DayProfile, TrafficError, TrafficOptions};

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use arrivals::{ArrivalRates, ArrivalSchedule};
use catalog::Catalog;
use distributions::{chance, exponential};
use ebb_sketch::random::{Random, mix};
use json::ClickMessage;
use visitors::{Crawler, Farm, People};

/// An endless iterator of clicks.
#[derive(Debug, Clone)]
pub struct Traffic {
    random: Random,
    /// A generator of its own, so that damage does not change other clicks (T1).
    damage: Random,
    malformed_share: f64,
    salt: u64,
    clicks: u64,
    scheduled: u64,
    /// Arrival of the next click that is not a follow-up, since the start.
    next_ns: u64,
    follow_ups: BinaryHeap<Reverse<ScheduledClick>>,
    schedule: ArrivalSchedule,
    catalog: Catalog,
    people: People,
    farm: Farm,
    crawler: Crawler,
}

/// A click with its arrival time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ScheduledClick {
    /// Arrival, since the start.
    at_ns: u64,
    /// Orders follow-ups that arrive at the same time.
    number: u64,
    source: Source,
    repeat: Option<Repeat>,
    message: ClickMessage,
}

impl Ord for ScheduledClick {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at_ns, self.number).cmp(&(other.at_ns, other.number))
    }
}

impl PartialOrd for ScheduledClick {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Traffic {
    /// Checks the options and starts a stream.
    pub fn new(seed: u64, options: TrafficOptions) -> Result<Self, TrafficError> {
        options.check()?;
        let mut random = Random::new(mix(seed));
        let mut traffic = Self {
            damage: Random::new(random.next_u64()),
            malformed_share: options.malformed_share,
            salt: random.next_u64(),
            clicks: 0,
            scheduled: 0,
            next_ns: 0,
            follow_ups: BinaryHeap::new(),
            schedule: ArrivalSchedule::new(&options, &mut random),
            catalog: Catalog::new(&options, &mut random),
            people: People::new(&options, &mut random),
            farm: Farm::new(&options, &mut random),
            crawler: Crawler::default(),
            random,
        };
        let rates = traffic.schedule.rates(0);
        traffic.advance(rates);
        Ok(traffic)
    }

    /// Replaces `click` by the next one and reuses its buffer.
    pub fn overwrite(&mut self, click: &mut Click) {
        (click.at_ms, click.truth) = self.produce(&mut click.json);
    }

    fn produce(&mut self, json: &mut Vec<u8>) -> (i64, GroundTruth) {
        let due = self.follow_ups.peek().is_some_and(|Reverse(due)| due.at_ns <= self.next_ns);
        let follow_up = if due { self.follow_ups.pop() } else { None };
        let sent = follow_up.map_or_else(|| self.new_click(), |Reverse(sent)| sent);
        self.schedule_follow_ups(&sent);
        let defect = chance(&mut self.damage, self.malformed_share).then(|| Defect::draw(&mut self.damage));
        match defect {
            None => sent.message.write(json),
            Some(defect) => defect.write(&sent.message, json),
        }
        (self.schedule.at_ms(sent.at_ns), sent.truth(defect))
    }

    fn new_click(&mut self) -> ScheduledClick {
        let (at_ns, random) = (self.next_ns, &mut self.random);
        let rates = self.schedule.rates(at_ns);
        let draw = random.unit() * (rates.steady + rates.burst);
        let (source, hit) = match draw / rates.steady * (targets::PEOPLE + targets::FARM + targets::CRAWLER) {
            draw if draw < targets::PEOPLE => (Source::Person, self.people.click(&self.catalog, random)),
            draw if draw < targets::PEOPLE + targets::FARM => (Source::Farm, self.farm.click(&self.catalog)),
            draw if draw < targets::PEOPLE + targets::FARM + targets::CRAWLER => {
                (Source::Crawler, self.crawler.click(&self.catalog))
            }
            _ => (Source::Burst, self.people.crowd_click(self.schedule.burst_campaign(), &self.catalog, random)),
        };
        let campaign = self.catalog.campaign_of(hit.ad);
        let cost = self.catalog.cost(campaign, random);
        // A delayed Poisson process is a Poisson process: drawing the delay backwards from the arrival avoids a queue.
        let time_ms = self.schedule.at_ms(at_ns).saturating_sub_unsigned(delay_ms(random));
        let message = ClickMessage { id: self.new_id(), time_ms, hit, campaign, cost };
        self.advance(rates);
        ScheduledClick { at_ns, number: 0, source, repeat: None, message }
    }

    /// Draws the arrival of the next click that is not a follow-up.
    fn advance(&mut self, rates: ArrivalRates) {
        let gap_ns = exponential(&mut self.random, 1e9 / (rates.steady + rates.burst));
        self.next_ns = self.next_ns.saturating_add(gap_ns as u64);
    }

    /// Perhaps schedules a double click and a retry after a click.
    fn schedule_follow_ups(&mut self, sent: &ScheduledClick) {
        const DOUBLE_CLICK_CHANCE: f64 = targets::DOUBLE_CLICKS / (targets::PEOPLE + targets::BURST);
        const RETRY_CHANCE: f64 = targets::RETRIES / (1.0 - targets::RETRIES);
        let is_human = matches!(sent.source, Source::Person | Source::Burst);
        if is_human && sent.repeat.is_none() && chance(&mut self.random, DOUBLE_CLICK_CHANCE) {
            let gap_ms = clamp_to(targets::DOUBLE_CLICK_MS, exponential(&mut self.random, 600.0));
            let time_ms = sent.message.time_ms.saturating_add_unsigned(gap_ms);
            let message = ClickMessage { id: self.new_id(), time_ms, ..sent.message };
            self.push_follow_up(ScheduledClick { repeat: Some(Repeat::DoubleClick), message, ..*sent }, gap_ms);
        }
        if sent.repeat != Some(Repeat::Retry) && chance(&mut self.random, RETRY_CHANCE) {
            let gap_ms = clamp_to(targets::RETRY_MS, exponential(&mut self.random, 3_000.0));
            self.push_follow_up(ScheduledClick { repeat: Some(Repeat::Retry), ..*sent }, gap_ms);
        }
    }

    fn push_follow_up(&mut self, follow_up: ScheduledClick, gap_ms: u64) {
        let at_ns = follow_up.at_ns.saturating_add(gap_ms * 1_000_000);
        self.scheduled += 1;
        self.follow_ups.push(Reverse(ScheduledClick { at_ns, number: self.scheduled, ..follow_up }));
    }

    /// Distinct for distinct clicks, because `mix` is a bijection (T3).
    fn new_id(&mut self) -> u64 {
        self.clicks += 1;
        mix(self.salt ^ self.clicks)
    }
}

impl Iterator for Traffic {
    type Item = Click;

    fn next(&mut self) -> Option<Click> {
        let mut json = Vec::with_capacity(208);
        let (at_ms, truth) = self.produce(&mut json);
        Some(Click { at_ms, json, truth })
    }
}

impl ScheduledClick {
    fn truth(&self, defect: Option<Defect>) -> GroundTruth {
        let ClickMessage { id, time_ms, hit, .. } = self.message;
        let item = u128::from(hit.visitor.ip) << 64 | u128::from(hit.ad) << 32 | u128::from(hit.visitor.user);
        GroundTruth { source: self.source, repeat: self.repeat, defect, time_ms, item, id }
    }
}

fn delay_ms(random: &mut Random) -> u64 {
    let delay_ms = if chance(random, targets::DELAY_TAIL_SHARE) {
        targets::DELAY_TAIL_MS * libm::pow(1.0 - random.unit(), -1.0 / targets::DELAY_TAIL_EXPONENT)
    } else {
        targets::MIN_DELAY_MS + exponential(random, targets::DELAY_MEAN_MS)
    };
    delay_ms.min(targets::MAX_DELAY_MS) as u64
}

/// The start of the range plus `offset`, at most its end.
fn clamp_to(range: std::ops::RangeInclusive<u64>, offset: f64) -> u64 {
    range.start().saturating_add(offset as u64).min(*range.end())
}

#[cfg(test)]
mod tests;
