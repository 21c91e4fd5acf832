//! What a real broker needs on this machine: found, fetched once, or missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Where brokers, their jars and the checker's client live: below the target directory of this build, or where
/// `EBB_KAFKA_ROOT` says, so that a long run does not wait for the tests of the next build, nor they for it.
pub fn root() -> PathBuf {
    if let Some(root) = std::env::var_os("EBB_KAFKA_ROOT") {
        return root.into();
    }
    // The directory that cargo gives integration tests is <target>/tmp.
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target directory").join("kafka")
}

fn source() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Why the test that asks cannot run here; `None` when it can. Fetches what is not there yet.
///
/// Where `CI` is set nothing is ever skipped: what is missing fails the test.
pub fn missing() -> Option<String> {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    MISSING.get_or_init(look).clone()
}

fn look() -> Option<String> {
    let needed =
        if std::env::var_os("KAFKA_BROKERS").is_some() { &["python3"][..] } else { &["java", "mvn", "python3"] };
    let absent: Vec<&str> = needed.iter().copied().filter(|tool| !runs(tool)).collect();
    if !absent.is_empty() {
        let missing = format!("{} not found; scripts/setup.sh kafka installs what is missing", absent.join(", "));
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        return Some(missing);
    }
    let target = root().parent().expect("a target directory").to_owned();
    let fetched = Command::new(source().join("scripts/kafka/fetch.sh")).env("CARGO_TARGET_DIR", target).status();
    assert!(fetched.is_ok_and(|status| status.success()), "scripts/kafka/fetch.sh failed");
    None
}

fn runs(tool: &str) -> bool {
    let asked = if tool == "java" { "-version" } else { "--version" };
    let silent =
        Command::new(tool).arg(asked).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    silent.is_ok_and(|status| status.success())
}

/// `java` with the broker's jars and its logging.
pub fn java() -> Command {
    let mut java = Command::new("java");
    let logging = source().join("scripts/kafka/log4j2.properties");
    // A broker that is restarted every few seconds gains nothing from the second compiler.
    java.args(["-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .arg(format!("-Dlog4j2.configurationFile={}", logging.display()))
        .arg("-cp")
        .arg(root().join("libs").join("*"));
    java
}

/// Says visibly why a test does nothing and leaves it.
#[macro_export]
macro_rules! skip_without_kafka {
    () => {
        if let Some(missing) = $crate::broker::tools::missing() {
            eprintln!("SKIPPED: {missing}");
            return;
        }
    };
}

/// As [`skip_without_kafka`], for tests that kill brokers: those of somebody else are not for killing.
#[macro_export]
macro_rules! skip_without_own_kafka {
    () => {
        if std::env::var_os("KAFKA_BROKERS").is_some() {
            eprintln!("SKIPPED: KAFKA_BROKERS names brokers that are not ours to kill");
            return;
        }
        $crate::skip_without_kafka!();
    };
}
