//! Environment variables that override keys of the file: `EBB_HTTP__LISTEN` sets `http.listen`.

use std::sync::Arc;

use super::error::{ConfigError, ConfigErrors};
use super::parser::{Children, KeyDeclaration};
use super::suggest::nearest;
use super::tree::{Node, NodeKind, SourceLocation};

const PREFIX: &str = "EBB_";
const SEPARATOR: &str = "__";

/// The `EBB_` variables of this process. Their values must be UTF-8.
pub fn environment() -> Result<Vec<(String, String)>, ConfigErrors> {
    let (mut variables, mut errors) = (Vec::new(), Vec::new());
    for (name, value) in std::env::vars_os() {
        let Some(name) = name.into_string().ok().filter(|name| name.starts_with(PREFIX)) else { continue };
        match value.into_string() {
            Ok(value) => variables.push((name, value)),
            Err(_) => errors.push(variable_error(name.as_str().into(), "its value is not UTF-8".into())),
        }
    }
    ConfigErrors::from_errors(errors).map_or(Ok(variables), Err)
}

fn variable_error(variable: Arc<str>, message: String) -> ConfigError {
    ConfigError { path: String::new(), location: SourceLocation::Variable(variable), message }
}

/// Applies each `EBB_` variable to `root`. A variable that contains `__`, or is named like a top-level key, must name a
/// key; other variables do not belong to the configuration and are ignored.
pub(super) fn apply(
    root: &mut Node,
    keys: &Children,
    variables: impl IntoIterator<Item = (String, String)>,
    errors: &mut Vec<ConfigError>,
) {
    let mut variables: Vec<(String, String)> =
        variables.into_iter().filter(|(name, _)| name.starts_with(PREFIX)).collect();
    variables.sort();
    for (name, text) in variables {
        let steps: Vec<&str> = name[PREFIX.len()..].split(SEPARATOR).collect();
        if steps.len() == 1 && !top_level_names(keys).iter().any(|key| key.eq_ignore_ascii_case(steps[0])) {
            continue;
        }
        let variable: Arc<str> = name.as_str().into();
        let result = match Node::parse(&text) {
            Ok(value) => set(root, keys, &steps, value.in_variable(&variable)),
            Err(error) => Err(format!("its value {error}")),
        };
        if let Err(message) = result {
            errors.push(variable_error(variable, message));
        }
    }
}

fn top_level_names(keys: &Children) -> Vec<&'static str> {
    match keys {
        Children::Keys(keys) => keys.iter().map(|key| key.name).collect(),
        Children::Named(_) | Children::Properties | Children::None => Vec::new(),
    }
}

fn set(node: &mut Node, children: &Children, steps: &[&str], value: Node) -> Result<(), String> {
    let Some((step, rest)) = steps.split_first() else {
        *node = value;
        return Ok(());
    };
    let location = value.location.clone();
    let (name, below) = match children {
        Children::Keys(keys) => find_key(keys, step).map(|key| (key.name.to_string(), Some(&key.children)))?,
        Children::Named(keys) => return set_named(node, keys, step, rest, value),
        Children::Properties => (steps.join(SEPARATOR).to_lowercase().replace('_', "."), None),
        Children::None => return Err(format!("there are no keys below {step}; set the key above it instead")),
    };
    let child = child_or_insert(node, &name, location)?;
    match below {
        Some(below) => set(child, below, rest, value),
        None => {
            *child = value;
            Ok(())
        }
    }
}

/// Sets a key below a name that the user chose: a name from the file, written with `_` for `-`, or a new one.
fn set_named(node: &mut Node, keys: &[KeyDeclaration], step: &str, rest: &[&str], value: Node) -> Result<(), String> {
    let normalized = |name: &str| name.to_uppercase().replace('-', "_");
    let existing = match &node.kind {
        NodeKind::Map(entries) => {
            entries.iter().map(|(name, _)| name).find(|name| normalized(name) == normalized(step))
        }
        NodeKind::Empty | NodeKind::Scalar(_) | NodeKind::List(_) => None,
    };
    let name = existing.cloned().unwrap_or_else(|| step.to_lowercase());
    let child = child_or_insert(node, &name, value.location.clone())?;
    match rest {
        [] => *child = value,
        [step, rest @ ..] => {
            let key = find_key(keys, step)?;
            let location = value.location.clone();
            return set(child_or_insert(child, key.name, location)?, &key.children, rest, value);
        }
    }
    Ok(())
}

fn find_key<'k>(keys: &'k [KeyDeclaration], step: &str) -> Result<&'k KeyDeclaration, String> {
    keys.iter().find(|key| key.name.eq_ignore_ascii_case(step)).ok_or_else(|| {
        let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
        match nearest(step, &names) {
            Some(name) => format!("unknown key {step}; did you mean {}?", name.to_uppercase()),
            None => format!("unknown key {step}; known keys are {}", names.join(", ").to_uppercase()),
        }
    })
}

/// The entry of a map, inserted if it is absent.
fn child_or_insert<'n>(node: &'n mut Node, name: &str, location: SourceLocation) -> Result<&'n mut Node, String> {
    if node.kind == NodeKind::Empty {
        node.kind = NodeKind::Map(Vec::new());
    }
    let NodeKind::Map(entries) = &mut node.kind else {
        return Err(format!("{name} is below a key that is not a section in the file; make it a section there"));
    };
    let index = entries.iter().position(|(existing, _)| existing == name).unwrap_or_else(|| {
        entries.push((name.to_string(), Node { location, kind: NodeKind::Empty }));
        entries.len() - 1
    });
    Ok(&mut entries[index].1)
}
