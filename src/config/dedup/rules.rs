//! The rules between the keys of the dedup view, and between the view and the event it sees.

use super::{DEFAULT_MEMORY, Dedup, Filter, Window};
use crate::config::emit;
use crate::config::read::{Kind, Reader};
use crate::config::stream::Event;
use crate::config::tree::Node;
use crate::config::words::excerpt;

/// The rules within the section; gives `memory` its default.
pub fn check_dedup(dedup: &mut Dedup, node: &Node, reader: &mut Reader) {
    match (dedup.memory, dedup.error) {
        (Some(_), Some(_)) => reader.rule(node, "error", &["memory"], "stands beside memory; keep one of the two"),
        (None, Some(_)) if dedup.expected_items().is_none() => {
            let message = "needs to know how much is expected; add rate: (events a second) or items:";
            reader.rule(node, "error", &["memory", "rate", "items", "window"], message);
        }
        (None, None) => dedup.memory = Some(DEFAULT_MEMORY),
        _ => {}
    }
    check_lateness(dedup, node, reader);
    check_layout(dedup, node, reader);
    check_keys(dedup, node, reader);
    check_windows(dedup, node, reader);
}

fn check_lateness(dedup: &Dedup, node: &Node, reader: &mut Reader) {
    match dedup.window {
        Window::Events(_) if dedup.lateness.is_some() => {
            reader.rule(node, "lateness", &["window"], "has no meaning in a window of events; remove it");
        }
        Window::Time(window) if dedup.lateness.is_some_and(|late| late.0 > window.0) => {
            let late = dedup.lateness.unwrap_or(window);
            let message = format!("{late} is longer than the window; write at most {window}");
            reader.rule(node, "lateness", &["window"], message);
        }
        _ => {}
    }
}

fn check_layout(dedup: &Dedup, node: &Node, reader: &mut Reader) {
    let filter = dedup.filter.word();
    let is_random = !matches!(dedup.filter, Filter::Timing | Filter::Classic);
    // A timer of b bits has 2^b - 2 stamps beside "expired", and one of them is spare for the block at the edge.
    let most_blocks = (1u64 << dedup.bits.unwrap_or(8)) - 3;
    if dedup.filter == Filter::Timing && dedup.blocks.is_some_and(|blocks| blocks > most_blocks) {
        let message = format!("is more than its bits can tell apart; write at most {most_blocks}, or more bits");
        reader.rule(node, "blocks", &["bits", "filter"], message);
    }
    let meaningless = [
        ("blocks", dedup.blocks.is_some() && dedup.filter != Filter::Timing),
        ("decrements", dedup.decrements.is_some() && !is_random),
        ("bits", dedup.bits.is_some() && dedup.filter == Filter::Classic),
    ];
    for (key, _) in meaningless.iter().filter(|(_, is_meaningless)| *is_meaningless) {
        reader.rule(node, key, &["filter"], format_args!("has no meaning for filter {filter}; remove it"));
    }
    let rules = dedup.rules.iter().enumerate().map(|(index, rule)| (format!("rules.{index}.penalty"), &rule.penalty));
    let penalties = rules.chain([("penalty".to_string(), &dedup.penalty)]);
    for (key, _) in penalties.filter(|(_, penalty)| is_random && penalty.is_some()) {
        let message = format!("needs a likelihood, and filter {filter} has none; remove it, or write filter: timing");
        reader.rule(node, &key, &["filter"], message);
    }
}

fn check_keys(dedup: &Dedup, node: &Node, reader: &mut Reader) {
    for (index, rule) in dedup.rules.iter().enumerate() {
        let (at, keys) = (format!("rules.{index}"), format!("rules.{index}.keys"));
        if rule.keys.is_empty() {
            reader.rule(node, &keys, &[], "is an empty list; name at least one key");
        }
        let is_known = |key: &&String| dedup.rules[..index].iter().any(|before| before.keys.contains(key));
        if let Some(twice) = rule.keys.iter().find(is_known) {
            reader.rule(node, &keys, &[], format_args!("{} has a rule already; name each key once", excerpt(twice)));
        }
        if rule.window.is_none() && rule.penalty.is_none() {
            reader.rule(node, &at, &[], "changes nothing; give it a window or a penalty");
        }
    }
}

fn check_windows(dedup: &Dedup, node: &Node, reader: &mut Reader) {
    let whole = Window::show(&dedup.window).map(|node| emit::plain(&node)).unwrap_or_default();
    for (index, window) in dedup.rules.iter().enumerate().filter_map(|(index, rule)| Some((index, rule.window?))) {
        let key = format!("rules.{index}.window");
        let fits = match (window, dedup.window) {
            (Window::Time(own), Window::Time(whole)) => own.0 <= whole.0,
            (Window::Events(own), Window::Events(whole)) => own <= whole,
            (Window::Time(_), Window::Events(_)) | (Window::Events(_), Window::Time(_)) => false,
        };
        if !fits {
            let message = format!("is not within the view's window; write the same kind of window, at most {whole}");
            reader.rule(node, &key, &["window"], message);
        }
        if dedup.filter != Filter::Timing {
            let filter = dedup.filter.word();
            let message = format!("needs ages, and filter {filter} keeps none; remove it, or write filter: timing");
            reader.rule(node, &key, &["filter"], message);
        }
    }
}

/// The rules between the view and the event. `stream` is the section of the stream.
pub fn check_with_event(dedup: &Dedup, event: &Event, stream: &Node, reader: &mut Reader) {
    if dedup.filter.needs_importance() && event.importance.is_none() {
        let message = format!("{} needs an importance; add event: {{importance: PATH}}", dedup.filter.word());
        reader.rule(stream, "dedup.filter", &["event.importance"], message);
    }
    for (key, needs_keys) in [("dedup.rules", !dedup.rules.is_empty()), ("dedup.isolate", dedup.isolate > 0)] {
        if needs_keys && event.key.is_none() {
            reader.rule(stream, key, &["event.key"], "needs keys; add event: {key: PATH}");
        }
    }
}
