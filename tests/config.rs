//! The configuration from outside: what people write, what they are told, what comes back.

use ebb::config::Config;

fn any_property(_: &str, _: &str) -> Result<(), String> {
    Ok(())
}

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, [], any_property).map_err(|mistakes| mistakes.to_string())
}

#[test]
fn two_lines_are_enough() {
    let config = parse("streams:\n  clicks: {event: {item: [ip, ad]}}\n").unwrap();
    assert_eq!(config.streams["clicks"].topic, "clicks");
    assert_eq!(config, parse(&config.effective()).unwrap());
}
