//! Maps the keys of the frequency view to its counters.

use crate::config::aggregate::{FrequencyConfig, FrequencyMethod};
use ebb_sketch::filter::structure::frequency::FrequencySpec;
use ebb_sketch::filter::structure::frequency::basic::BasicSpec;
use ebb_sketch::filter::structure::frequency::epochs::EpochSpec;
use ebb_sketch::filter::structure::frequency::forward::ForwardSpec;
use ebb_sketch::filter::structure::frequency::optimised::{DigitSpec, OptimisedSpec};
use ebb_sketch::filter::structure::layout::CellLayout;

const BASIC_FRACTION_BITS: u8 = 8;
const DIGIT_BITS: u8 = 4;
const FRACTION_BITS: u8 = 4;
/// Cells per digit of the overflow pool.
const CELLS_PER_POOL_DIGIT: u64 = 8;

pub(super) fn frequency_spec(config: &FrequencyConfig) -> anyhow::Result<FrequencySpec> {
    let (size, hashes) = (CellLayout::in_memory(config.memory.0)?, config.cells as u8);
    let half_life_ms = config.half_life.0;
    let sweeps = config.sweeps_per_half_life();
    Ok(match config.method {
        FrequencyMethod::Forward => FrequencySpec::Forward(ForwardSpec::new(size, hashes, half_life_ms)?),
        FrequencyMethod::Basic => {
            let sweeps = sweeps.min(u32::try_from(half_life_ms).unwrap_or(u32::MAX));
            let epochs = EpochSpec::halving(half_life_ms, sweeps)?;
            FrequencySpec::Basic(BasicSpec::new(size, hashes, epochs, BASIC_FRACTION_BITS)?)
        }
        FrequencyMethod::Optimised => {
            let cells = config.memory.0 * 8 / u64::from(DIGIT_BITS);
            let digits = DigitSpec {
                digit_bits: DIGIT_BITS,
                fraction_bits: FRACTION_BITS,
                pool: (cells / CELLS_PER_POOL_DIGIT).clamp(1, 1 << 30) as u32,
                carry: config.carry,
            };
            let epochs = EpochSpec::halving(half_life_ms, sweeps)?;
            FrequencySpec::Optimised(OptimisedSpec::new(size, hashes, epochs, digits)?)
        }
    })
}
