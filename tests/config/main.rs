//! The configuration from outside: what people write, what they are told, what comes back.

mod identities;

use std::fmt::Write as _;
use std::process::{Command, Output};

use ebb::config::Config;
use ebb::config::dedup::{Sizing, Window};
use ebb::kafka::properties;
use ebb_sketch::units::{Bytes, DurationMs};
use proptest::prelude::*;

const TWO_LINES: &str = "streams:\n  clicks: {event: {item: [ip, ad]}}\n";
const FULL: &str = include_str!("../vectors/config/full.yaml");

fn parse_with(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    Config::parse(text, variables, properties::check).map_err(|mistakes| mistakes.to_string())
}

fn parse(text: &str) -> Result<Config, String> {
    parse_with(text, &[])
}

/// The only mistake in a text.
fn mistake(text: &str) -> String {
    let told = parse(text).expect_err(text);
    let (count, mistake) = told.split_once('\n').expect("a count and the mistakes");
    assert_eq!(count, "1 mistake", "{told}");
    mistake.trim().to_string()
}

/// The only mistake in a stream with these keys beside its item.
fn stream_mistake(keys: &str) -> String {
    mistake(&format!("streams:\n  s:\n    event: {{item: ip}}\n    {keys}\n"))
}

fn ebb(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    command.args(arguments).env_clear().envs(variables.iter().copied());
    command.output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the binary writes UTF-8")
}

#[test]
fn two_lines_are_enough_and_everything_else_has_a_default() {
    let config = parse(TWO_LINES).unwrap();
    let clicks = &config.streams["clicks"];
    assert_eq!(clicks.topic, "clicks");
    assert_eq!(clicks.dedup.window, Window::Time(DurationMs(86_400_000)));
    assert_eq!(clicks.dedup.sizing(), Sizing::Memory(Bytes(64 << 20)));
    assert_eq!(config.http.max_body, Bytes(8 << 20));
    assert_eq!(config.hash_key_file, config.data_dir.join("hash.key"));
    assert!(config.kafka.is_none());
    assert!((1..=256).contains(&config.workers));
    let one_field = parse("streams: {clicks: {event: {item: ip}}}").unwrap();
    assert_eq!(one_field.streams["clicks"].event.item[0].segments(), ["ip"]);
}

#[test]
fn topics_may_be_named_after_their_stream() {
    let output = "output: {unique: <stream>.unique, late: late-<stream>}";
    let config =
        parse(&format!("kafka: {{brokers: 'k:9092'}}\nstreams: {{clicks: {{event: {{item: ip}}, {output}}}}}"))
            .unwrap();
    let topics: Vec<_> = config.streams["clicks"].output.as_ref().unwrap().topics().collect();
    assert_eq!(topics, [("unique", "clicks.unique"), ("late", "late-clicks")]);
}

#[test]
fn every_mistake_is_told_at_once_with_its_path_and_what_would_be_right() {
    let told = ebb(&["check", "tests/vectors/config/mistakes.yaml"], &[]);
    assert_eq!(told.status.code(), Some(2));
    assert_eq!(text(&told.stdout), "");
    assert_eq!(text(&told.stderr), include_str!("../vectors/config/mistakes.txt"));
    assert!(text(&told.stderr).lines().count() > 40);
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_known_one() {
    for (text, told) in [
        ("strems: {}", "strems (line 1): there is no such key; did you mean streams?"),
        ("htttp: {}", "htttp (line 1): there is no such key; did you mean http?"),
        ("log: {levle: info}", "log.levle (line 1): there is no such key; did you mean level?"),
        ("http: {max-body: 1MiB}", "http.max-body (line 1): there is no such key; did you mean max_body?"),
        ("checkpoint:\n  evry: 1s", "checkpoint.evry (line 2): there is no such key; did you mean every?"),
        ("limits: {xyzzy: 1}", "limits.xyzzy (line 1): there is no such key; there are record, depth, fields, key"),
        ("\"a\\eb\\n\": 1", "a\\u{1b}b\\n (line 1): there is no such key; there are data_dir, workers"),
    ] {
        let told_now = mistake(&format!("{text}\n{TWO_LINES}"));
        assert!(told_now.contains(told), "{told_now}");
    }
}

#[test]
fn rules_between_keys_are_told_at_the_key_to_change() {
    for (keys, told) in [
        ("dedup: {memory: 1MiB, error: 0.1}", "streams.s.dedup.error (line 4): stands beside memory"),
        ("dedup: {error: 0.1}", "streams.s.dedup.error (line 4): needs to know how much is expected; add rate:"),
        ("dedup: {window: 9 events, lateness: 1s}", "streams.s.dedup.lateness (line 4): has no meaning in a window of"),
        ("dedup: {window: 1m, lateness: 1h}", "lateness (line 4): 1h is longer than the window; write at most 1m"),
        ("dedup: {bits: 3, blocks: 6}", "blocks (line 4): is more than its bits can tell apart; write at most 5"),
        ("dedup: {filter: stable, blocks: 6}", "blocks (line 4): has no meaning for filter stable; remove it"),
        ("dedup: {decrements: 6}", "decrements (line 4): has no meaning for filter timing; remove it"),
        ("dedup: {filter: classic, bits: 3}", "bits (line 4): has no meaning for filter classic; remove it"),
        (
            "dedup: {filter: stable, penalty: {false_duplicate: 1, missed_duplicate: 1}}",
            "dedup.penalty (line 4): needs a likelihood, and filter stable has none",
        ),
        ("dedup: {filter: importance-h}", "dedup.filter (line 4): importance-h needs an importance; add event:"),
        ("dedup: {prior: auto-frequency}", "dedup.prior (line 4): auto-frequency needs the frequency view; add"),
        ("dedup: {isolate: 2}", "dedup.isolate (line 4): needs keys; add event: {key: PATH}"),
        ("frequency: {epoch: 1m}", "frequency.epoch (line 4): has no meaning for method forward"),
        ("frequency: {method: basic, epoch: 2h}", "epoch (line 4): 2h is longer than the half-life; write at most 1h"),
        ("aggregates: {a: {of: value}}", "aggregates.a.of (line 4): the event has no value; add event: {value: PATH}"),
        ("aggregates: {a: {keys: 9}}", "aggregates.a.keys (line 4): the event has no key; add event: {key: PATH}"),
        ("aggregates: {a: {method: forward}}", "aggregates.a.decay (line 4): is missing, and forward needs it here"),
        ("aggregates: {a: {method: forward, decay: 'window:1h'}}", "decay (line 4): is not exponential, as forward"),
        ("aggregates: {a: {method: division, decay: 'window:1h'}}", "decay (line 4): is not smooth"),
        ("aggregates: {a: {horizon: 1m, decay: 'window:1h'}}", "1h is longer than the horizon; write horizon: 1h or"),
        ("aggregates: {a: {step: 2, max: 1}}", "aggregates.a.step (line 4): is larger than max; write at most 1"),
        ("output: {unique: x}", "streams.s.output (line 4): needs Kafka, and there is no kafka section; add kafka:"),
    ] {
        let told_now = stream_mistake(keys);
        assert!(told_now.contains(told), "{keys}: {told_now}");
    }
}

#[test]
fn rules_of_keyed_streams_and_of_kafka_are_told_too() {
    let keyed = "streams:\n  s:\n    event: {item: ip, key: k}\n    dedup: {window: 1h, rules: [RULES]}\n";
    for (rules, told) in [
        ("{keys: [], window: 1m}", "rules.0.keys (line 4): is an empty list"),
        ("{keys: [a]}", "rules.0 (line 4): changes nothing; give it a window or a penalty"),
        ("{keys: [a], window: 2h}", "rules.0.window (line 4): is not within the view's window; write the same kind of"),
        ("{keys: [a], window: 5 events}", "rules.0.window (line 4): is not within the view's window"),
        ("{keys: [a], window: 1m}, {keys: [b, a], window: 2m}", "rules.1.keys (line 4): \"a\" has a rule already"),
    ] {
        let told_now = mistake(&keyed.replace("RULES", rules));
        assert!(told_now.contains(told), "{rules}: {told_now}");
    }
    let kafka = "kafka: {brokers: 'k:9092'}\nstreams:\n  a: {event: {item: ip}}\n  b: {STREAM, event: {item: ip}}\n";
    for (keys, told) in [
        ("topic: a", "streams.b.topic (line 4): a is read by stream a already; write another"),
        ("partitions: 2", "streams.b.partitions (line 4): belongs to the embedded service"),
        ("output: {late: b}", "streams.b.output.late (line 4): b is the topic that the stream reads; write another"),
        ("output: {late: <stream>}", "streams.b.output.late (line 4): b is the topic that the stream reads; write"),
        ("output: {}", "streams.b.output (line 4): names no topic; set unique, duplicate, late or rejected"),
    ] {
        let told_now = mistake(&kafka.replace("STREAM", keys));
        assert!(told_now.contains(told), "{keys}: {told_now}");
    }
    let told = mistake(&format!("{TWO_LINES}http: {{max_body: 1KiB}}"));
    assert_eq!(told, "http.max_body (line 3): is smaller than a record may be; write at least 1MiB");
}

#[test]
fn a_rule_is_silent_about_keys_that_were_told_already() {
    let told = stream_mistake("dedup: {window: 24x, lateness: 48h}");
    assert!(told.starts_with("streams.s.dedup.window (line 4): \"24x\" is not a window"), "{told}");
    let told = stream_mistake("aggregates: {a: {method: forwrd, step: 1, decay: 'window:1h'}}");
    assert!(told.contains("did you mean forward?"), "{told}");
}

#[test]
fn variables_lie_over_the_file() {
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
fn variables_that_name_no_key_or_hold_nonsense_are_told() {
    for (variable, value, told) in [
        ("EBB_HTP__LISTEN", "x", "EBB_HTP__LISTEN: there is no key HTP; did you mean HTTP?"),
        ("EBB_HTTP__LISTENN", "x", "EBB_HTTP__LISTENN: there is no key LISTENN; did you mean LISTEN?"),
        ("EBB_XYZZY__A", "x", "EBB_XYZZY__A: there is no key XYZZY; there are DATA_DIR, WORKERS"),
        ("EBB_HTTP__LISTEN__PORT", "1", "EBB_HTTP__LISTEN__PORT: there is nothing below PORT; set the key above"),
        ("EBB_WORKERS", "x", "workers (from EBB_WORKERS): \"x\" is not a whole number; write a whole number from 1"),
        ("EBB_HTTP", "x", "http (from EBB_HTTP): is not a section; write {} for all defaults, or keys such as listen"),
        ("EBB_HTTP__LISTEN", "", "http.listen (from EBB_HTTP__LISTEN): is empty; write an IP address"),
        ("EBB_HTTP__LISTEN", "[", "EBB_HTTP__LISTEN: its value is not YAML that can be read"),
        ("EBB_STREAMS__CLICKS__DEDUP__WINDW", "1h", "there is no key WINDW; did you mean WINDOW?"),
        ("EBB_STREAMS__A B__EVENT__ITEM", "x", "streams.a b (from EBB_STREAMS__A B__EVENT__ITEM): is not a name"),
        ("EBB_KAFKA__PROPERTIES__SECURTY_PROTOCOL", "SSL", "No such configuration property: \"securty.protocol\""),
    ] {
        let told_now = parse_with(TWO_LINES, &[(variable, value)]).unwrap_err();
        assert!(told_now.contains(told), "{variable}: {told_now}");
    }
}

#[test]
fn what_is_in_force_reads_back_as_the_same_configuration() {
    for text in [TWO_LINES, FULL] {
        let config = parse(text).unwrap();
        let shown = config.effective();
        assert_eq!(parse(&shown).as_ref(), Ok(&config), "{shown}");
        assert_eq!(parse(&shown).unwrap().effective(), shown);
    }
}

/// Settings that are right alone; together they may break a rule.
const SETTINGS: [(&str, &str); 40] = [
    ("EBB_DATA_DIR", "'/a b/ü: #x'"),
    ("EBB_WORKERS", "256"),
    ("EBB_HASH_KEY_FILE", "<data_dir>/other/key"),
    ("EBB_LOG__LEVEL", "off"),
    ("EBB_HTTP__ADMIN_LISTEN", "'[::1]:0'"),
    ("EBB_HTTP__MAX_BODY", "1.5GB"),
    ("EBB_HTTP__MAX_BODY", "1GiB"),
    ("EBB_HTTP__DRAIN", "0s"),
    ("EBB_JOURNAL__GROUP", "999ms"),
    ("EBB_LIMITS__KEY", "1023B"),
    ("EBB_KAFKA__BROKERS", "'[::1]:9092, b:1'"),
    ("EBB_KAFKA__GROUP", "'null'"),
    ("EBB_KAFKA__PROPERTIES__CLIENT_ID", "'~'"),
    ("EBB_KAFKA__PROPERTIES__FETCH_MAX_BYTES", "1000"),
    ("EBB_STREAMS__CLICKS__TOPIC", "a.b"),
    ("EBB_STREAMS__CLICKS__TOPIC", "<stream>"),
    ("EBB_STREAMS__CLICKS__EVENT__ITEM", "['a\\.b.c', \"\\\\\\\\\", '\"', 'x: y', 'ü', '1.10']"),
    ("EBB_STREAMS__CLICKS__EVENT__KEY", "'k'"),
    ("EBB_STREAMS__CLICKS__EVENT__TIME", "ts"),
    ("EBB_STREAMS__CLICKS__EVENT__TIME", "{path: a.b, unit: ns}"),
    ("EBB_STREAMS__CLICKS__EVENT__VALUE", "no"),
    ("EBB_STREAMS__CLICKS__EVENT__IMPORTANCE", "0x10"),
    ("EBB_STREAMS__CLICKS__DEDUP__WINDOW", "1w"),
    ("EBB_STREAMS__CLICKS__DEDUP__WINDOW", "1099511627776 events"),
    ("EBB_STREAMS__CLICKS__DEDUP__MEMORY", "1MB"),
    ("EBB_STREAMS__CLICKS__DEDUP__ERROR", "1e-15"),
    ("EBB_STREAMS__CLICKS__DEDUP__RATE", "0.1"),
    ("EBB_STREAMS__CLICKS__DEDUP__ITEMS", "7"),
    ("EBB_STREAMS__CLICKS__DEDUP__LATENESS", "1ms"),
    ("EBB_STREAMS__CLICKS__DEDUP__FILTER", "importance-2c"),
    ("EBB_STREAMS__CLICKS__DEDUP__PENALTY", "{false_duplicate: 1e300, missed_duplicate: a.b}"),
    ("EBB_STREAMS__CLICKS__DEDUP__PRIOR", "1e-300"),
    ("EBB_STREAMS__CLICKS__DEDUP__ISOLATE", "4096"),
    ("EBB_STREAMS__CLICKS__DEDUP__RULES", "[{keys: 'a, b', window: 1s}]"),
    ("EBB_STREAMS__CLICKS__FREQUENCY", "{}"),
    ("EBB_STREAMS__CLICKS__FREQUENCY__METHOD", "basic"),
    ("EBB_STREAMS__CLICKS__AGGREGATES__A__DECAY", "'exponential:half_life=7m'"),
    ("EBB_STREAMS__CLICKS__AGGREGATES__A__METHOD", "division"),
    ("EBB_STREAMS__CLICKS__AGGREGATES__B-C__STEP", "0.1"),
    ("EBB_STREAMS__CLICKS__OUTPUT__UNIQUE", "u"),
];

proptest! {
    #[test]
    fn any_valid_mix_of_settings_reads_back(picked in proptest::collection::vec(0..SETTINGS.len(), 0..8)) {
        let variables: Vec<(&str, &str)> = picked.iter().map(|index| SETTINGS[*index]).collect();
        if let Ok(config) = parse_with(TWO_LINES, &variables) {
            let shown = config.effective();
            prop_assert_eq!(parse(&shown), Ok(config), "{}", shown);
        }
    }

    #[test]
    fn damaged_files_are_told_or_read_but_never_crash(at in 0..FULL.len(), with in any::<char>(), cut in 0..40usize) {
        let at = (0..=at).rev().find(|at| FULL.is_char_boundary(*at)).unwrap_or(0);
        let rest: String = FULL[at..].chars().skip(cut).collect();
        let damaged = format!("{}{with}{rest}", &FULL[..at]);
        match parse(&damaged) {
            Ok(config) => prop_assert_eq!(parse(&config.effective()), Ok(config)),
            Err(told) => prop_assert!(told.chars().all(|c| c == '\n' || !c.is_control()), "{:?}", told),
        }
    }
}

#[test]
fn most_settings_are_right_on_their_own() {
    let right = SETTINGS.iter().filter(|setting| parse_with(TWO_LINES, &[**setting]).is_ok()).count();
    assert!(right >= 28, "only {right} of {}", SETTINGS.len());
}

/// The keys of indented YAML with their depth, without values; commented-out keys count when `#` stands right before.
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
fn the_reference_is_a_configuration_with_every_default() {
    let named = TWO_LINES.replace("clicks", "name");
    assert_eq!(parse(&Config::reference()), parse(&named));
}

#[test]
fn the_reference_has_every_key_that_can_be_in_force_and_says_its_form() {
    let reference = Config::reference();
    let known = keys_of(&reference);
    let full = FULL.replace("  clicks:", "  name:").replace("spend:", "name:");
    let in_force = keys_of(&parse(&full).unwrap().effective());
    let others = ["by_country", "long-tail", "recent", "curve", "paper"].map(|name| format!("aggregates.{name}"));
    let inner = ["streams.views", "kafka.properties.", "event.time."].map(str::to_owned);
    let skipped = |key: &&String| others.iter().chain(&inner).any(|other| key.contains(other));
    let missing: Vec<&String> = in_force.iter().filter(|key| !skipped(key) && !known.contains(key)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(known.len() > 85, "{}", known.len());
    let forms = reference.matches("# Form: ").count();
    let values = known.iter().filter(|key| !known.iter().any(|other| other.starts_with(&format!("{key}.")))).count();
    assert!(forms >= values, "{forms} forms for {values} values");
}

#[test]
fn the_examples_of_the_reference_are_right_but_for_the_rules_that_they_break_together() {
    let all: Vec<String> = Config::reference()
        .lines()
        .map(|line| match line.split_once('#') {
            Some((indent, key)) if indent.trim().is_empty() && !key.starts_with(' ') => format!("{indent}{key}"),
            _ => line.to_string(),
        })
        .collect();
    let told = parse(&all.join("\n")).unwrap_err();
    let broken: Vec<&str> = told.lines().skip(1).map(|line| line.trim().split(" (").next().unwrap_or(line)).collect();
    let expected = ["streams.name.dedup.error", "streams.name.dedup.decrements", "streams.name.frequency.epoch"];
    assert_eq!(broken, expected, "{told}");
}

#[test]
fn secrets_are_masked_wherever_they_could_show() {
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
    let told = parse(&config.effective()).unwrap_err();
    assert!(told.contains("sasl.password (line 31): is the mask that stands for a secret; write the secret"), "{told}");
    let only_files = yaml.replace("    sasl.password: hunter2\n", "");
    let config = parse(&only_files).unwrap();
    assert_eq!(parse(&config.effective()), Ok(config));
}

#[test]
fn properties_are_asked_of_librdkafka_and_those_that_ebb_owns_are_refused() {
    for (property, told) in [
        ("group.id: x", "kafka.properties.group.id (line 5): belongs to Ebb; write kafka.group"),
        (
            "enable.auto.commit: true",
            "belongs to Ebb: offsets are committed with the outputs; write kafka.commit_every",
        ),
        (
            "auto.offset.reset: latest",
            "belongs to Ebb: a reset would skip or repeat events in silence; write kafka.start",
        ),
        ("sasl.mechansim: PLAIN", "librdkafka refuses it: No such configuration property: \"sasl.mechansim\""),
        ("security.protocol: tls", "librdkafka refuses it: Invalid value \"tls\" for configuration property"),
        ("sasl.password: [a]", "a list where a value belongs; write a value, or {file: PATH}"),
        ("sasl.password: {file: /no/such, x: 1}", "kafka.properties.sasl.password.x (line 5): there is no such key"),
    ] {
        let yaml = format!("{TWO_LINES}kafka:\n  brokers: k:9092\n  properties: {{{property}}}\n");
        let told_now = parse(&yaml).unwrap_err();
        assert!(told_now.contains(told), "{property}: {told_now}");
    }
}

#[test]
fn hostile_yaml_ends_in_a_clean_message() {
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
        let told = parse(&yaml).expect_err(what);
        assert!(told.lines().all(|line| line.len() < 5_000) && told.len() < 50_000, "{what}: {} bytes", told.len());
        assert!(told.chars().all(|c| c == '\n' || !c.is_control()), "{what}: {told}");
        assert!(told.contains("mistake"), "{what}: {told}");
    }
}

#[test]
fn the_binary_shows_what_is_in_force_and_the_reference() {
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
fn the_binary_leaves_with_2_for_wrong_usage_and_wrong_files() {
    let directory = tempfile::tempdir().unwrap();
    let latin = directory.path().join("latin.yaml");
    std::fs::write(&latin, b"data_dir: caf\xe9\n").unwrap();
    for (arguments, variables, told) in [
        (&["check", "/no/such.yaml"][..], &[][..], "/no/such.yaml: No such file or directory"),
        (&["check", latin.to_str().unwrap()], &[], "is not UTF-8 from byte 13; save it as UTF-8"),
        (&["check", directory.path().to_str().unwrap()], &[], "Is a directory"),
        (
            &["check"],
            &[],
            "the environment: 1 mistake\n  streams: is missing; write a map from names to sections, such as {cl",
        ),
        (&["serve"], &[("EBB_WORKERS", "0")], "workers (from EBB_WORKERS): 0 is out of range"),
        (&["config", "--reference", "x"], &[], "cannot be used with"),
        (&["demo", "--rate", "0"], &[], "0 is not in 1..=1000000"),
        (&["chekc"], &[], "similar subcommand exists: 'check'"),
        (&[], &[], "Usage: ebb <COMMAND>"),
    ] {
        let left = ebb(arguments, variables);
        assert_eq!(left.status.code(), Some(2), "{arguments:?}");
        assert!(text(&left.stderr).contains(told), "{arguments:?}: {}", text(&left.stderr));
    }
    let version = ebb(&["--version"], &[]);
    assert_eq!(text(&version.stdout), format!("ebb {}\n", env!("CARGO_PKG_VERSION")));
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_text_is_told() {
    use std::os::unix::ffi::OsStrExt;
    let value = std::ffi::OsStr::from_bytes(b"caf\xe9");
    let told = Command::new(env!("CARGO_BIN_EXE_ebb")).args(["check"]).env("EBB_DATA_DIR", value).output().unwrap();
    assert_eq!(told.status.code(), Some(2));
    assert!(text(&told.stderr).contains("EBB_DATA_DIR: its value is not UTF-8"), "{}", text(&told.stderr));
}

#[test]
fn what_only_the_filters_can_refuse_is_told_by_check_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ebb.yaml");
    for (dedup, told) in [
        ("{error: 0.01, rate: 10, bits: 4}", "streams.s: dedup: error: chooses bits, cells and blocks"),
        ("{error: 0.000001, rate: 1000}", "streams.s: dedup: an error of 0.000001 is out of reach"),
        ("{isolate: 4, filter: classic}", "streams.s: dedup: isolate: needs ages"),
        ("{isolate: 4, window: 100 events}", "streams.s: dedup: isolate: needs a window of time"),
        ("{isolate: 4096, memory: 1KiB}", "streams.s: dedup: isolate: the memory does not suffice"),
        ("{filter: stable, memory: 1KiB, error: 0.0000001}", "streams.s"),
    ] {
        let yaml = format!("streams:\n  s:\n    event: {{item: ip, key: k}}\n    dedup: {dedup}\n");
        std::fs::write(&file, yaml).unwrap();
        let checked = ebb(&["check", file.to_str().unwrap()], &[]);
        let shown = text(&checked.stderr);
        assert_eq!(checked.status.code(), Some(2), "{dedup}: {shown}");
        assert!(shown.contains(told), "{dedup}: {shown}");
    }
}

#[test]
fn an_address_that_strangers_reach_needs_tokens_or_a_word_about_their_absence() {
    let http = |keys: &str| {
        let text = format!("http: {{{keys}}}\nstreams: {{s: {{event: {{item: a}}}}}}");
        Config::parse(&text, [], |_, _| Ok(())).map(|_| ()).map_err(|mistakes| mistakes.to_string())
    };
    for open in ["listen: '0.0.0.0:80'", "listen: '[::]:80'", "listen: '10.0.0.1:80'", "listen: '[::ffff:10.0.0.1]:80'"]
    {
        let told = http(open).unwrap_err();
        assert!(
            told.contains("http.listen") && told.contains("tokens_file") && told.contains("without_tokens"),
            "{told}"
        );
        let pair = "certificate: c, key: k";
        http(&format!("{open}, tls: {{{pair}}}")).unwrap_err();
        for closed in
            ["tokens_file: t".to_owned(), "without_tokens: anywhere".into(), format!("tls: {{{pair}, client_ca: a}}")]
        {
            assert_eq!(http(&format!("{open}, {closed}")), Ok(()), "{closed}");
        }
    }
    for near in ["listen: '127.0.0.1:80'", "listen: '127.9.9.9:80'", "listen: '[::1]:80'", "admin_listen: '0.0.0.0:81'"]
    {
        assert_eq!(http(near), Ok(()), "{near}");
    }
}

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

/// The YAML blocks of a document.
fn yaml_blocks(document: &str) -> Vec<&str> {
    document.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().expect("a block ends")).collect()
}

#[test]
fn every_example_of_the_document_on_kafka_security_is_accepted() {
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
        let config = parse(&whole).unwrap_or_else(|told| panic!("{told}\n{whole}"));
        let properties = config.kafka.expect("a kafka section").properties;
        assert!(properties.contains_key("security.protocol"), "{whole}");
    }
}

#[test]
fn what_the_containers_are_given_is_there_and_accepted() {
    let read = |name: &str| std::fs::read_to_string(format!("{REPOSITORY}/docker/{name}")).expect(name);
    let config = parse(&read("ebb.yaml")).unwrap_or_else(|told| panic!("{told}"));
    assert!(config.http.listen.ip().is_unspecified(), "nobody outside of the container would reach it");
    let compose = read("compose.yaml");
    let mounted: Vec<&str> =
        compose.lines().filter_map(|line| line.trim().strip_prefix("- .")?.split(':').next()).collect();
    assert_eq!(mounted.len(), 5, "{mounted:?}");
    for path in mounted {
        let path = format!("{REPOSITORY}/docker/.{path}");
        assert!(std::path::Path::new(&path).exists(), "compose.yaml mounts {path}, which is not there");
    }
}
