//! Ebb on a real Kafka broker: nothing lost, nothing doubled, whatever is killed.

mod audit;
mod broker;
mod chaos;
mod check;
mod copier;
mod feed;
mod fetching;
mod fixture;
mod harness;
mod instance;
mod membership;
mod modes;
mod outputs;
mod pressure;
mod proxy;
mod security;
mod service;
mod site;
mod stage;
#[path = "../support/mod.rs"]
mod support;
