//! Requests of a web server that look like real ones, for tests and evaluations: the log of one server, in the order in
//! which its lines are written.
//!
//! Visitors come in sessions from Zipf-popular hosts: a page, the images it shows, a while of reading, the next page; some
//! load a page again. Pages and images are Zipf-popular, their sizes log-normal. The rate follows the hour of the day; now
//! and then a crowd comes for one page. Most lines are written at once, some late, a few very late.
//!
//! Promises: the same seed and options give the same requests on every machine; they come in the order of `at_ms`; memory
//! is bounded by the sessions that are open. Knows no clock, and nothing of how the lines are read.

pub mod aim;

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::aim::HOURS;
use super::draw::{Zipf, bell, chance, exponential};
use super::options::TrafficError;
use ebb_sketch::random::{Random, mix};

const HOUR_MS: i64 = 3_600_000;

/// How much, from when on, and over what. Valid once [`Requests::new`] took it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestOptions {
    /// When the first session begins, about.
    pub start_ms: i64,
    /// Mean over the day, without crowds.
    pub rate_per_second: f64,
    pub hosts: u32,
    pub pages: u32,
    /// All images that pages show.
    pub images: u32,
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self { start_ms: 0, rate_per_second: 0.5, hosts: 3_000, pages: 800, images: 400 }
    }
}

/// One line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// When the line is written.
    pub at_ms: i64,
    /// When it was asked for.
    pub time_ms: i64,
    pub host: u32,
    /// Pages first, then images.
    pub url: u32,
    pub bytes: u32,
    pages: u32,
}

impl Request {
    /// The columns of [`Request::tsv`].
    pub const HEADER: &str = "host\tlogname\ttime\tmethod\turl\tresponse\tbytes\treferer\tuseragent\n";

    pub fn url_text(&self) -> String {
        match self.url.checked_sub(self.pages) {
            None => format!("/pages/{:04}.html", self.url),
            Some(image) => format!("/images/{image:04}.gif"),
        }
    }

    /// As one line with its end; times in whole seconds, as servers write them.
    pub fn tsv(&self) -> String {
        let Self { host, bytes, .. } = self;
        let (seconds, url) = (self.time_ms.div_euclid(1_000), self.url_text());
        let response = if *bytes == 0 { 304 } else { 200 };
        format!("host-{host:05}.example\t-\t{seconds}\tGET\t{url}\t{response}\t{bytes}\t\t\n")
    }
}

impl Ord for Request {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |one: &Self| (one.at_ms, one.time_ms, one.host, one.url, one.bytes);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Request {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// See the module. Never ends.
#[derive(Debug, Clone)]
pub struct Requests {
    random: Random,
    options: RequestOptions,
    hosts: Zipf,
    pages: Zipf,
    images: Zipf,
    salt: u64,
    /// When the next session begins.
    next_ms: f64,
    written: BinaryHeap<Reverse<Request>>,
}

impl Requests {
    pub fn new(seed: u64, options: RequestOptions) -> Result<Self, TrafficError> {
        let within = |option, given: f64, least: f64, most: f64| {
            let nearest = if given.is_nan() { least } else { given.clamp(least, most) };
            if nearest == given { Ok(()) } else { Err(TrafficError { option, given, nearest }) }
        };
        within("rate_per_second", options.rate_per_second, 1e-3, 1e6)?;
        within("hosts", f64::from(options.hosts), 1.0, 1e7)?;
        within("pages", f64::from(options.pages), 1.0, 1e6)?;
        within("images", f64::from(options.images), 1.0, 1e6)?;
        let mut random = Random::new(mix(seed));
        Ok(Self {
            hosts: Zipf::new(options.hosts, aim::HOST_SKEW),
            pages: Zipf::new(options.pages, aim::PAGE_SKEW),
            images: Zipf::new(options.images, aim::IMAGE_SKEW),
            salt: random.next_u64(),
            next_ms: options.start_ms as f64,
            written: BinaryHeap::new(),
            options,
            random,
        })
    }

    /// Requests of a session, on average.
    fn session_requests() -> f64 {
        let images = aim::IMAGES_MOST as f64 / 2.0 * aim::UNCACHED;
        aim::SESSION_PAGES as f64 * (1.0 + images + aim::RELOADS)
    }

    /// The page that a crowd wants at this moment.
    fn crowd(&self, now_ms: i64) -> Option<u32> {
        let span = now_ms.div_euclid(aim::CROWD_EVERY_MS);
        let mut random = Random::new(mix(self.salt ^ span as u64));
        let begins = random.below((aim::CROWD_EVERY_MS - aim::CROWD_LASTS_MS) as u64) as i64;
        let into = now_ms.rem_euclid(aim::CROWD_EVERY_MS) - begins;
        let page = random.below(u64::from(self.options.pages)) as u32;
        (0..aim::CROWD_LASTS_MS).contains(&into).then_some(page)
    }

    /// One session from its first page to its last, and the wait until the next one.
    fn session(&mut self) {
        let begins_ms = self.next_ms as i64;
        let crowd = self.crowd(begins_ms);
        let host = self.hosts.draw(&mut self.random);
        let mut page = crowd.unwrap_or_else(|| self.pages.draw(&mut self.random));
        let mut at_ms = begins_ms;
        loop {
            self.page(host, page, at_ms);
            if self.random.below(aim::SESSION_PAGES) == 0 {
                break;
            }
            at_ms += 1 + exponential(&mut self.random, aim::THINK_MS) as i64;
            page = self.pages.draw(&mut self.random);
        }
        let hour = begins_ms.div_euclid(HOUR_MS).rem_euclid(24) as usize;
        let factor = if crowd.is_some() { aim::CROWD_FACTOR } else { 1.0 };
        let rate = self.options.rate_per_second / Self::session_requests() * f64::from(HOURS[hour]) / 1e3 * factor;
        self.next_ms += exponential(&mut self.random, 1e3 / rate);
    }

    /// A page, its images, and perhaps the page again.
    fn page(&mut self, host: u32, page: u32, at_ms: i64) {
        self.request(host, page, at_ms);
        // A page always shows the same images.
        let mut shown = Random::new(mix(self.salt ^ mix(u64::from(page))));
        for _ in 0..shown.below(aim::IMAGES_MOST + 1) {
            let image = self.options.pages + self.images.draw(&mut shown);
            if chance(&mut self.random, aim::UNCACHED) {
                let after_ms = 1 + self.random.below(aim::IMAGES_WITHIN_MS) as i64;
                self.request(host, image, at_ms + after_ms);
            }
        }
        if chance(&mut self.random, aim::RELOADS) {
            let after_ms = 1 + exponential(&mut self.random, aim::RELOAD_MS) as i64;
            self.request(host, page, at_ms + after_ms);
        }
    }

    fn request(&mut self, host: u32, url: u32, time_ms: i64) {
        let random = &mut self.random;
        let delay_ms = if chance(random, aim::HELD_UP) {
            aim::HELD_UP_MS * libm::pow(1.0 - random.unit(), -1.0 / aim::HELD_UP_EXPONENT)
        } else {
            exponential(random, aim::DELAY_MS)
        };
        let at_ms = time_ms + delay_ms.min(aim::DELAY_MOST_MS) as i64;
        let size = bell(&mut Random::new(mix(self.salt ^ !u64::from(url))));
        let bytes = aim::MEDIAN_BYTES * libm::exp(aim::BYTES_SPREAD * size);
        let bytes = if chance(random, aim::UNCHANGED) { 0.0 } else { bytes.clamp(40.0, aim::BYTES_MOST) };
        let pages = self.options.pages;
        self.written.push(Reverse(Request { at_ms, time_ms, host, url, bytes: bytes as u32, pages }));
    }
}

impl Iterator for Requests {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        // No request of a session is written before the session begins.
        while self.written.peek().is_none_or(|Reverse(first)| first.at_ms as f64 >= self.next_ms) {
            self.session();
        }
        self.written.pop().map(|Reverse(first)| first)
    }
}

#[cfg(test)]
mod tests;
