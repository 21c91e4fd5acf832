//! The documents that are generated say what the code says.

use std::path::Path;

use ebb::app::{ReferenceFormat, configuration_markdown, metrics_reference};

fn assert_current(file: &str, now: &str, command: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(file);
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == now, "docs/{file} is not current: {command} > docs/{file}, or make docs");
}

#[test]
fn the_reference_of_the_configuration_is_current() {
    assert_current("configuration.md", &configuration_markdown(), "ebb config --reference --markdown");
}

#[test]
fn the_reference_of_the_metrics_is_current() {
    assert_current("metrics.md", &metrics_reference(ReferenceFormat::Markdown), "ebb metrics --markdown");
}
