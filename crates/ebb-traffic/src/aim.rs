//! What the traffic aims at, each figure once. Shares are of all clicks, in the long run, at the mean rate.

/// Share of clicks by people in their sessions, without their double clicks.
pub const PEOPLE: f64 = 0.73;
/// Share of the click farm; all but its first pass are replays.
pub const FARM: f64 = 0.12;
/// Share of the crawler.
pub const CRAWLER: f64 = 0.03;
/// Share of flash crowds: none most of the time, more than the rest together at their peak.
pub const BURST: f64 = 0.06;
/// Share of second clicks of the impatient.
pub const DOUBLE_CLICKS: f64 = 0.04;
/// Share of clicks sent again, to the byte, because a sender missed its acknowledgement.
pub const RETRIES: f64 = 0.02;

/// A double click follows its first within these.
pub const DOUBLE_CLICK_MS: std::ops::RangeInclusive<u64> = 80..=3_000;
/// A retry arrives within these after the first attempt.
pub const RETRY_MS: std::ops::RangeInclusive<u64> = 1_000..=30_000;
/// A session clicks about this often before it ends,
pub const SESSION_CLICKS: u64 = 5;
/// with about this long between its clicks, as long as [`MOST_SESSIONS`] suffice.
pub const SESSION_GAP_MS: u64 = 40_000;
/// Sessions open at once: bounds the memory, and above some 2 000 clicks/s makes sessions denser.
pub const MOST_SESSIONS: u64 = 1 << 16;

/// Addresses of the whole farm.
pub const FARM_ADDRESSES: u64 = 8;
/// Campaigns that the farm drains.
pub const FARM_CAMPAIGNS: u64 = 3;
/// One flash crowd begins in each such span of the stream,
pub const BURST_EVERY_MS: u64 = 120_000;
/// and fades to nothing within this.
pub const BURST_LASTS_MS: u64 = 10_000;

/// Zipf exponent of campaigns, most popular first: `cmp-0000` has the most clicks of people.
pub const CAMPAIGN_SKEW: f64 = 1.1;
/// Zipf exponent of the ads within a campaign.
pub const AD_SKEW: f64 = 1.0;

/// The median campaign pays this for a click,
pub const MEDIAN_COST: f64 = 0.04;
/// campaigns differ by this standard deviation of the logarithm,
pub const CAMPAIGN_COST_SPREAD: f64 = 0.8;
/// clicks of one campaign by this.
pub const CLICK_COST_SPREAD: f64 = 0.25;

/// Least delay of the network; the usual one is exponential above it,
pub const DELAY_LEAST_MS: f64 = 20.0;
/// with this mean.
pub const DELAY_MEAN_MS: f64 = 150.0;
/// Share of clicks held up (a tunnel, a phone asleep): Pareto above [`DELAY_TAIL_MS`],
pub const DELAY_TAIL_SHARE: f64 = 0.07;
/// the least delay of those,
pub const DELAY_TAIL_MS: f64 = 1_000.0;
/// with this exponent (one click in 200 is later than 10 s, one in 2 000 later than a minute),
pub const DELAY_TAIL_EXPONENT: f64 = 1.2;
/// and never more than this.
pub const DELAY_MOST_MS: f64 = 3_600_000.0;

/// Thousandths of the mean rate at each full hour (UTC), linear in between; they average 1 000.
pub const HOURS: [u32; 24] = [
    620, 480, 390, 350, 360, 450, 620, 820, 960, 1050, 1110, 1160, 1210, 1220, 1200, 1190, 1210, 1270, 1360, 1470,
    1540, 1500, 1370, 1090,
];
