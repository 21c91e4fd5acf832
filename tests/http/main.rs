//! The service over HTTP: what it decides, how it tells mistakes, and what clients cannot do to it.

mod aggregates;
mod crowded;
mod decide;
mod hostile;
mod limits;
mod observe;
mod problems;
mod server;
mod status;
mod support;
