//! The figures that the traffic is generated to match. Shares are of all clicks, in the long run, at the mean rate.

/// Share of clicks by people in sessions, without double clicks.
pub const PEOPLE: f64 = 0.73;
/// Share of clicks by the click farm; all but its first round are replays.
pub const FARM: f64 = 0.12;
/// Share of clicks by the crawler.
pub const CRAWLER: f64 = 0.03;
/// Share of clicks by flash crowds: none most of the time, more than all others together at their peak.
pub const BURST: f64 = 0.06;
/// Share of double clicks.
pub const DOUBLE_CLICKS: f64 = 0.04;
/// Share of byte-identical retries by senders that missed an acknowledgement.
pub const RETRIES: f64 = 0.02;

/// Time between the two clicks of a double click.
pub const DOUBLE_CLICK_MS: std::ops::RangeInclusive<u64> = 80..=3_000;
/// Time between the arrivals of a click and its retry.
pub const RETRY_MS: std::ops::RangeInclusive<u64> = 1_000..=30_000;
/// Mean number of clicks in a session.
pub const SESSION_CLICKS: u64 = 5;
/// Mean time between the clicks of a session, as long as [`MAX_SESSIONS`] suffice.
pub const SESSION_GAP_MS: u64 = 40_000;
/// Maximum number of open sessions. Bounds the memory; above about 2 000 clicks/s it makes sessions denser.
pub const MAX_SESSIONS: u64 = 1 << 16;

/// Number of IP addresses of the farm.
pub const FARM_ADDRESSES: u64 = 8;
/// Number of campaigns that the farm clicks on.
pub const FARM_CAMPAIGNS: u64 = 3;
/// One flash crowd begins in each interval of this length.
pub const BURST_EVERY_MS: u64 = 120_000;
/// Duration of a flash crowd.
pub const BURST_LASTS_MS: u64 = 10_000;

/// Zipf exponent of campaigns; `cmp-0000` has the most clicks by people.
pub const CAMPAIGN_SKEW: f64 = 1.1;
/// Zipf exponent of the ads of a campaign.
pub const AD_SKEW: f64 = 1.0;

/// Cost of a click of the median campaign.
pub const MEDIAN_COST: f64 = 0.04;
/// Standard deviation of the logarithm of the cost between campaigns.
pub const CAMPAIGN_COST_SPREAD: f64 = 0.8;
/// Standard deviation of the logarithm of the cost within a campaign.
pub const CLICK_COST_SPREAD: f64 = 0.25;

/// Minimum network delay.
pub const MIN_DELAY_MS: f64 = 20.0;
/// Mean of the exponential delay above the minimum.
pub const DELAY_MEAN_MS: f64 = 150.0;
/// Share of clicks with a long delay, such as from a phone in a tunnel: Pareto above [`DELAY_TAIL_MS`].
pub const DELAY_TAIL_SHARE: f64 = 0.07;
/// Minimum of a long delay.
pub const DELAY_TAIL_MS: f64 = 1_000.0;
/// Pareto exponent of long delays: 1 click in 200 is later than 10 s, 1 in 2 000 later than a minute.
pub const DELAY_TAIL_EXPONENT: f64 = 1.2;
/// Maximum delay.
pub const MAX_DELAY_MS: f64 = 3_600_000.0;

/// Rate at each full hour (UTC) in thousandths of the mean rate, linear in between; the average is 1 000.
pub const HOURS: [u32; 24] = [
    620, 480, 390, 350, 360, 450, 620, 820, 960, 1050, 1110, 1160, 1210, 1220, 1200, 1190, 1210, 1270, 1360, 1470,
    1540, 1500, 1370, 1090,
];
