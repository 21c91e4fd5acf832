//! What can be clicked: campaigns, their ads and what they pay.

use super::aim;
use super::draw::{Zipf, bell};
use super::options::TrafficOptions;
use ebb_sketch::random::Random;

#[derive(Debug, Clone)]
pub(super) struct Catalog {
    campaigns: Zipf,
    ads: Zipf,
    ads_per_campaign: u32,
    /// Of a click on each campaign, in ten thousandths.
    median_costs: Vec<f64>,
}

impl Catalog {
    pub(super) fn new(options: &TrafficOptions, random: &mut Random) -> Self {
        let cost = |_| 1e4 * aim::MEDIAN_COST * libm::exp(aim::CAMPAIGN_COST_SPREAD * bell(random));
        Self {
            campaigns: Zipf::new(options.campaigns, aim::CAMPAIGN_SKEW),
            ads: Zipf::new(options.ads_per_campaign, aim::AD_SKEW),
            ads_per_campaign: options.ads_per_campaign,
            median_costs: (0..options.campaigns).map(cost).collect(),
        }
    }

    pub(super) fn campaigns(&self) -> u32 {
        self.median_costs.len() as u32
    }

    pub(super) fn ads(&self) -> u32 {
        self.campaigns() * self.ads_per_campaign
    }

    pub(super) fn campaign_of(&self, ad: u32) -> u32 {
        ad / self.ads_per_campaign
    }

    pub(super) fn popular_ad(&self, random: &mut Random) -> u32 {
        let campaign = self.campaigns.draw(random);
        self.popular_ad_of(campaign, random)
    }

    pub(super) fn popular_ad_of(&self, campaign: u32, random: &mut Random) -> u32 {
        campaign * self.ads_per_campaign + self.ads.draw(random)
    }

    /// In ten thousandths.
    pub(super) fn cost(&self, campaign: u32, random: &mut Random) -> u32 {
        let cost = self.median_costs[campaign as usize] * libm::exp(aim::CLICK_COST_SPREAD * bell(random));
        cost.round().clamp(1.0, 9_999_999.0) as u32
    }
}
