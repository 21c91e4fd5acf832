//! The duplicate- and order-insensitive sketches against published vectors, a heap oracle and brute force.

mod accuracy;
mod copies;
mod errors;
mod oracle;
mod past;
mod properties;
mod queries;
mod streams;
mod vectors;
