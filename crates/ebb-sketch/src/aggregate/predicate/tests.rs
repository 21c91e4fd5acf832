use super::*;

fn predicate(text: &str) -> Predicate {
    text.parse().unwrap()
}

#[test]
fn and_binds_tighter_than_or() {
    let loose = predicate("value = 1 or value = 2 and weight > 5");
    assert!(loose.matches(1, 0) && loose.matches(2, 6) && !loose.matches(2, 5));
    let tight = predicate("(value = 1 or value = 2) and weight > 5");
    assert!(!tight.matches(1, 0) && tight.matches(1, 6) && tight.matches(2, 6));
}

#[test]
fn not_selects_the_complement_and_binds_tightest() {
    for text in ["value < 5", "value = 1 or weight > 2", "(value <= 3 or weight != 4) and value >= 2", "not weight = 2"]
    {
        let (plain, negated) = (predicate(text), predicate(&format!("not ({text})")));
        for (value, weight) in (0..8).flat_map(|value| (0..6).map(move |weight| (value, weight))) {
            assert_ne!(plain.matches(value, weight), negated.matches(value, weight), "{text}: {value} {weight}");
        }
        assert_eq!(predicate(&format!("not not ({text})")), plain);
    }
    let tight = predicate("not value = 1 and weight = 2");
    assert!(tight.matches(3, 2) && !tight.matches(1, 2) && !tight.matches(1, 3));
}

#[test]
fn comparisons_follow_their_sign() {
    for (sign, truth) in [
        ("<", [true, false, false]),
        ("<=", [true, true, false]),
        ("=", [false, true, false]),
        ("==", [false, true, false]),
        ("!=", [true, false, true]),
        ("<>", [true, false, true]),
        (">=", [false, true, true]),
        (">", [false, false, true]),
    ] {
        assert_eq!([4, 5, 6].map(|v| predicate(&format!("value{sign}5")).matches(v, 0)), truth, "{sign}");
        assert_eq!([4, 5, 6].map(|w| predicate(&format!("weight {sign} 5")).matches(0, w)), truth, "{sign}");
    }
}

#[test]
fn display_parses_back() {
    for text in ["value <= 7", "value = 1 or (value = 2 and weight > 5)", "(value < 1 or weight = 2) and value != 3"] {
        assert_eq!(predicate(text).to_string(), text);
        assert_eq!(predicate(&predicate(text).to_string()), predicate(text));
    }
}

#[test]
fn malformed_predicates_are_rejected_with_an_example() {
    for text in [
        "",
        "value",
        "value 5",
        "value > ",
        "value > -1",
        "value > 18446744073709551616",
        "price > 5",
        "values > 5",
        "value > 5 weight < 2",
        "value > 5 and",
        "(value > 5",
        "value > 5)",
        "not",
        "value not > 5",
        "nota value > 5",
    ] {
        let rejected = text.parse::<Predicate>().unwrap_err().to_string();
        assert!(rejected.contains("write value >= 100"), "{text}: {rejected}");
    }
}

#[test]
fn fractions_are_read_where_bounds_are_in_the_units_of_events() {
    let bound = |text: &str| match text.parse() {
        Ok(Predicate::Compare { bound, .. }) => Some(bound),
        Ok(Predicate::All(_) | Predicate::Any(_)) | Err(_) => None,
    };
    assert_eq!((bound("value > 0.25"), bound("value>=10"), bound("weight < .5")), (Some(0.25), Some(10.0), Some(0.5)));
    assert_eq!(
        (bound("value > 1.2.3"), bound("value > ."), bound("value > inf"), bound("value > 1e3")),
        (None, None, None, None)
    );
    assert!("value > 0.25".parse::<Predicate>().is_err(), "what a sketch keeps is whole");
    let shown: Predicate<f64> = "value > 0.25 and (weight = 2 or value < 7)".parse().unwrap();
    assert_eq!(shown.to_string(), "value > 0.25 and (weight = 2 or value < 7)");
}

#[test]
fn depth_and_length_are_bounded() {
    let nested = |depth: usize| format!("{}value = 1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(nested(MAX_DEPTH).parse::<Predicate>().is_ok());
    assert_eq!(nested(MAX_DEPTH + 1).parse::<Predicate>(), Err(PredicateError::TooDeep));
    let long = |terms: usize| vec!["value = 1"; terms].join(" or ");
    assert!(long(MAX_COMPARISONS).parse::<Predicate>().is_ok());
    assert_eq!(long(MAX_COMPARISONS + 1).parse::<Predicate>(), Err(PredicateError::TooMany));
}
