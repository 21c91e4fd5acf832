//! Checks between the keys of the dedup view, and between the view and the stream's event.

use super::{ClassesConfig, DedupConfig, FilterKind, FilterSizing, PriorConfig, WindowConfig, defaults};
use crate::config::declare::ConfigEnum;
use crate::config::emit;
use crate::config::parser::{ConfigParser, Schema};
use crate::config::stream::EventConfig;
use crate::config::suggest::excerpt;
use crate::config::tree::Node;
use ebb_core::Seen;
use ebb_sketch::filter::planning::classic_sizing::size_classic;
use ebb_sketch::filter::structure::timing::max_blocks;

/// Counters of more bits have no posterior: 2^5 - 1 is the largest value that is tabulated.
const MAX_POSTERIOR_BITS: u64 = 5;

/// Resolves derived defaults and checks the keys of the section against each other.
pub fn check_dedup(dedup: &mut DedupConfig, node: &Node, parser: &mut ConfigParser) {
    defaults::resolve(dedup);
    check_size(dedup, node, parser);
    check_lateness(dedup, node, parser);
    check_layout(dedup, node, parser);
    check_penalties(dedup, node, parser);
    check_counters(dedup, node, parser);
    check_classic(dedup, node, parser);
    check_isolation(dedup, node, parser);
    check_prior_classes(dedup, node, parser);
    check_rule_keys(dedup, node, parser);
    check_rule_windows(dedup, node, parser);
}

fn check_size(dedup: &DedupConfig, node: &Node, parser: &mut ConfigParser) {
    match (dedup.memory, dedup.error) {
        (Some(_), Some(_)) => {
            parser.key_error(node, "error", &["memory"], "cannot be combined with memory; remove one of them");
        }
        (None, Some(_)) if dedup.expected_items().is_none() => {
            let message = "requires the expected traffic; add rate: (events per second) or items:";
            parser.key_error(node, "error", &["memory", "rate", "items", "window"], message);
        }
        (None, Some(_)) | (Some(_), None) | (None, None) => {}
    }
    let is_planned = matches!(dedup.sizing(), FilterSizing::Error { .. }) && dedup.filter == FilterKind::Timing;
    for (key, is_set) in
        [("bits", dedup.bits.is_some()), ("cells", dedup.cells.is_some()), ("blocks", dedup.blocks.is_some())]
    {
        if is_planned && is_set {
            let message = "is determined by error; remove it, or set memory instead of error";
            parser.key_error(node, key, &["error", "memory", "rate", "items", "window", "filter"], message);
        }
    }
}

fn check_lateness(dedup: &DedupConfig, node: &Node, parser: &mut ConfigParser) {
    let Some(lateness) = dedup.lateness else { return };
    match dedup.window {
        WindowConfig::Events(_) => {
            parser.key_error(node, "lateness", &["window"], "does not apply to a window of events; remove it");
        }
        WindowConfig::Time(window) if lateness.0 > window.0 => {
            let message = format!("{lateness} is longer than the window; the maximum is {window}");
            parser.key_error(node, "lateness", &["window"], message);
        }
        WindowConfig::Time(_) => {}
    }
}

fn check_layout(dedup: &DedupConfig, node: &Node, parser: &mut ConfigParser) {
    if let (FilterKind::Timing, Some(bits), Some(blocks)) = (dedup.filter, dedup.bits, dedup.blocks) {
        let max_blocks = max_blocks(bits as u8);
        if blocks > max_blocks {
            let message = format!("exceeds what {bits} bits can count; set at most {max_blocks}, or more bits");
            parser.key_error(node, "blocks", &["bits", "filter"], message);
        }
    }
    let inapplicable = [
        ("blocks", dedup.blocks.is_some() && dedup.filter != FilterKind::Timing),
        ("decrements", dedup.decrements.is_some() && !dedup.filter.has_counters()),
        ("missed", dedup.missed.is_some() && !dedup.filter.has_counters()),
        ("importance_mix", dedup.importance_mix.is_some() && !dedup.filter.needs_importance()),
        ("importance_classes", dedup.importance_classes != ClassesConfig::Numbers && !needs_classes(dedup)),
        ("bits", dedup.bits.is_some() && dedup.filter == FilterKind::Classic),
    ];
    for (key, _) in inapplicable.iter().filter(|(_, is_inapplicable)| *is_inapplicable) {
        let message = format!("does not apply to filter {}; remove it", dedup.filter.name());
        parser.key_error(node, key, &["filter", "prior"], message);
    }
}

/// The keys that each penalty depends on.
fn penalty_keys(dedup: &DedupConfig) -> Vec<String> {
    let rules = dedup.rules.iter().enumerate().filter(|(_, rule)| rule.penalty.is_some());
    let rules = rules.map(|(index, _)| format!("rules.{index}.penalty"));
    rules.chain(dedup.penalty.iter().map(|_| "penalty".to_string())).collect()
}

/// A penalty needs a posterior, and a posterior a prior.
fn check_penalties(dedup: &DedupConfig, node: &Node, parser: &mut ConfigParser) {
    let filter = dedup.filter.name();
    let message = match (dedup.filter, &dedup.prior) {
        (FilterKind::Classic, PriorConfig::Auto | PriorConfig::AutoFrequency) => {
            "requires a prior, which filter classic does not learn; add prior: with the share of events that one item has, \
             or set filter: timing"
                .to_string()
        }
        (kind, _) if kind.has_counters() && dedup.expected_events().is_none() => format!(
            "requires the number of events within the window for filter {filter}; add rate: (events per second), or set \
             window to a number of events"
        ),
        (kind, _) if kind.has_counters() && dedup.bits.is_some_and(|bits| bits > MAX_POSTERIOR_BITS) => {
            format!("requires counters of at most {MAX_POSTERIOR_BITS} bits for filter {filter}; set bits: {MAX_POSTERIOR_BITS}")
        }
        _ => return,
    };
    for key in penalty_keys(dedup) {
        parser.key_error(node, &key, &["filter", "prior", "rate", "items", "window", "bits"], &message);
    }
}

/// Checks between the keys of filters that forget at random.
fn check_counters(dedup: &DedupConfig, node: &Node, parser: &mut ConfigParser) {
    if !dedup.filter.has_counters() {
        return;
    }
    let filter = dedup.filter.name();
    if dedup.seen == Some(Seen::First) {
        let message =
            format!("first does not apply to filter {filter}, which renews an item with every event; remove it");
        parser.key_error(node, "seen", &["filter"], message);
    }
    if dedup.prior == PriorConfig::AutoFrequency {
        let message = format!("auto-frequency does not apply to filter {filter}; set auto, or a number");
        parser.key_error(node, "prior", &["filter"], message);
    }
    if dedup.decrements.is_some() && dedup.missed.is_some() {
        let message = "is determined by missed; remove one of them";
        parser.key_error(node, "decrements", &["filter", "missed", "error", "memory"], message);
    }
    if let Err(error) = dedup.stable_filter() {
        const DEPENDS_ON: [&str; 14] = [
            "filter",
            "window",
            "memory",
            "error",
            "missed",
            "rate",
            "items",
            "bits",
            "cells",
            "decrements",
            "importance_max",
            "importance_classes",
            "importance_mix",
            "seen",
        ];
        parser.key_error(node, error.key, &DEPENDS_ON, error.message);
    }
}

/// Checks that a classic filter can reach its error.
fn check_classic(dedup: &DedupConfig, node: &Node, parser: &mut ConfigParser) {
    let (FilterKind::Classic, FilterSizing::Error { error, items }) = (dedup.filter, dedup.sizing()) else { return };
    if let Err(error) = size_classic(items, error, dedup.cells.map(|cells| cells as u8)) {
        parser.key_error(node, "error", &["filter", "memory", "rate", "items", "window", "cells"], error);
    }
}

fn check_isolation(dedup: &DedupConfig, node: &Node, parser: &mut ConfigParser) {
    if dedup.isolate == 0 {
        return;
    }
    if dedup.filter != FilterKind::Timing {
        let message = format!("does not apply to filter {}; remove it, or set filter: timing", dedup.filter.name());
        parser.key_error(node, "isolate", &["filter"], message);
    } else if matches!(dedup.window, WindowConfig::Events(_)) {
        parser.key_error(node, "isolate", &["window"], "requires a time window; set one, or isolate: 0");
    }
}

fn check_rule_keys(dedup: &DedupConfig, node: &Node, parser: &mut ConfigParser) {
    for (index, rule) in dedup.rules.iter().enumerate() {
        let (at, keys) = (format!("rules.{index}"), format!("rules.{index}.keys"));
        if rule.keys.is_empty() {
            parser.key_error(node, &keys, &[], "is empty; list at least one key");
        }
        let has_earlier_rule = |key: &&String| dedup.rules[..index].iter().any(|earlier| earlier.keys.contains(key));
        if let Some(key) = rule.keys.iter().find(has_earlier_rule) {
            let message = format!("{} already has a rule; list each key once", excerpt(key));
            parser.key_error(node, &keys, &[], message);
        }
        if rule.window.is_none() && rule.penalty.is_none() && rule.prior.is_none() {
            parser.key_error(node, &at, &[], "has no effect; set a window, a penalty or a prior");
        }
        if matches!(rule.prior, Some(PriorConfig::Auto | PriorConfig::AutoFrequency | PriorConfig::Classes(_))) {
            let message = "must be a number or a field; learned priors and priors by class apply to all keys";
            parser.key_error(node, &format!("{at}.prior"), &[], message);
        }
    }
}

fn check_rule_windows(dedup: &DedupConfig, node: &Node, parser: &mut ConfigParser) {
    let max = WindowConfig::to_node(&dedup.window).map(|node| emit::plain(&node)).unwrap_or_default();
    for (index, window) in dedup.rules.iter().enumerate().filter_map(|(index, rule)| Some((index, rule.window?))) {
        let key = format!("rules.{index}.window");
        let fits = match (window, dedup.window) {
            (WindowConfig::Time(own), WindowConfig::Time(max)) => own.0 <= max.0,
            (WindowConfig::Events(own), WindowConfig::Events(max)) => own <= max,
            (WindowConfig::Time(_), WindowConfig::Events(_)) | (WindowConfig::Events(_), WindowConfig::Time(_)) => {
                false
            }
        };
        if !fits {
            let message = format!("exceeds the window of the view, or is of another kind; the maximum is {max}");
            parser.key_error(node, &key, &["window"], message);
        }
        if dedup.filter != FilterKind::Timing {
            let filter = dedup.filter.name();
            let message = format!(
                "requires the age of items, which filter {filter} does not keep; remove it, or set filter: timing"
            );
            parser.key_error(node, &key, &["filter"], message);
        }
    }
}

/// Whether importance classes have an effect.
fn needs_classes(dedup: &DedupConfig) -> bool {
    dedup.filter.needs_importance() || matches!(dedup.prior, PriorConfig::Classes(_))
}

/// Checks that the classes of the prior are listed.
fn check_prior_classes(dedup: &DedupConfig, node: &Node, parser: &mut ConfigParser) {
    let PriorConfig::Classes(shares) = &dedup.prior else { return };
    let ClassesConfig::Table(classes) = &dedup.importance_classes else {
        let message = "by class requires a table of classes; add importance_classes: {NAME: IMPORTANCE}";
        parser.key_error(node, "prior", &["importance_classes"], message);
        return;
    };
    for (name, _) in shares.iter().filter(|(name, _)| !classes.iter().any(|(class, _)| class == name)) {
        let message = format!("{} is not one of importance_classes", excerpt(name));
        parser.key_error(node, "prior", &["importance_classes"], message);
    }
    let importance = |name: &str| classes.iter().find(|(class, _)| class == name).map(|(_, importance)| *importance);
    for (index, (name, share)) in shares.iter().enumerate() {
        let is_ambiguous = |(other, own): &&(String, f64)| own != share && importance(other) == importance(name);
        if let Some((other, _)) = shares[..index].iter().find(is_ambiguous) {
            let message =
                format!("differs for {} and {}, which have the same importance", excerpt(other), excerpt(name));
            parser.key_error(node, "prior", &["importance_classes"], message);
        }
    }
}

/// Checks the view against the event. `stream` is the section of the stream.
pub fn check_with_event(dedup: &DedupConfig, event: &EventConfig, stream: &Node, parser: &mut ConfigParser) {
    if dedup.filter.needs_importance() && event.importance.is_none() {
        let message = format!("{} requires an importance; add event: {{importance: PATH}}", dedup.filter.name());
        parser.key_error(stream, "dedup.filter", &["event.importance"], message);
    } else if needs_classes(dedup) && event.importance.is_none() {
        let message = "by class requires an importance; add event: {importance: PATH}";
        parser.key_error(stream, "dedup.prior", &["event.importance"], message);
    }
    for (key, needs_keys) in [("dedup.rules", !dedup.rules.is_empty()), ("dedup.isolate", dedup.isolate > 0)] {
        if needs_keys && event.key.is_none() {
            parser.key_error(stream, key, &["event.key"], "requires a key; add event: {key: PATH}");
        }
    }
}
