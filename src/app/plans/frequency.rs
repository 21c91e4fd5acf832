//! Maps the keys of the frequency view to its plan.

use crate::config::frequency::FrequencyConfig;
use ebb_core::FrequencyPlan;

pub(super) fn frequency_plan(config: &FrequencyConfig) -> anyhow::Result<FrequencyPlan> {
    let plan = FrequencyPlan::from(config.spec()?);
    Ok(match config.normalised_epoch() {
        None => plan,
        Some(epoch) => plan.normalised_by(plan.spec().epoch_ms().unwrap_or(epoch.0)),
    })
}
