//! Ebb on a real Kafka broker: nothing lost, nothing doubled, whatever is killed.

mod broker;
mod check;
mod copier;
mod feed;
mod fixture;
mod harness;
mod proxy;
mod stage;
