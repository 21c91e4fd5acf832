//! Hostile files.

use std::fmt::Write as _;

use crate::{TWO_LINES, parse};

#[test]
fn hostile_yaml_is_a_bounded_printable_error() {
    let bomb: String = (0..30).fold("a0: &a0 [x]\n".into(), |mut yaml, i| {
        writeln!(yaml, "a{}: &a{} [*a{i}, *a{i}, *a{i}, *a{i}, *a{i}, *a{i}, *a{i}, *a{i}]", i + 1, i + 1).unwrap();
        yaml
    });
    let many_keys: String = (0..40_000).map(|i| format!("key{i}: 1\n")).collect();
    for (what, yaml) in [
        ("an anchors bomb", bomb),
        ("nested lists", "[".repeat(100_000)),
        ("nested maps", "{a: ".repeat(100_000)),
        ("nested blocks", (0..400).map(|i| format!("{}a:\n", " ".repeat(i))).collect()),
        ("a long duration", format!("{TWO_LINES}http: {{drain: {}}}", "9".repeat(1 << 19))),
        ("terminal codes", format!("{TWO_LINES}http: {{drain: \"\\e[31m\"}}")),
        (
            "terminal codes for librdkafka",
            format!("{TWO_LINES}kafka: {{brokers: 'k:1', properties: {{security.protocol: \"\\e[31m\"}}}}"),
        ),
        ("a huge scalar", format!("data_dir: {}", "x".repeat(2 << 20))),
        ("a long path", format!("{TWO_LINES}data_dir: {}", "x".repeat(1 << 19))),
        ("a long name", format!("streams: {{{}: {{event: {{item: a}}}}}}", "n".repeat(900))),
        ("many keys", many_keys),
        ("NUL", format!("{TWO_LINES}data_dir: \"a\\0b\"\n")),
        ("raw NUL", format!("{TWO_LINES}data_dir: a\0b\n")),
        ("a duplicate key", format!("{TWO_LINES}workers: 1\nworkers: 2\n")),
        ("a duplicate stream", "streams:\n  a: {event: {item: x}}\n  a: {event: {item: y}}\n".into()),
        ("two documents", format!("{TWO_LINES}---\n{TWO_LINES}")),
        ("a cycle", "streams: &a {clicks: *a}".into()),
        ("an unknown anchor", "streams: *nowhere".into()),
        ("a tag", format!("{TWO_LINES}data_dir: !include /etc/passwd\n")),
        ("a tab", "streams:\n\tclicks: 1\n".into()),
        ("a list", "- 1\n- 2\n".into()),
        ("a word", "hello".into()),
        ("a list as key", "? [a, b]\n: 1\n".into()),
        ("an empty section", format!("{TWO_LINES}kafka:\n")),
        ("nothing", String::new()),
        ("a byte order mark alone", "\u{feff}".into()),
        ("not a number", format!("{TWO_LINES}workers: .nan\n")),
        ("a large number", format!("{TWO_LINES}workers: {}\n", "9".repeat(400))),
    ] {
        let message = parse(&yaml).expect_err(what);
        assert!(
            message.lines().all(|line| line.len() < 5_000) && message.len() < 50_000,
            "{what}: {} bytes",
            message.len()
        );
        assert!(message.chars().all(|c| c == '\n' || !c.is_control()), "{what}: {message}");
        assert!(message.contains("error"), "{what}: {message}");
    }
}
