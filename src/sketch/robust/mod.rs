//! The duplicate- and order-insensitive sketch.

pub mod element;
pub mod linear;
pub mod records;
pub mod sampling;
