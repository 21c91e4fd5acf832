//! Ebb on a real Kafka broker: nothing lost, nothing doubled, whatever is killed.

mod audit;
mod broker;
mod chaos;
mod check;
mod copier;
mod feed;
mod fixture;
mod harness;
mod instance;
mod proxy;
mod service;
mod stage;
#[path = "../support/mod.rs"]
mod support;
