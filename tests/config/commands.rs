//! `ebb check`, `ebb config` and exit statuses.

use ebb::config::Config;

use crate::{FULL, ebb, parse, parse_with, text};

#[test]
fn config_command_prints_effective_configuration_and_reference() {
    let full = "tests/vectors/config/full.yaml";
    let shown = ebb(&["config", full], &[("EBB_LOG__LEVEL", "trace")]);
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
    assert_eq!(text(&shown.stdout), parse_with(FULL, &[("EBB_LOG__LEVEL", "trace")]).unwrap().effective());
    let reference = ebb(&["config", "--reference"], &[]);
    assert_eq!(text(&reference.stdout), Config::reference());
    let from_variable = ebb(&["check"], &[("EBB_CONFIG", full)]);
    assert_eq!(from_variable.status.code(), Some(0));
    assert!(text(&from_variable.stdout).starts_with("tests/vectors/config/full.yaml: ok\n  kafka a.example:9092,b.ex"));
    let without_file = ebb(&["config"], &[("EBB_STREAMS__A__EVENT__ITEM", "ip")]);
    assert_eq!(text(&without_file.stdout), parse("streams: {a: {event: {item: ip}}}").unwrap().effective());
}

#[test]
fn wrong_usage_and_invalid_files_exit_with_status_2() {
    let directory = tempfile::tempdir().unwrap();
    let latin = directory.path().join("latin.yaml");
    std::fs::write(&latin, b"data_dir: caf\xe9\n").unwrap();
    for (arguments, variables, expected) in [
        (&["check", "/no/such.yaml"][..], &[][..], "/no/such.yaml: No such file or directory"),
        (&["check", latin.to_str().unwrap()], &[], "is not UTF-8 from byte 13; save it as UTF-8"),
        (&["check", directory.path().to_str().unwrap()], &[], "Is a directory"),
        (
            &["check"],
            &[],
            "the environment: 1 error\n  streams: is required; set a map from names to sections, such as {cl",
        ),
        (&["serve"], &[("EBB_WORKERS", "0")], "workers (from EBB_WORKERS): 0 is out of range"),
        (&["config", "--reference", "x"], &[], "cannot be used with"),
        (&["demo", "--rate", "0"], &[], "0 is not in 1..=1000000"),
        (&["chekc"], &[], "similar subcommand exists: 'check'"),
        (&[], &[], "Usage: ebb <COMMAND>"),
    ] {
        let left = ebb(arguments, variables);
        assert_eq!(left.status.code(), Some(2), "{arguments:?}");
        assert!(text(&left.stderr).contains(expected), "{arguments:?}: {}", text(&left.stderr));
    }
    let version = ebb(&["--version"], &[]);
    assert_eq!(text(&version.stdout), format!("ebb {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn check_command_reports_what_only_the_filters_reject() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ebb.yaml");
    for (dedup, expected) in [
        ("{error: 0.01, rate: 10, bits: 4}", "streams.s.dedup.bits (line 4): is determined by error"),
        ("{error: 0.000001, rate: 1000}", "streams.s: dedup: an error of 0.000001 is out of reach"),
        ("{isolate: 4, filter: classic}", "streams.s.dedup.isolate (line 4): does not apply to filter classic"),
        ("{isolate: 4, window: 100 events}", "streams.s.dedup.isolate (line 4): requires a time window"),
        ("{isolate: 4096, memory: 1KiB}", "streams.s: dedup: isolate: the memory is too small"),
        ("{filter: stable, memory: 1KiB, error: 0.0000001}", "streams.s"),
    ] {
        let yaml = format!("streams:\n  s:\n    event: {{item: ip, key: k}}\n    dedup: {dedup}\n");
        std::fs::write(&file, yaml).unwrap();
        let checked = ebb(&["check", file.to_str().unwrap()], &[]);
        let shown = text(&checked.stderr);
        assert_eq!(checked.status.code(), Some(2), "{dedup}: {shown}");
        assert!(shown.contains(expected), "{dedup}: {shown}");
    }
}
