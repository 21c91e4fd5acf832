use super::*;
use crate::event_spec::TimeUnit;

fn path(text: &str) -> Path {
    text.parse().unwrap()
}

fn spec() -> EventSpec {
    EventSpec {
        key: Some(path("campaign")),
        time: Some((path("ts"), TimeUnit::Milliseconds)),
        value: Some(path("cost")),
        ..EventSpec::of_item(vec![path("user.id"), path("ad")])
    }
}

fn reader() -> Reader {
    Reader::new(spec(), HashKey::new([1; 16])).unwrap()
}

fn item_reader() -> Reader {
    Reader::new(EventSpec::of_item(vec![path("id")]), HashKey::new([1; 16])).unwrap()
}

fn click(user: &str, ad: &str) -> String {
    format!(
        r#"{{"user":{{"id":{user},"agent":"x"}},"ad":{ad},"campaign":"c1","ts":1700000000123,"cost":0.25,"extra":[1,{{"a":null}}]}}"#
    )
}

#[test]
fn nested_paths_are_read() {
    let event = reader().read(click(r#""u1""#, "7").as_bytes()).unwrap();
    assert_eq!((event.time_ms, event.value, event.weight), (Some(1_700_000_000_123), Some(0.25), None));
    assert_eq!(event.key, Some(reader().key_fingerprint("c1")));
    assert_eq!(event.id, None);
}

#[test]
fn item_depends_only_on_its_fields_and_the_key() {
    let item = |json: &str| reader().read(json.as_bytes()).unwrap().item;
    let base = click(r#""u1""#, "7");
    assert_eq!(item(&base), item(&base.replace("0.25", "9").replace("1700000000123", "1").replace("agent", "browser")));
    assert_ne!(item(&base), item(&click(r#""u2""#, "7")));
    assert_ne!(item(&base), item(&click(r#""u1""#, "8")));
    assert_ne!(item(&base), item(&base.replace("c1", "c2")));
}

#[test]
fn numbers_strings_and_spellings_are_different_items() {
    let item = |id: &str| item_reader().read(format!(r#"{{"id":{id}}}"#).as_bytes()).unwrap().item;
    let forms = [
        "1",
        "1.0",
        r#""1""#,
        "true",
        r#""true""#,
        "-0",
        "0",
        "9007199254740993",
        "9007199254740992",
        r#""A""#,
        r#""a""#,
    ];
    for (index, one) in forms.iter().enumerate() {
        for other in &forms[index + 1..] {
            assert_ne!(item(one), item(other), "{one} and {other}");
        }
    }
    assert_eq!(item(r#""a\u0041\n""#), item("\"aA\\n\""), "escapes do not change the text");
}

#[test]
fn concatenation_of_adjacent_fields_does_not_collide() {
    let two = Reader::new(EventSpec::of_item(vec![path("a"), path("b")]), HashKey::new([1; 16])).unwrap();
    let item = |json: &str| two.read(json.as_bytes()).unwrap().item;
    assert_ne!(item(r#"{"a":"xy","b":"z"}"#), item(r#"{"a":"x","b":"yz"}"#));
}

#[test]
fn each_kind_of_malformed_payload_has_its_reason() {
    let deep = |levels: usize| format!(r#"{{"id":"a","x":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
    let too_deep = [65, 129, 400_000].map(deep);
    let wide = format!(r#"{{"id":"a",{}}}"#, (0..1024).map(|i| format!(r#""k{i}":1"#)).collect::<Vec<_>>().join(","));
    let long_name = format!(r#"{{"id":"a","{}":1}}"#, "k".repeat(1025));
    let large = format!(r#"{{"id":"{}"}}"#, "a".repeat(1 << 20));
    let deep_item = format!(r#"{{"id":{}{}}}"#, "[".repeat(500_000), "]".repeat(500_000));
    let cases: &[(&[u8], Reason)] = &[
        (b"", Reason::Empty),
        (b"\xFF\xFE", Reason::Encoding),
        (b"{\"id\":\"\xC3\x28\"}", Reason::Encoding),
        (b"\xEF\xBB\xBF{\"id\":1}", Reason::Encoding),
        (b"{\"id\":\"a\0\"}", Reason::Encoding),
        (br#"{"id":"a\u0000"}"#, Reason::Encoding),
        (br#"{"id":"\ud800"}"#, Reason::Encoding),
        (br#"{"id":"a""#, Reason::Parse),
        (br#"{"id":"a"} x"#, Reason::Parse),
        (br#"{"id":"a"}{"id":"b"}"#, Reason::Parse),
        (br#"{"id":NaN}"#, Reason::Parse),
        (br#"{"id":1e999}"#, Reason::Parse),
        (br#"{"id":"a","x":1e999}"#, Reason::Parse),
        (br#"{"id":01}"#, Reason::Parse),
        (br#"{'id':1}"#, Reason::Parse),
        (br#"{"id":1,}"#, Reason::Parse),
        (b"{\"id\":\"a\nb\"}", Reason::Parse),
        (too_deep[0].as_bytes(), Reason::Limits),
        (too_deep[1].as_bytes(), Reason::Limits),
        (too_deep[2].as_bytes(), Reason::Limits),
        (deep_item.as_bytes(), Reason::Limits),
        (wide.as_bytes(), Reason::Limits),
        (long_name.as_bytes(), Reason::Limits),
        (large.as_bytes(), Reason::Limits),
        (br#"{"id":"a","id":"b"}"#, Reason::DuplicateKey),
        (br#"{"id":"a","\u0069d":"b"}"#, Reason::DuplicateKey),
        (br#"{"id":"a","x":{"y":1,"y":2}}"#, Reason::DuplicateKey),
        (br#"{"other":"a"}"#, Reason::Schema),
        (br#"{"id":null}"#, Reason::Schema),
        (br#"{"id":{"a":1}}"#, Reason::Schema),
        (br#"{"id":[1]}"#, Reason::Schema),
        (br#"["id"]"#, Reason::Schema),
        (br#""id""#, Reason::Schema),
        (b"12", Reason::Schema),
        (b"null", Reason::Schema),
    ];
    for (payload, reason) in cases {
        let shown = String::from_utf8_lossy(&payload[..payload.len().min(60)]);
        assert_eq!(item_reader().read(payload).unwrap_err(), *reason, "{shown}");
    }
}

#[test]
fn payloads_at_the_limits_are_accepted() {
    let deep = format!(r#"{{"id":"a","x":{}{}}}"#, "[".repeat(63), "]".repeat(63));
    let wide = format!(r#"{{"id":"a",{}}}"#, (0..1023).map(|i| format!(r#""k{i}":1"#)).collect::<Vec<_>>().join(","));
    for payload in [deep, wide, format!(r#"{{"id":"a","{}":1}}"#, "k".repeat(1024))] {
        assert!(item_reader().read(payload.as_bytes()).is_ok());
    }
}

#[test]
fn repeated_key_in_a_large_object_is_rejected() {
    let mut names: Vec<String> = (0..40).map(|i| format!(r#""k{i}":1"#)).collect();
    names.push(r#""k7":2"#.into());
    let payload = format!(r#"{{"id":"a",{}}}"#, names.join(","));
    assert_eq!(item_reader().read(payload.as_bytes()).unwrap_err(), Reason::DuplicateKey);
}

#[test]
fn same_key_in_different_objects_is_accepted() {
    assert!(item_reader().read(br#"{"id":"a","x":{"id":1},"y":[{"id":1},{"id":2}]}"#).is_ok());
}

#[test]
fn missing_or_mistyped_configured_field_is_rejected_as_schema() {
    let good = click(r#""u1""#, "7");
    for (from, to) in [
        (r#""ts":1700000000123,"#, ""),
        (r#""cost":0.25,"#, ""),
        (r#""campaign":"c1","#, ""),
        ("0.25", r#""0.25""#),
        ("1700000000123", r#""yesterday""#),
        (r#"{"id":"u1","agent":"x"}"#, r#""u1""#),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good);
        assert_eq!(reader().read(bad.as_bytes()).unwrap_err(), Reason::Schema, "{bad}");
    }
}

#[test]
fn subject_requires_only_item_and_key() {
    let subject = reader().read_subject(br#"{"user":{"id":"u1"},"ad":7,"campaign":"c1"}"#).unwrap();
    assert_eq!(subject.item, reader().read(click(r#""u1""#, "7").as_bytes()).unwrap().item);
    assert_eq!(subject.time_ms, None);
    assert_eq!(reader().read_subject(br#"{"user":{"id":"u1"},"ad":7}"#).unwrap_err(), Reason::Schema);
}

#[test]
fn times_in_every_unit_saturate_instead_of_overflowing() {
    let time = |unit, text: &str| {
        let spec = EventSpec { time: Some((path("t"), unit)), ..EventSpec::of_item(vec![path("id")]) };
        let reader = Reader::new(spec, HashKey::new([1; 16])).unwrap();
        reader.read(format!(r#"{{"id":1,"t":{text}}}"#).as_bytes()).map(|event| event.time_ms.unwrap())
    };
    assert_eq!(time(TimeUnit::Seconds, "1700000000"), Ok(1_700_000_000_000));
    assert_eq!(time(TimeUnit::Seconds, "1700000000.5"), Ok(1_700_000_000_500));
    assert_eq!(time(TimeUnit::Seconds, "1.001"), Ok(1_001), "the nearest double is below 1.001");
    assert_eq!(time(TimeUnit::Milliseconds, "-1"), Ok(-1));
    assert_eq!(time(TimeUnit::Microseconds, "-1"), Ok(-1));
    assert_eq!(time(TimeUnit::Nanoseconds, "1700000000123456789"), Ok(1_700_000_000_123));
    assert_eq!(time(TimeUnit::Rfc3339, r#""2023-11-14T22:13:20.123Z""#), Ok(1_700_000_000_123));
    assert_eq!(time(TimeUnit::Rfc3339, r#""2023-11-15T00:13:20+02:00""#), Ok(1_700_000_000_000));
    assert_eq!(time(TimeUnit::Rfc3339, "1700000000"), Err(Reason::Schema));
    assert_eq!(time(TimeUnit::Seconds, "9223372036854775807"), Ok(i64::MAX));
    assert_eq!(time(TimeUnit::Seconds, "-9223372036854775808"), Ok(i64::MIN));
    assert_eq!(time(TimeUnit::Milliseconds, "1e300"), Ok(i64::MAX));
}

#[test]
fn path_inside_another_path_is_refused() {
    let both = EventSpec::of_item(vec![path("user"), path("user.id")]);
    assert!(matches!(Reader::new(both, HashKey::new([1; 16])), Err(EventSpecError::Nested(..))));
    let both = EventSpec::of_item(vec![path("user.id"), path("user")]);
    assert!(matches!(Reader::new(both, HashKey::new([1; 16])), Err(EventSpecError::Nested(..))));
    assert_eq!(Reader::new(EventSpec::of_item(vec![]), HashKey::new([1; 16])).unwrap_err(), EventSpecError::NoItem);
}

#[test]
fn path_display_round_trips_and_invalid_paths_are_refused() {
    for text in ["a", "user.id", r"a\.b.c", r"back\\slash"] {
        assert_eq!(path(text).to_string(), text);
    }
    assert_eq!(path(r"a\.b").segments(), ["a.b"]);
    for text in ["", ".", "a.", ".a", "a..b", r"a\b", r"a\", "a.b.c.d.e.f.g.h.i"] {
        assert!(text.parse::<Path>().is_err(), "{text}");
    }
}
