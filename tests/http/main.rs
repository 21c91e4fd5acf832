//! The service over HTTP: what it decides, how it tells mistakes, and what clients cannot do to it.

mod decide;
mod support;
