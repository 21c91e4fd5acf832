//! The figures that web requests are generated to match.

/// Mean number of pages in a session (geometric).
pub const SESSION_PAGES: u64 = 4;
/// Mean time between two pages of a session.
pub const THINK_MS: f64 = 45_000.0;
/// Maximum number of images on a page (uniform).
pub const MAX_IMAGES: u64 = 6;
/// Share of images that are not in the visitor's cache.
pub const UNCACHED: f64 = 0.7;
/// Time within which a page's images are requested.
pub const IMAGES_WITHIN_MS: u64 = 3_000;
/// Share of pages that are reloaded.
pub const RELOADS: f64 = 0.08;
/// Mean time until a reload.
pub const RELOAD_MS: f64 = 12_000.0;
/// Share of requests answered with "not modified".
pub const UNCHANGED: f64 = 0.08;

/// Zipf exponent of hosts: few proxies, many visitors.
pub const HOST_SKEW: f64 = 0.8;
/// Zipf exponent of pages.
pub const PAGE_SKEW: f64 = 0.9;
/// Zipf exponent of images.
pub const IMAGE_SKEW: f64 = 1.1;
/// Median size of a response.
pub const MEDIAN_BYTES: f64 = 5_000.0;
/// Standard deviation of the logarithm of the size between URLs.
pub const BYTES_SPREAD: f64 = 1.6;
/// Maximum size of a response.
pub const MAX_BYTES: f64 = 5e6;

/// One flash crowd begins in each interval of this length.
pub const CROWD_EVERY_MS: i64 = 2 * 3_600_000;
/// Duration of a flash crowd.
pub const CROWD_LASTS_MS: i64 = 180_000;
/// Factor of the rate of sessions during a flash crowd; all of them start at one page.
pub const CROWD_FACTOR: f64 = 5.0;

/// Mean time from a request to its log line.
pub const DELAY_MS: f64 = 150.0;
/// Share of lines with a long delay, such as from a slowly filling buffer: Pareto above [`LONG_DELAY_MS`].
pub const LONG_DELAYS: f64 = 0.03;
/// Minimum of a long delay.
pub const LONG_DELAY_MS: f64 = 2_000.0;
/// Pareto exponent of long delays.
pub const LONG_DELAY_EXPONENT: f64 = 1.0;
/// Maximum delay.
pub const MAX_DELAY_MS: f64 = 1_800_000.0;
