//! Ways in for the fuzz targets (`fuzz/`): what clients send and only this module reads.

use std::hint::black_box;

use axum::extract::Query;
use axum::http::Uri;

use super::aggregates::{Asked, Wanted};
use super::position::parse_at_least;
use super::question::Envelope;
use super::tokens::Callers;

/// How many events a body asks about, if it can be read.
pub fn decide(body: &[u8]) -> Option<usize> {
    Envelope::parse(body).ok().map(|(events, ..)| events.as_slice().len())
}

/// Reads where an answer is wanted.
pub fn at_least(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    black_box(parse_at_least(text).is_ok());
}

/// Reads a query as every statistic would.
pub fn query(query: &[u8]) {
    let Ok(text) = std::str::from_utf8(query) else { return };
    let Ok(uri) = format!("/?{text}").parse::<Uri>() else { return };
    let Ok(Query(asked)) = Query::<Asked>::try_from_uri(&uri) else { return };
    for wanted in Wanted::ALL {
        black_box(asked.statistic(wanted).is_ok());
    }
}

/// Reads a file of tokens.
pub fn tokens(content: &[u8]) {
    black_box(Callers::parse(content).map_err(|error| error.to_string()).is_ok());
}
