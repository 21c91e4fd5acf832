//! The effective configuration parses back to the same configuration.

use proptest::prelude::*;

use crate::{FULL, TWO_LINES, parse, parse_with};

#[test]
fn effective_configuration_parses_back_to_itself() {
    for text in [TWO_LINES, FULL] {
        let config = parse(text).unwrap();
        let shown = config.effective();
        assert_eq!(parse(&shown).as_ref(), Ok(&config), "{shown}");
        assert_eq!(parse(&shown).unwrap().effective(), shown);
    }
}

/// Settings that are valid on their own; combinations may conflict.
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
    fn any_valid_combination_of_settings_parses_back(picked in proptest::collection::vec(0..SETTINGS.len(), 0..8)) {
        let variables: Vec<(&str, &str)> = picked.iter().map(|index| SETTINGS[*index]).collect();
        if let Ok(config) = parse_with(TWO_LINES, &variables) {
            let shown = config.effective();
            prop_assert_eq!(parse(&shown), Ok(config), "{}", shown);
        }
    }

    #[test]
    fn damaged_file_is_parsed_or_reported_but_never_panics(at in 0..FULL.len(), with in any::<char>(), cut in 0..40usize) {
        let at = (0..=at).rev().find(|at| FULL.is_char_boundary(*at)).unwrap_or(0);
        let rest: String = FULL[at..].chars().skip(cut).collect();
        let damaged = format!("{}{with}{rest}", &FULL[..at]);
        match parse(&damaged) {
            Ok(config) => prop_assert_eq!(parse(&config.effective()), Ok(config)),
            Err(message) => prop_assert!(message.chars().all(|c| c == '\n' || !c.is_control()), "{:?}", message),
        }
    }
}

#[test]
fn most_settings_are_valid_on_their_own() {
    let valid = SETTINGS.iter().filter(|setting| parse_with(TWO_LINES, &[**setting]).is_ok()).count();
    assert!(valid >= 28, "only {valid} of {}", SETTINGS.len());
}
