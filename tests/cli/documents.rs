//! Generated documents are current.

use std::path::Path;

use ebb::app::{ReferenceFormat, configuration_markdown, metrics_reference};

fn assert_current(file: &str, generated: &str, command: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(file);
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == generated, "docs/{file} is not current: run make docs (or {command} > docs/{file})");
}

#[test]
fn configuration_md_is_current() {
    assert_current("configuration.md", &configuration_markdown(), "ebb config --reference --markdown");
}

#[test]
fn metrics_md_is_current() {
    assert_current("metrics.md", &metrics_reference(ReferenceFormat::Markdown), "ebb metrics --markdown");
}
