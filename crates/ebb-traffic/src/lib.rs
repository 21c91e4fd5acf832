//! A click stream that looks like real traffic, for the demo, producers, benches and end-to-end tests.
//!
//! Who is in it: people in sessions on Zipf-popular campaigns and ads, some of them impatient (double clicks); a click
//! farm that replays the same (ip, ad, user); a crawler that walks all ads; now and then a flash crowd on one campaign.
//! What happens to it: the network delays it (mostly below a second, with a heavy tail, so that it arrives out of order
//! and some of it late), senders repeat what was not acknowledged, and, when asked, payloads are damaged. What it aims at
//! in figures stands in [`aim`]. A payload has about 180 bytes and these fields, in this order: `click_id`, `ts`
//! (milliseconds), `ip`, `ad`, `user`, `campaign`, `tier` (1 to 4), `cost`, `country`, `device`.
//!
//! Promises: T1, the same seed and options give the same bytes on every machine, and damage changes no other click;
//! T2, clicks come in the order of their arrival; T3, `click_id` is the same only in retries, which are the same to the
//! byte; T4, memory is bounded by the rate, not by how long it runs.
//!
//! Knows no clock and no pace: whoever wants a live stream waits until `at_ms`. Knows nothing of how events are read.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod aim;
mod cast;
mod catalog;
mod click;
mod draw;
mod json;
mod options;
pub mod requests;
mod rhythm;

pub use click::{Click, Repeat, Source, Truth};
pub use json::Defect;
pub use options::{Day, TrafficError, TrafficOptions};

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use cast::{Crawler, Farm, People};
use catalog::Catalog;
use draw::{chance, exponential};
use ebb_sketch::random::{Random, mix};
use json::Message;
use rhythm::{Rates, Rhythm};

/// See the module. Never ends.
#[derive(Debug, Clone)]
pub struct Traffic {
    random: Random,
    /// Draws of its own, so that T1 holds for any share of damage.
    damage: Random,
    malformed_share: f64,
    salt: u64,
    clicks: u64,
    scheduled: u64,
    /// Since the start, of the next click that is no follow-up.
    next_ns: u64,
    follow_ups: BinaryHeap<Reverse<Sending>>,
    rhythm: Rhythm,
    catalog: Catalog,
    people: People,
    farm: Farm,
    crawler: Crawler,
}

/// A message on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sending {
    /// When it arrives, since the start.
    at_ns: u64,
    /// Which of two at the same time comes first.
    number: u64,
    source: Source,
    repeat: Option<Repeat>,
    message: Message,
}

impl Ord for Sending {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at_ns, self.number).cmp(&(other.at_ns, other.number))
    }
}

impl PartialOrd for Sending {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Traffic {
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
            rhythm: Rhythm::new(&options, &mut random),
            catalog: Catalog::new(&options, &mut random),
            people: People::new(&options, &mut random),
            farm: Farm::new(&options, &mut random),
            crawler: Crawler::default(),
            random,
        };
        let rates = traffic.rhythm.rates(0);
        traffic.wait(rates);
        Ok(traffic)
    }

    /// Writes the next click over an earlier one, to spare the allocation.
    pub fn overwrite(&mut self, click: &mut Click) {
        (click.at_ms, click.truth) = self.produce(&mut click.json);
    }

    fn produce(&mut self, json: &mut Vec<u8>) -> (i64, Truth) {
        let due = self.follow_ups.peek().is_some_and(|Reverse(due)| due.at_ns <= self.next_ns);
        let follow_up = if due { self.follow_ups.pop() } else { None };
        let sent = follow_up.map_or_else(|| self.fresh(), |Reverse(sent)| sent);
        self.follow(&sent);
        let defect = chance(&mut self.damage, self.malformed_share).then(|| Defect::any(&mut self.damage));
        match defect {
            None => sent.message.write(json),
            Some(defect) => defect.write(&sent.message, json),
        }
        (self.rhythm.at_ms(sent.at_ns), sent.truth(defect))
    }

    fn fresh(&mut self) -> Sending {
        let (at_ns, random) = (self.next_ns, &mut self.random);
        let rates = self.rhythm.rates(at_ns);
        let lot = random.unit() * (rates.steady + rates.burst);
        let (source, hit) = match lot / rates.steady * (aim::PEOPLE + aim::FARM + aim::CRAWLER) {
            lot if lot < aim::PEOPLE => (Source::Person, self.people.click(&self.catalog, random)),
            lot if lot < aim::PEOPLE + aim::FARM => (Source::Farm, self.farm.click(&self.catalog)),
            lot if lot < aim::PEOPLE + aim::FARM + aim::CRAWLER => (Source::Crawler, self.crawler.click(&self.catalog)),
            _ => (Source::Burst, self.people.join(self.rhythm.burst_campaign(), &self.catalog, random)),
        };
        let campaign = self.catalog.campaign_of(hit.ad);
        let cost = self.catalog.cost(campaign, random);
        // A delayed Poisson stream is a Poisson stream: drawing the delay backwards from the arrival spares a queue.
        let time_ms = self.rhythm.at_ms(at_ns).saturating_sub_unsigned(delay_ms(random));
        let message = Message { id: self.new_id(), time_ms, hit, campaign, cost };
        self.wait(rates);
        Sending { at_ns, number: 0, source, repeat: None, message }
    }

    /// Until the next click that is no follow-up.
    fn wait(&mut self, rates: Rates) {
        let gap_ns = exponential(&mut self.random, 1e9 / (rates.steady + rates.burst));
        self.next_ns = self.next_ns.saturating_add(gap_ns as u64);
    }

    /// Sends after a click what it draws after itself: the second click of the impatient, the retry of the unheard.
    fn follow(&mut self, sent: &Sending) {
        const IMPATIENT: f64 = aim::DOUBLE_CLICKS / (aim::PEOPLE + aim::BURST);
        const UNHEARD: f64 = aim::RETRIES / (1.0 - aim::RETRIES);
        let human = matches!(sent.source, Source::Person | Source::Burst);
        if human && sent.repeat.is_none() && chance(&mut self.random, IMPATIENT) {
            let gap_ms = within(aim::DOUBLE_CLICK_MS, exponential(&mut self.random, 600.0));
            let time_ms = sent.message.time_ms.saturating_add_unsigned(gap_ms);
            let message = Message { id: self.new_id(), time_ms, ..sent.message };
            self.schedule(Sending { repeat: Some(Repeat::DoubleClick), message, ..*sent }, gap_ms);
        }
        if sent.repeat != Some(Repeat::Retry) && chance(&mut self.random, UNHEARD) {
            let gap_ms = within(aim::RETRY_MS, exponential(&mut self.random, 3_000.0));
            self.schedule(Sending { repeat: Some(Repeat::Retry), ..*sent }, gap_ms);
        }
    }

    fn schedule(&mut self, follow_up: Sending, gap_ms: u64) {
        let at_ns = follow_up.at_ns.saturating_add(gap_ms * 1_000_000);
        self.scheduled += 1;
        self.follow_ups.push(Reverse(Sending { at_ns, number: self.scheduled, ..follow_up }));
    }

    /// `mix` is a bijection: no two are equal (T3).
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

impl Sending {
    fn truth(&self, defect: Option<Defect>) -> Truth {
        let Message { id, time_ms, hit, .. } = self.message;
        let item = u128::from(hit.visitor.ip) << 64 | u128::from(hit.ad) << 32 | u128::from(hit.visitor.user);
        Truth { source: self.source, repeat: self.repeat, defect, time_ms, item, id }
    }
}

fn delay_ms(random: &mut Random) -> u64 {
    let delay_ms = if chance(random, aim::DELAY_TAIL_SHARE) {
        aim::DELAY_TAIL_MS * libm::pow(1.0 - random.unit(), -1.0 / aim::DELAY_TAIL_EXPONENT)
    } else {
        aim::DELAY_LEAST_MS + exponential(random, aim::DELAY_MEAN_MS)
    };
    delay_ms.min(aim::DELAY_MOST_MS) as u64
}

/// The least of the range and `more`, but no more than its most.
fn within(range: std::ops::RangeInclusive<u64>, more: f64) -> u64 {
    range.start().saturating_add(more as u64).min(*range.end())
}

#[cfg(test)]
mod tests;
