//! The sources of clicks. All addresses are from reserved blocks: private, carrier-grade NAT, benchmarks, documentation.

use super::catalog::Catalog;
use super::distributions::chance;
use super::options::TrafficOptions;
use super::targets;
use ebb_sketch::random::{Random, mix};

const HOMES: u32 = 0x0A00_0000; // 10.0.0.0/8
const CARRIERS: u32 = 0x6440_0000; // 100.64.0.0/10
const FARM: u32 = 0xC612_0000; // 198.18.0.0/15
const CRAWLER: u32 = 0xCB00_7107; // 203.0.113.7

/// Share of sessions on a phone, behind an address that many share.
const MOBILE_SHARE: f64 = 0.25;
const CARRIER_ADDRESSES: u64 = 2_048;
/// People with consecutive numbers share a home address.
const PEOPLE_PER_HOME: u64 = 3;

/// A visitor and the ad that was clicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) visitor: Visitor,
    pub(super) ad: u32,
}

/// Address and user number of a visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Visitor {
    pub(super) ip: u32,
    pub(super) user: u32,
}

/// People in sessions.
#[derive(Debug, Clone)]
pub(super) struct People {
    population: u32,
    sessions: Vec<Visitor>,
}

impl People {
    pub(super) fn new(options: &TrafficOptions, random: &mut Random) -> Self {
        let expected = options.rate_per_second * targets::PEOPLE * targets::SESSION_GAP_MS as f64 / 1e3;
        let sessions = (expected as u64).clamp(16, targets::MAX_SESSIONS);
        let sessions = (0..sessions).map(|_| random_visitor(options.people, random)).collect();
        Self { population: options.people, sessions }
    }

    /// A click of a random open session; the session may end with it and be replaced by a new one.
    pub(super) fn click(&mut self, catalog: &Catalog, random: &mut Random) -> Hit {
        let open = random.below(self.sessions.len() as u64) as usize;
        let visitor = self.sessions[open];
        if random.below(targets::SESSION_CLICKS) == 0 {
            self.sessions[open] = random_visitor(self.population, random);
        }
        Hit { visitor, ad: catalog.popular_ad(random) }
    }

    /// A click of a flash crowd on one campaign, outside all sessions.
    pub(super) fn crowd_click(&self, campaign: u32, catalog: &Catalog, random: &mut Random) -> Hit {
        Hit { visitor: random_visitor(self.population, random), ad: catalog.popular_ad_of(campaign, random) }
    }
}

/// A visitor with a skew towards low numbers: a tenth of all sessions belongs to a hundredth of the people.
fn random_visitor(population: u32, random: &mut Random) -> Visitor {
    let unit = random.unit();
    let user = (unit * unit * f64::from(population)) as u32;
    let ip = if chance(random, MOBILE_SHARE) {
        CARRIERS + random.below(CARRIER_ADDRESSES) as u32
    } else {
        HOMES + (mix(u64::from(user) / PEOPLE_PER_HOME) & 0xFF_FFFF) as u32
    };
    Visitor { ip, user }
}

/// The click farm: repeats a fixed list of (ip, ad, user) from few addresses.
#[derive(Debug, Clone)]
pub(super) struct Farm {
    first_user: u32,
    salt: u64,
    list_length: u64,
    next: u64,
}

impl Farm {
    pub(super) fn new(options: &TrafficOptions, random: &mut Random) -> Self {
        let expected = options.rate_per_second * targets::FARM * options.farm_interval_ms as f64 / 1e3;
        Self {
            first_user: options.people,
            salt: random.next_u64(),
            list_length: (expected as u64).clamp(1, 1 << 30),
            next: 0,
        }
    }

    pub(super) fn click(&mut self, catalog: &Catalog) -> Hit {
        let number = self.next;
        self.next = (number + 1) % self.list_length;
        let mut random = Random::new(mix(self.salt ^ number));
        // The farm targets the largest campaigns.
        let targets = targets::FARM_CAMPAIGNS.min(u64::from(catalog.campaigns()));
        let ip = FARM + random.below(targets::FARM_ADDRESSES) as u32;
        let ad = catalog.popular_ad_of(random.below(targets) as u32, &mut random);
        Hit { visitor: Visitor { ip, user: self.first_user + number as u32 }, ad }
    }
}

/// The crawler: visits all ads in order, from one address.
#[derive(Debug, Clone, Default)]
pub(super) struct Crawler {
    next: u32,
}

impl Crawler {
    pub(super) fn click(&mut self, catalog: &Catalog) -> Hit {
        let ad = self.next;
        self.next = (ad + 1) % catalog.ads();
        Hit { visitor: Visitor { ip: CRAWLER, user: u32::MAX }, ad }
    }
}
