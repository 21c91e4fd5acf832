//! The duplicate- and order-insensitive sketches against published vectors, a simple heap version and brute force.

mod accuracy;
mod copies;
mod hostile;
mod oracle;
mod properties;
mod questions;
mod streams;
mod vectors;
