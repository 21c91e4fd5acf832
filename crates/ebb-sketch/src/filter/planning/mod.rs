//! From a workload and a budget to parameters, before anything runs.
//!
//! - [`sizing`]: the timing filter with the least error for a budget, or the least memory for an error.
//! - [`forecast`]: expected errors and penalties of a timing filter under a traffic model.
//! - [`stationary`]: the distribution of cell values to which a stable filter converges, and the error rates it implies.
//! - [`tuning`]: the parameters with which a stable filter meets a false-duplicate rate.

pub mod forecast;
pub mod sizing;
pub mod stationary;
pub mod tuning;
