//! Secrets are masked, and librdkafka properties are checked.

use std::fmt::Write as _;

use crate::{TWO_LINES, parse};

#[test]
fn secrets_are_masked_in_all_output() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("password");
    std::fs::write(&file, "from-the-file\n").unwrap();
    let yaml = format!(
        "{TWO_LINES}kafka:\n  brokers: k:9092\n  properties:\n    sasl.password: hunter2\n    \
         ssl.key.password: {{file: {}}}\n    ssl.key.location: /tls/key.pem\n    sasl.username: ebb\n",
        file.display()
    );
    let config = parse(&yaml).unwrap();
    let properties = &config.kafka.as_ref().unwrap().properties;
    assert_eq!(properties["sasl.password"].value, "hunter2");
    assert_eq!(properties["ssl.key.password"].value, "from-the-file");
    let mut shown = config.effective() + &config.summary();
    write!(shown, "{config:?}").unwrap();
    for secret in ["hunter2", "from-the-file"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    for open in ["/tls/key.pem", "sasl.username: ebb", "sasl.password: \"********\"", &file.display().to_string()] {
        assert!(shown.contains(open), "{open}: {shown}");
    }
    let message = parse(&config.effective()).unwrap_err();
    assert!(message.contains("sasl.password (line 31): is the mask of a secret; set the secret itself"), "{message}");
    let only_files = yaml.replace("    sasl.password: hunter2\n", "");
    let config = parse(&only_files).unwrap();
    assert_eq!(parse(&config.effective()), Ok(config));
}

#[test]
fn librdkafka_checks_properties_and_reserved_ones_are_errors() {
    for (property, expected) in [
        ("group.id: x", "kafka.properties.group.id (line 5): is set by Ebb; use kafka.group"),
        ("enable.auto.commit: true", "is set by Ebb: offsets are committed with the outputs; use kafka.commit_every"),
        ("auto.offset.reset: latest", "is set by Ebb: a reset would silently skip or repeat events; use kafka.start"),
        ("sasl.mechansim: PLAIN", "librdkafka refuses it: No such configuration property: \"sasl.mechansim\""),
        ("security.protocol: tls", "librdkafka refuses it: Invalid value \"tls\" for configuration property"),
        ("sasl.password: [a]", "is a list; expected a value, or {file: PATH}"),
        ("sasl.password: {file: /no/such, x: 1}", "kafka.properties.sasl.password.x (line 5): unknown key"),
    ] {
        let yaml = format!("{TWO_LINES}kafka:\n  brokers: k:9092\n  properties: {{{property}}}\n");
        let message = parse(&yaml).unwrap_err();
        assert!(message.contains(expected), "{property}: {message}");
    }
}
