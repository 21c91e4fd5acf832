//! `EBB_` variables override keys of the file.

use std::process::Command;

use crate::{TWO_LINES, parse, parse_with, text};

#[test]
fn variables_override_the_file() {
    let file = "http: {listen: '127.0.0.1:1'}\nstreams: {my-clicks: {event: {item: ip}, dedup: {seen: last}}}\n";
    let variables = [
        ("EBB_HTTP__LISTEN", "127.0.0.1:2"),
        ("EBB_DATA_DIR", "/srv/0123"),
        ("EBB_STREAMS__MY_CLICKS__DEDUP__WINDOW", "1h"),
        ("EBB_STREAMS__MY_CLICKS__EVENT__ITEM", "[ip, user.id]"),
        ("EBB_STREAMS__VIEWS__EVENT", "{item: page, time: {path: at, unit: s}}"),
        ("EBB_STREAMS__VIEWS__AGGREGATES__HITS__OF", "count"),
        ("EBB_KAFKA__BROKERS", "k:9092"),
        ("EBB_KAFKA__PROPERTIES__SECURITY_PROTOCOL", "SSL"),
        ("EBB_CASES", "not ours"),
        ("EBB_SERVICE_HOST", "set by Kubernetes"),
        ("HTTP__LISTEN", "not ours either"),
    ];
    let by_variables = parse_with(file, &variables).unwrap();
    let by_file = parse(
        "data_dir: /srv/0123\nhttp: {listen: '127.0.0.1:2'}\n\
         kafka: {brokers: 'k:9092', properties: {security.protocol: SSL}}\n\
         streams:\n  my-clicks: {event: {item: [ip, user.id]}, dedup: {seen: last, window: 1h}}\n  \
         views: {event: {item: page, time: {path: at, unit: s}}, aggregates: {hits: {of: count}}}\n",
    )
    .unwrap();
    assert_eq!(by_variables, by_file);
}

#[test]
fn variables_with_unknown_keys_or_invalid_values_are_errors() {
    for (variable, value, expected) in [
        ("EBB_HTP__LISTEN", "x", "EBB_HTP__LISTEN: unknown key HTP; did you mean HTTP?"),
        ("EBB_HTTP__LISTENN", "x", "EBB_HTTP__LISTENN: unknown key LISTENN; did you mean LISTEN?"),
        ("EBB_XYZZY__A", "x", "EBB_XYZZY__A: unknown key XYZZY; known keys are DATA_DIR, WORKERS"),
        ("EBB_HTTP__LISTEN__PORT", "1", "EBB_HTTP__LISTEN__PORT: there are no keys below PORT; set the key above"),
        ("EBB_WORKERS", "x", "workers (from EBB_WORKERS): \"x\" is not a whole number; expected a whole number from 1"),
        (
            "EBB_HTTP",
            "x",
            "http (from EBB_HTTP): is not a section; expected {} for all defaults, or keys such as listen",
        ),
        ("EBB_HTTP__LISTEN", "", "http.listen (from EBB_HTTP__LISTEN): has no value; set an IP address"),
        ("EBB_HTTP__LISTEN", "[", "EBB_HTTP__LISTEN: its value is not valid YAML"),
        ("EBB_STREAMS__CLICKS__DEDUP__WINDW", "1h", "unknown key WINDW; did you mean WINDOW?"),
        ("EBB_STREAMS__A B__EVENT__ITEM", "x", "streams.a b (from EBB_STREAMS__A B__EVENT__ITEM): is not a valid name"),
        ("EBB_KAFKA__PROPERTIES__SECURTY_PROTOCOL", "SSL", "No such configuration property: \"securty.protocol\""),
    ] {
        let message = parse_with(TWO_LINES, &[(variable, value)]).unwrap_err();
        assert!(message.contains(expected), "{variable}: {message}");
    }
}

#[cfg(unix)]
#[test]
fn variable_that_is_not_utf8_is_an_error() {
    use std::os::unix::ffi::OsStrExt;
    let value = std::ffi::OsStr::from_bytes(b"caf\xe9");
    let message = Command::new(env!("CARGO_BIN_EXE_ebb")).args(["check"]).env("EBB_DATA_DIR", value).output().unwrap();
    assert_eq!(message.status.code(), Some(2));
    assert!(text(&message.stderr).contains("EBB_DATA_DIR: its value is not UTF-8"), "{}", text(&message.stderr));
}
