//! Campaigns, their ads and the cost of a click.

use super::distributions::{Zipf, approximate_normal};
use super::options::TrafficOptions;
use super::targets;
use ebb_sketch::random::Random;

/// All campaigns and ads.
#[derive(Debug, Clone)]
pub(super) struct Catalog {
    campaigns: Zipf,
    ads: Zipf,
    ads_per_campaign: u32,
    /// Median cost of a click by campaign, in ten-thousandths.
    median_costs: Vec<f64>,
}

impl Catalog {
    pub(super) fn new(options: &TrafficOptions, random: &mut Random) -> Self {
        let cost =
            |_| 1e4 * targets::MEDIAN_COST * libm::exp(targets::CAMPAIGN_COST_SPREAD * approximate_normal(random));
        Self {
            campaigns: Zipf::new(options.campaigns, targets::CAMPAIGN_SKEW),
            ads: Zipf::new(options.ads_per_campaign, targets::AD_SKEW),
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

    /// The cost of a click, in ten-thousandths.
    pub(super) fn cost(&self, campaign: u32, random: &mut Random) -> u32 {
        let cost =
            self.median_costs[campaign as usize] * libm::exp(targets::CLICK_COST_SPREAD * approximate_normal(random));
        cost.round().clamp(1.0, 9_999_999.0) as u32
    }
}
