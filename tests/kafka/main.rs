//! Ebb on a real Kafka broker: no output is lost or duplicated, whichever process fails.

mod audit;
mod broker;
mod broker_tests;
mod chaos;
mod checker;
mod copier;
mod feed;
mod fetching;
mod harness_tests;
mod instance;
mod log_lines;
mod membership;
mod modes;
mod outputs;
mod pressure;
mod proxy;
mod security;
mod service;
mod service_fixture;
#[path = "../support/mod.rs"]
mod support;
mod testbed;
mod wait;
