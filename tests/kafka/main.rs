//! Ebb on a real Kafka broker: nothing lost, nothing doubled, whatever is killed.

mod broker;
mod fixture;
mod proxy;
mod service;
#[path = "../support/mod.rs"]
mod support;
