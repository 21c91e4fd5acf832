//! From a workload and a budget to parameters, before anything runs.
//!
//! - [`sizing`]: the timing filter with the least error for a budget, or the least memory for an error.
//! - [`forecast`]: expected errors and penalties of a timing filter under a traffic model.
//! - [`stationary`]: the distribution of cell values to which a stable filter converges, and the error rates it implies.
//! - [`tuning`]: the parameters with which a stable filter of a given size meets a rate of errors.
//! - [`stable_sizing`]: the smallest stable filter that meets a rate of false and one of missed duplicates.
//! - [`classic_sizing`]: the smallest classic filter that meets a false-duplicate rate.

mod cell_chain;
pub mod classic_sizing;
pub mod forecast;
pub mod sizing;
pub mod stable_sizing;
pub mod stationary;
pub mod tuning;
