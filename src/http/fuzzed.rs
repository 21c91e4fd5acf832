//! Entry points of the fuzz targets (`fuzz/`) into the parsers of client input.

use std::hint::black_box;

use axum::extract::Query;
use axum::http::Uri;

use super::aggregates::{AggregateQuery, StatisticName};
use super::decide_request::DecideRequest;
use super::fields::parse_at_least;
use super::tokens::Callers;

/// The number of events in a decide request, if it is valid.
pub fn decide(body: &[u8]) -> Option<usize> {
    DecideRequest::parse(body).ok().map(|command| command.events.as_slice().len())
}

/// Parses a value of `at_least`.
pub fn at_least(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    black_box(parse_at_least(text).is_ok());
}

/// Parses a query for every statistic.
pub fn query(query: &[u8]) {
    let Ok(text) = std::str::from_utf8(query) else { return };
    let Ok(uri) = format!("/?{text}").parse::<Uri>() else { return };
    let Ok(Query(query)) = Query::<AggregateQuery>::try_from_uri(&uri) else { return };
    for name in StatisticName::ALL {
        black_box(query.statistic(name).is_ok());
    }
}

/// Parses a tokens file.
pub fn tokens(content: &[u8]) {
    black_box(Callers::parse(content).map_err(|error| error.to_string()).is_ok());
}
