//! Locates or fetches what a real broker needs on this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The directory of broker data, broker jars and the checker's Python environment: `kafka` in the target directory, or
/// `EBB_KAFKA_ROOT`, so that a long run and the tests of a later build do not wait for each other.
pub fn root() -> PathBuf {
    if let Some(root) = std::env::var_os("EBB_KAFKA_ROOT") {
        return root.into();
    }
    // Cargo sets CARGO_TARGET_TMPDIR to <target>/tmp.
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target directory").join("kafka")
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Python with the checker's dependencies, without writing bytecode into the source tree.
pub fn python() -> Command {
    let mut python = Command::new(root().join("checker/bin/python"));
    python.arg("-B");
    python
}

/// Why tests on a real broker cannot run here, or `None` if they can. Fetches jars and Python packages on first use.
///
/// Panics where `CI` is set: CI must not skip tests.
pub fn missing() -> Option<String> {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    MISSING.get_or_init(find_missing).clone()
}

fn find_missing() -> Option<String> {
    let required =
        if std::env::var_os("KAFKA_BROKERS").is_some() { &["python3"][..] } else { &["java", "mvn", "python3"] };
    let absent: Vec<&str> = required.iter().copied().filter(|tool| !is_installed(tool)).collect();
    if !absent.is_empty() {
        let missing = format!("{} not found; run scripts/setup.sh kafka", absent.join(", "));
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        return Some(missing);
    }
    let target = root().parent().expect("a target directory").to_owned();
    let fetched = Command::new(repository().join("scripts/kafka/fetch.sh")).env("CARGO_TARGET_DIR", target).status();
    assert!(fetched.is_ok_and(|status| status.success()), "scripts/kafka/fetch.sh failed");
    None
}

fn is_installed(tool: &str) -> bool {
    let version_flag = if tool == "java" { "-version" } else { "--version" };
    let mut command = Command::new(tool);
    command.arg(version_flag).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// `java` with the broker's jars and logging configuration.
pub fn java() -> Command {
    let mut java = Command::new("java");
    let logging = repository().join("scripts/kafka/log4j2.properties");
    // Without the optimizing compiler: brokers restart too often to profit from it.
    java.args(["-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .arg(format!("-Dlog4j2.configurationFile={}", logging.display()))
        .arg("-cp")
        .arg(root().join("libs").join("*"));
    java
}

/// Skips the test, with a message, where no broker can run.
#[macro_export]
macro_rules! skip_without_kafka {
    () => {
        if let Some(missing) = $crate::broker::tools::missing() {
            eprintln!("SKIPPED: {missing}");
            return;
        }
    };
}

/// Like [`skip_without_kafka`], for tests that kill brokers: also skips with an external cluster.
#[macro_export]
macro_rules! skip_without_own_kafka {
    () => {
        if std::env::var_os("KAFKA_BROKERS").is_some() {
            eprintln!("SKIPPED: this test kills brokers, and KAFKA_BROKERS names an external cluster");
            return;
        }
        $crate::skip_without_kafka!();
    };
}
