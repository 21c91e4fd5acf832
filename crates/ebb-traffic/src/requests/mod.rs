//! The log of a synthetic web server, for tests and evaluation.
//!
//! Visitors come in sessions from Zipf-distributed hosts: a page and its images, a pause, the next page; some pages are
//! reloaded. Pages and images are Zipf-distributed, their sizes log-normal. The rate follows the hour of the day, with
//! occasional flash crowds on one page. Most lines are written at once, some late, a few very late. [`targets`] has all
//! figures.
//!
//! The same seed and options give the same requests on every machine; requests come in the order of [`Request::at_ms`];
//! memory is bounded by the number of open sessions.

pub mod targets;

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::distributions::{Zipf, approximate_normal, chance, exponential};
use super::options::TrafficError;
use super::targets::HOURS;
use ebb_sketch::random::{Random, mix};

const HOUR_MS: i64 = 3_600_000;

/// Options of the request log. Checked by [`Requests::new`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestOptions {
    /// Approximate begin of the first session.
    pub start_ms: i64,
    /// Mean rate over the day, without flash crowds.
    pub rate_per_second: f64,
    /// Number of hosts.
    pub hosts: u32,
    /// Number of pages.
    pub pages: u32,
    /// Number of images.
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
    /// When the line was written.
    pub at_ms: i64,
    /// When the request was made.
    pub time_ms: i64,
    /// The number of the host.
    pub host: u32,
    /// The number of the URL: pages first, then images.
    pub url: u32,
    /// The size of the response; 0 for "not modified".
    pub bytes: u32,
    pages: u32,
}

impl Request {
    /// The columns of [`Request::tsv`].
    pub const HEADER: &str = "host\tlogname\ttime\tmethod\turl\tresponse\tbytes\treferer\tuseragent\n";

    /// The path of the URL.
    pub fn url_text(&self) -> String {
        match self.url.checked_sub(self.pages) {
            None => format!("/pages/{:04}.html", self.url),
            Some(image) => format!("/images/{image:04}.gif"),
        }
    }

    /// The tab-separated line with its line feed; the time is in whole seconds.
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

/// An endless iterator of requests.
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
    pending: BinaryHeap<Reverse<Request>>,
}

impl Requests {
    /// Checks the options and starts a log.
    pub fn new(seed: u64, options: RequestOptions) -> Result<Self, TrafficError> {
        TrafficError::check("rate_per_second", options.rate_per_second, (1e-3, 1e6))?;
        TrafficError::check("hosts", f64::from(options.hosts), (1.0, 1e7))?;
        TrafficError::check("pages", f64::from(options.pages), (1.0, 1e6))?;
        TrafficError::check("images", f64::from(options.images), (1.0, 1e6))?;
        let mut random = Random::new(mix(seed));
        Ok(Self {
            hosts: Zipf::new(options.hosts, targets::HOST_SKEW),
            pages: Zipf::new(options.pages, targets::PAGE_SKEW),
            images: Zipf::new(options.images, targets::IMAGE_SKEW),
            salt: random.next_u64(),
            next_ms: options.start_ms as f64,
            pending: BinaryHeap::new(),
            options,
            random,
        })
    }

    /// Mean number of requests in a session.
    fn mean_session_requests() -> f64 {
        let images = targets::MAX_IMAGES as f64 / 2.0 * targets::UNCACHED;
        targets::SESSION_PAGES as f64 * (1.0 + images + targets::RELOADS)
    }

    /// The page of the flash crowd at this time, if there is one.
    fn crowd_page(&self, now_ms: i64) -> Option<u32> {
        let interval = now_ms.div_euclid(targets::CROWD_EVERY_MS);
        let mut random = Random::new(mix(self.salt ^ interval as u64));
        let begins = random.below((targets::CROWD_EVERY_MS - targets::CROWD_LASTS_MS) as u64) as i64;
        let into = now_ms.rem_euclid(targets::CROWD_EVERY_MS) - begins;
        let page = random.below(u64::from(self.options.pages)) as u32;
        (0..targets::CROWD_LASTS_MS).contains(&into).then_some(page)
    }

    /// Generates one session and draws the begin of the next one.
    fn add_session(&mut self) {
        let begins_ms = self.next_ms as i64;
        let crowd = self.crowd_page(begins_ms);
        let host = self.hosts.draw(&mut self.random);
        let mut page = crowd.unwrap_or_else(|| self.pages.draw(&mut self.random));
        let mut at_ms = begins_ms;
        loop {
            self.add_page(host, page, at_ms);
            if self.random.below(targets::SESSION_PAGES) == 0 {
                break;
            }
            at_ms += 1 + exponential(&mut self.random, targets::THINK_MS) as i64;
            page = self.pages.draw(&mut self.random);
        }
        let hour = begins_ms.div_euclid(HOUR_MS).rem_euclid(24) as usize;
        let factor = if crowd.is_some() { targets::CROWD_FACTOR } else { 1.0 };
        let rate = self.options.rate_per_second / Self::mean_session_requests() * f64::from(HOURS[hour]) / 1e3 * factor;
        self.next_ms += exponential(&mut self.random, 1e3 / rate);
    }

    /// Requests a page, its images, and perhaps the page again.
    fn add_page(&mut self, host: u32, page: u32, at_ms: i64) {
        self.add_request(host, page, at_ms);
        // A page always has the same images.
        let mut shown = Random::new(mix(self.salt ^ mix(u64::from(page))));
        for _ in 0..shown.below(targets::MAX_IMAGES + 1) {
            let image = self.options.pages + self.images.draw(&mut shown);
            if chance(&mut self.random, targets::UNCACHED) {
                let after_ms = 1 + self.random.below(targets::IMAGES_WITHIN_MS) as i64;
                self.add_request(host, image, at_ms + after_ms);
            }
        }
        if chance(&mut self.random, targets::RELOADS) {
            let after_ms = 1 + exponential(&mut self.random, targets::RELOAD_MS) as i64;
            self.add_request(host, page, at_ms + after_ms);
        }
    }

    fn add_request(&mut self, host: u32, url: u32, time_ms: i64) {
        let random = &mut self.random;
        let delay_ms = if chance(random, targets::LONG_DELAYS) {
            targets::LONG_DELAY_MS * libm::pow(1.0 - random.unit(), -1.0 / targets::LONG_DELAY_EXPONENT)
        } else {
            exponential(random, targets::DELAY_MS)
        };
        let at_ms = time_ms + delay_ms.min(targets::MAX_DELAY_MS) as i64;
        let size = approximate_normal(&mut Random::new(mix(self.salt ^ !u64::from(url))));
        let bytes = targets::MEDIAN_BYTES * libm::exp(targets::BYTES_SPREAD * size);
        let bytes = if chance(random, targets::UNCHANGED) { 0.0 } else { bytes.clamp(40.0, targets::MAX_BYTES) };
        let pages = self.options.pages;
        self.pending.push(Reverse(Request { at_ms, time_ms, host, url, bytes: bytes as u32, pages }));
    }
}

impl Iterator for Requests {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        // No line of a session is written before the session begins.
        while self.pending.peek().is_none_or(|Reverse(first)| first.at_ms as f64 >= self.next_ms) {
            self.add_session();
        }
        self.pending.pop().map(|Reverse(first)| first)
    }
}

#[cfg(test)]
mod tests;
