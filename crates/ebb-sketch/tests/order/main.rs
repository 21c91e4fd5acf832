//! The deterministic aggregates against published vectors and naive oracles.

mod bounds;
mod errors;
mod oracle;
mod past;
mod properties;
mod snapshots;
mod vectors;
