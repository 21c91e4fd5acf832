//! The generated reference is a configuration itself.

use ebb::config::Config;

use crate::{FULL, TWO_LINES, parse};

/// The paths of all keys in block YAML, including keys that are commented out without a space after the `#`.
fn keys_of(yaml: &str) -> Vec<String> {
    let mut path: Vec<(usize, &str)> = Vec::new();
    let mut keys = Vec::new();
    for line in yaml.lines().filter(|line| !line.trim_start().starts_with("# ")) {
        let indent = line.len() - line.trim_start().len();
        let Some((name, _)) = line.trim_start().trim_start_matches('#').split_once(':') else { continue };
        path.retain(|(outer, _)| *outer < indent);
        path.push((indent, name));
        keys.push(path.iter().map(|(_, name)| *name).collect::<Vec<_>>().join("."));
    }
    keys
}

#[test]
fn reference_parses_as_a_configuration_with_all_defaults() {
    let named = TWO_LINES.replace("clicks", "name");
    assert_eq!(parse(&Config::reference()), parse(&named));
}

#[test]
fn reference_documents_every_key_and_its_syntax() {
    let reference = Config::reference();
    let known = keys_of(&reference);
    let full = FULL.replace("  clicks:", "  name:").replace("spend:", "name:");
    let in_force = keys_of(&parse(&full).unwrap().effective());
    let others = ["by_country", "long-tail", "recent", "curve", "paper"].map(|name| format!("aggregates.{name}"));
    let inner = ["streams.views", "streams.members", "kafka.properties.", "event.time."].map(str::to_owned);
    let skipped = |key: &&String| others.iter().chain(&inner).any(|other| key.contains(other));
    let missing: Vec<&String> = in_force.iter().filter(|key| !skipped(key) && !known.contains(key)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(known.len() > 85, "{}", known.len());
    let syntaxes = reference.matches("# Syntax: ").count();
    let values = known.iter().filter(|key| !known.iter().any(|other| other.starts_with(&format!("{key}.")))).count();
    assert!(syntaxes >= values, "{syntaxes} syntaxes for {values} values");
}

#[test]
fn examples_in_the_reference_are_valid_except_for_known_conflicts() {
    let all: Vec<String> = Config::reference()
        .lines()
        .map(|line| match line.split_once('#') {
            Some((indent, key)) if indent.trim().is_empty() && !key.starts_with(' ') => format!("{indent}{key}"),
            _ => line.to_string(),
        })
        .collect();
    let message = parse(&all.join("\n")).unwrap_err();
    let broken: Vec<&str> =
        message.lines().skip(1).map(|line| line.trim().split(" (").next().unwrap_or(line)).collect();
    let expected = [
        "dedup.error",
        "dedup.missed",
        "dedup.decrements",
        "dedup.importance_mix",
        "frequency.epoch",
        "frequency.carry",
        "frequency.fraction_bits",
        "frequency.digit_bits",
        "frequency.pool",
        "aggregates.name.top",
    ];
    let expected = expected.map(|key| format!("streams.name.{key}"));
    assert_eq!(broken, expected, "{message}");
}
