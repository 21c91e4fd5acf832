//! Configurations in documents and containers are valid.

use crate::{TWO_LINES, parse};

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

/// The YAML blocks of a document.
fn yaml_blocks(document: &str) -> Vec<&str> {
    document.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().expect("a block ends")).collect()
}

#[test]
fn every_example_in_kafka_security_md_is_valid() {
    let document = std::fs::read_to_string(format!("{REPOSITORY}/docs/kafka-security.md")).expect("the document");
    let secrets = tempfile::tempdir().expect("a folder");
    for name in ["kafka-password", "key-password", "client-secret"] {
        std::fs::write(secrets.path().join(name), "secret\n").expect("a secret");
    }
    let document = document.replace("/etc/ebb/secrets", &secrets.path().display().to_string());
    let blocks = yaml_blocks(&document);
    assert!(blocks.len() >= 4, "only {} examples", blocks.len());
    for block in blocks {
        let whole = match block.starts_with("kafka:") {
            true => format!("{block}{TWO_LINES}"),
            false => format!("kafka:\n  brokers: b:1\n  properties:\n{block}{TWO_LINES}"),
        };
        let config = parse(&whole).unwrap_or_else(|message| panic!("{message}\n{whole}"));
        let properties = config.kafka.expect("a kafka section").properties;
        assert!(properties.contains_key("security.protocol"), "{whole}");
    }
}

#[test]
fn container_configuration_and_mounts_are_valid() {
    let read = |name: &str| std::fs::read_to_string(format!("{REPOSITORY}/docker/{name}")).expect(name);
    let config = parse(&read("ebb.yaml")).unwrap_or_else(|message| panic!("{message}"));
    assert!(config.http.listen.ip().is_unspecified(), "the service must be reachable from outside the container");
    let compose = read("compose.yaml");
    let mounted: Vec<&str> =
        compose.lines().filter_map(|line| line.trim().strip_prefix("- .")?.split(':').next()).collect();
    assert_eq!(mounted.len(), 5, "{mounted:?}");
    for path in mounted {
        let path = format!("{REPOSITORY}/docker/.{path}");
        assert!(std::path::Path::new(&path).exists(), "compose.yaml mounts {path}, which does not exist");
    }
}
