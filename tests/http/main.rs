//! The service over HTTP: what it decides, how it tells mistakes, and what clients cannot do to it.

mod aggregates;
mod checkpoint;
mod crowded;
mod decide;
mod explain;
mod exports;
mod frequency;
mod guard;
mod hostile;
mod limits;
mod observe;
mod openapi;
mod problems;
mod server;
mod status;
mod support;
mod tls;
