//! The syntax of importance classes and of their mix.

use crate::config::parser::{ConfigParser, Schema};
use crate::config::scalars::{PositiveNumber, scalar};
use crate::config::suggest::excerpt;
use crate::config::tree::{Node, NodeKind};
use ebb_sketch::filter::planning::stable_sizing::MAX_CLASSES;

/// The name that stands for all classes that are not listed.
pub const OTHER_CLASS: &str = "*";

/// The largest importance and share.
type Weight = PositiveNumber<1_000_000_000>;

/// What the importance of an event is.
#[derive(Debug, Clone, PartialEq)]
pub enum ClassesConfig {
    /// A number from 0 to the largest importance.
    Numbers,
    /// A number whose rank among recent events counts.
    Percentiles,
    /// The name of a class, with the importance of each.
    Table(Vec<(String, f64)>),
}

/// The syntax of a [`ClassesConfig`].
#[derive(Debug)]
pub struct ClassesSyntax;

impl Schema for ClassesSyntax {
    type Value = ClassesConfig;

    fn syntax() -> String {
        format!("numbers, percentiles, or a table of at most {MAX_CLASSES} classes such as {{gold: 3, silver: 2}}")
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<ClassesConfig> {
        match &node.kind {
            NodeKind::Map(_) => weights(node, parser).map(ClassesConfig::Table),
            _ => scalar(node, parser, &Self::syntax(), |text| match text {
                "numbers" => Ok(ClassesConfig::Numbers),
                "percentiles" => Ok(ClassesConfig::Percentiles),
                _ => Err(format!("{} is not valid; expected {}", excerpt(text), Self::syntax())),
            }),
        }
    }

    fn to_node(value: &ClassesConfig) -> Option<Node> {
        Some(match value {
            ClassesConfig::Numbers => Node::scalar("numbers"),
            ClassesConfig::Percentiles => Node::scalar("percentiles"),
            ClassesConfig::Table(classes) => map(classes),
        })
    }
}

/// The share of each class among events, by name or importance.
#[derive(Debug)]
pub struct MixSyntax;

impl Schema for MixSyntax {
    type Value = Vec<(String, f64)>;

    fn syntax() -> String {
        "a map from classes to their share of the events such as {gold: 0.1, silver: 0.9}".into()
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<Self::Value> {
        if !matches!(node.kind, NodeKind::Map(_)) {
            parser.error(node, format_args!("is not a map; expected {}", Self::syntax()));
            return None;
        }
        weights(node, parser)
    }

    fn to_node(value: &Self::Value) -> Option<Node> {
        Some(map(value))
    }
}

fn weights(node: &Node, parser: &mut ConfigParser) -> Option<Vec<(String, f64)>> {
    let NodeKind::Map(entries) = &node.kind else { return None };
    if entries.is_empty() || entries.len() > MAX_CLASSES {
        parser.error(node, format_args!("has {} classes; expected 1 to {MAX_CLASSES}", entries.len()));
        return None;
    }
    let weight = |(name, entry): &(String, Node)| {
        parser.at(name, |parser| Some((name.clone(), parser.parse_non_empty::<Weight>(entry)?)))
    };
    let weights: Vec<_> = entries.iter().map(weight).collect();
    weights.into_iter().collect()
}

fn map(weights: &[(String, f64)]) -> Node {
    Node::new(NodeKind::Map(weights.iter().map(|(name, weight)| (name.clone(), Node::scalar(weight))).collect()))
}
