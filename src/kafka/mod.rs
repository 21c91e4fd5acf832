//! Kafka: the only module that names rdkafka.
//!
//! - [`properties`]: whether librdkafka knows a property that the configuration passes through.

pub mod properties;
