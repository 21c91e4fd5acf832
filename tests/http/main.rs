//! The HTTP interface: decisions, errors, and limits on clients.

mod aggregates;
mod auth;
mod checkpoint;
mod decide;
mod explanation;
mod exports;
mod file_descriptors;
mod frequency;
mod limits;
mod malformed;
mod observe;
mod openapi;
mod problems;
mod server;
mod status;
mod support;
mod tls;
