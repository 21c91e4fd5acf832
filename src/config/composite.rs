//! Schemas built from others: an optional key, a map of named sections, a list.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use super::parser::{Children, ConfigParser, Schema};
use super::tree::{Node, NodeKind};

/// A key that may be left out.
#[derive(Debug)]
pub struct Optional<S>(PhantomData<S>);

impl<S: Schema> Schema for Optional<S> {
    type Value = Option<S::Value>;

    fn syntax() -> String {
        S::syntax()
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<Self::Value> {
        S::from_node(node, parser).map(Some)
    }

    fn to_node(value: &Self::Value) -> Option<Node> {
        S::to_node(value.as_ref()?)
    }

    fn absent_value() -> Option<Self::Value> {
        Some(None)
    }

    fn children() -> Children {
        S::children()
    }
}

/// A map from names that the user chooses to sections.
#[derive(Debug)]
pub struct MapOf<S>(PhantomData<S>);

const NAME_SYNTAX: &str = "1 to 64 characters of a-z, 0-9, _ and -";

fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
}

impl<S: Schema> Schema for MapOf<S> {
    type Value = BTreeMap<String, S::Value>;

    fn syntax() -> String {
        "a map from names to sections".into()
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<Self::Value> {
        let NodeKind::Map(entries) = &node.kind else {
            parser.error(node, format_args!("is not a map; expected NAME: {{…}} entries with names of {NAME_SYNTAX}"));
            return None;
        };
        let mut values = BTreeMap::new();
        for (name, entry) in entries {
            parser.at(name, |parser| {
                values.extend(parser.parse_non_empty::<S>(entry).map(|value| (name.clone(), value)));
                if !is_name(name) {
                    parser.error(entry, format_args!("is not a valid name; expected {NAME_SYNTAX}"));
                }
            });
        }
        Some(values)
    }

    fn to_node(values: &Self::Value) -> Option<Node> {
        let entries = values.iter().filter_map(|(name, value)| Some((name.clone(), S::to_node(value)?))).collect();
        Some(Node::new(NodeKind::Map(entries)))
    }

    fn children() -> Children {
        match S::children() {
            Children::Keys(keys) => Children::Named(keys),
            other => other,
        }
    }
}

/// A list of at most `MAX` values; a single value stands for a list of one.
#[derive(Debug)]
pub struct ListOf<S, const MAX: usize>(PhantomData<S>);

impl<S: Schema, const MAX: usize> Schema for ListOf<S, MAX> {
    type Value = Vec<S::Value>;

    fn syntax() -> String {
        format!("{}, or a list of them", S::syntax())
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<Self::Value> {
        let NodeKind::List(items) = &node.kind else {
            return parser.parse_non_empty::<S>(node).map(|value| vec![value]);
        };
        if items.len() > MAX {
            parser.error(node, format_args!("has {} entries; the maximum is {MAX}", items.len()));
            return None;
        }
        let values: Vec<Option<S::Value>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| parser.at(&index.to_string(), |parser| parser.parse_non_empty::<S>(item)))
            .collect();
        values.into_iter().collect()
    }

    fn to_node(values: &Self::Value) -> Option<Node> {
        Some(Node::new(NodeKind::List(values.iter().filter_map(S::to_node).collect())))
    }
}
