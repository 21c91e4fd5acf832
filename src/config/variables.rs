//! Environment variables laid over the tree: `EBB_HTTP__LISTEN` is `http.listen`.

use std::sync::Arc;

use super::read::{Inside, Key, Mistake};
use super::tree::{Node, NodeKind, Place};
use super::words::nearest;

pub const PREFIX: &str = "EBB_";
const STEP: &str = "__";

/// Lays each `EBB_` variable over `root`. A variable with `__`, or one named like a top key, must name a key; others are
/// not meant for the configuration.
pub(super) fn lay_over(
    root: &mut Node,
    keys: &Inside,
    variables: impl IntoIterator<Item = (String, String)>,
    mistakes: &mut Vec<Mistake>,
) {
    let mut variables: Vec<(String, String)> =
        variables.into_iter().filter(|(name, _)| name.starts_with(PREFIX)).collect();
    variables.sort();
    for (name, text) in variables {
        let steps: Vec<&str> = name[PREFIX.len()..].split(STEP).collect();
        if steps.len() == 1 && !top_names(keys).iter().any(|key| key.eq_ignore_ascii_case(steps[0])) {
            continue;
        }
        let variable: Arc<str> = name.as_str().into();
        let laid = match Node::parse(&text) {
            Ok(value) => lay(root, keys, &steps, value.standing_in(&variable)),
            Err(error) => Err(format!("its value {error}")),
        };
        if let Err(message) = laid {
            mistakes.push(Mistake { path: String::new(), place: Place::Variable(variable), message });
        }
    }
}

fn top_names(keys: &Inside) -> Vec<&'static str> {
    match keys {
        Inside::Keys(keys) => keys.iter().map(|key| key.name).collect(),
        Inside::Named(_) | Inside::Properties | Inside::Value => Vec::new(),
    }
}

fn lay(node: &mut Node, inside: &Inside, steps: &[&str], value: Node) -> Result<(), String> {
    let Some((step, rest)) = steps.split_first() else {
        *node = value;
        return Ok(());
    };
    let place = value.place.clone();
    let (name, below) = match inside {
        Inside::Keys(keys) => known(keys, step).map(|key| (key.name.to_string(), Some(&key.inside)))?,
        Inside::Named(keys) => return lay_named(node, keys, step, rest, value),
        Inside::Properties => (steps.join(STEP).to_lowercase().replace('_', "."), None),
        Inside::Value => return Err(format!("there is nothing below {step}; set the key above it as a whole")),
    };
    let child = entry(node, &name, place)?;
    match below {
        Some(below) => lay(child, below, rest, value),
        None => {
            *child = value;
            Ok(())
        }
    }
}

/// A name of the user's choice: one that the file has, written with `_` for `-`, or a new one.
fn lay_named(node: &mut Node, keys: &[Key], step: &str, rest: &[&str], value: Node) -> Result<(), String> {
    let shouted = |name: &str| name.to_uppercase().replace('-', "_");
    let known = match &node.kind {
        NodeKind::Map(entries) => entries.iter().map(|(name, _)| name).find(|name| shouted(name) == shouted(step)),
        _ => None,
    };
    let name = known.cloned().unwrap_or_else(|| step.to_lowercase());
    let child = entry(node, &name, value.place.clone())?;
    match rest {
        [] => *child = value,
        [step, rest @ ..] => {
            let key = self::known(keys, step)?;
            let place = value.place.clone();
            return lay(entry(child, key.name, place)?, &key.inside, rest, value);
        }
    }
    Ok(())
}

fn known<'k>(keys: &'k [Key], step: &str) -> Result<&'k Key, String> {
    keys.iter().find(|key| key.name.eq_ignore_ascii_case(step)).ok_or_else(|| {
        let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
        match nearest(step, &names) {
            Some(near) => format!("there is no key {step}; did you mean {}?", near.to_uppercase()),
            None => format!("there is no key {step}; there are {}", names.join(", ").to_uppercase()),
        }
    })
}

/// The entry of a map, made where it is absent.
fn entry<'n>(node: &'n mut Node, name: &str, place: Place) -> Result<&'n mut Node, String> {
    if node.kind == NodeKind::Empty {
        node.kind = NodeKind::Map(Vec::new());
    }
    let NodeKind::Map(entries) = &mut node.kind else {
        return Err(format!("{name} stands below a key that the file gives a single value; make it a section there"));
    };
    let index = entries.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
        entries.push((name.to_string(), Node { place, kind: NodeKind::Empty }));
        entries.len() - 1
    });
    Ok(&mut entries[index].1)
}
