//! What the web requests aim at, each figure once.

/// Pages of a session, on average; how many is geometric.
pub const SESSION_PAGES: u64 = 4;
/// Between two pages of a session, on average.
pub const THINK_MS: f64 = 45_000.0;
/// A page shows up to so many images, each number as likely as the others,
pub const IMAGES_MOST: u64 = 6;
/// and this share of them is not in the visitor's cache,
pub const UNCACHED: f64 = 0.7;
/// and asked for within this of the page.
pub const IMAGES_WITHIN_MS: u64 = 3_000;
/// Share of pages that are loaded again,
pub const RELOADS: f64 = 0.08;
/// so much later on average.
pub const RELOAD_MS: f64 = 12_000.0;
/// Share of requests answered without content, because nothing has changed.
pub const UNCHANGED: f64 = 0.08;

/// Zipf exponent of hosts: few proxies, many visitors.
pub const HOST_SKEW: f64 = 0.8;
/// Zipf exponent of pages.
pub const PAGE_SKEW: f64 = 0.9;
/// Zipf exponent of the images that pages share.
pub const IMAGE_SKEW: f64 = 1.1;
/// Median size of what is sent,
pub const MEDIAN_BYTES: f64 = 5_000.0;
/// and the standard deviation of its logarithm, from url to url: a few are a thousand times larger than most.
pub const BYTES_SPREAD: f64 = 1.6;
/// Nothing is larger.
pub const BYTES_MOST: f64 = 5e6;

/// One flash crowd begins in each such span,
pub const CROWD_EVERY_MS: i64 = 2 * 3_600_000;
/// lasts this long,
pub const CROWD_LASTS_MS: i64 = 180_000;
/// starts so many times as many sessions, all on one page.
pub const CROWD_FACTOR: f64 = 5.0;

/// Records are written so much after the request, on average,
pub const DELAY_MS: f64 = 150.0;
/// but this share is held up (a buffer that fills slowly, a server cut off): Pareto above [`HELD_UP_MS`],
pub const HELD_UP: f64 = 0.03;
/// the least delay of those,
pub const HELD_UP_MS: f64 = 2_000.0;
/// with this exponent,
pub const HELD_UP_EXPONENT: f64 = 1.0;
/// and never more than this.
pub const DELAY_MOST_MS: f64 = 1_800_000.0;
