//! The deterministic aggregates against published and prepared answers, and against naive oracles.

mod brackets;
mod oracle;
mod properties;
mod refusals;
mod snapshots;
mod vectors;
