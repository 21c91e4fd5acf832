//! Counting different values: state, bounds and errors against an exact oracle.

mod bounds;
mod oracle;
mod properties;
