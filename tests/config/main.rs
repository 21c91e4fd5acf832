//! The configuration as users see it: files, variables, errors, defaults and generated documents.

mod commands;
mod defaults;
mod documents;
mod errors;
mod forgetting;
mod frequency;
mod hostile;
mod identities;
mod overrides;
mod reference;
mod round_trip;
mod secrets;

use std::process::{Command, Output};

use ebb::config::Config;
use ebb::kafka::properties;

const TWO_LINES: &str = "streams:\n  clicks: {event: {item: [ip, ad]}}\n";
const FULL: &str = include_str!("../vectors/config/full.yaml");

fn parse_with(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    Config::parse(text, variables, properties::check).map_err(|errors| errors.to_string())
}

fn parse(text: &str) -> Result<Config, String> {
    parse_with(text, &[])
}

/// The only error of a configuration.
fn error(text: &str) -> String {
    let errors = parse(text).expect_err(text);
    let (count, error) = errors.split_once('\n').expect("a count and the errors");
    assert_eq!(count, "1 error", "{errors}");
    error.trim().to_string()
}

/// The only error of a stream with these keys beside its item.
fn stream_error(keys: &str) -> String {
    error(&format!("streams:\n  s:\n    event: {{item: ip}}\n    {keys}\n"))
}

fn ebb(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    command.args(arguments).env_clear().envs(variables.iter().copied());
    command.output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the binary writes UTF-8")
}
