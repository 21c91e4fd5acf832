//! Parses YAML text into a tree of scalars, lists and maps with line numbers.
//!
//! Guarantees: work and memory are bounded for any input, duplicate keys are errors, and scalars keep their source text
//! (`0123`, `1.10` and `no` are not converted). It does not interpret values: the schema of a key does, not YAML's rules for
//! plain scalars.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Budget, NonFiniteFloatPolicy, Options, Spanned};

/// The maximum size of a configuration.
pub const MAX_BYTES: usize = 1 << 20;
const MAX_DEPTH: usize = 24;
const MAX_NODES: usize = 50_000;
const MAX_ALIASES: usize = 1_000;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceLocation {
    Line(u64),
    Variable(Arc<str>),
    Unknown,
}

impl SourceLocation {
    /// The order of errors: by line of the file, then those of the environment.
    pub fn rank(&self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Line(line) => *line,
            Self::Variable(_) => u64::MAX,
        }
    }
}

/// A value and its location.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub location: SourceLocation,
    pub kind: NodeKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum NodeKind {
    Empty,
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    pub fn new(kind: NodeKind) -> Self {
        Self { location: SourceLocation::Unknown, kind }
    }

    pub fn scalar(text: impl fmt::Display) -> Self {
        Self::new(NodeKind::Scalar(text.to_string()))
    }

    pub fn child(&self, key: &str) -> Option<&Node> {
        match &self.kind {
            NodeKind::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, node)| node),
            _ => None,
        }
    }

    /// The node at `path` below this one: keys of maps and indices of lists, separated by dots.
    pub fn below(&self, path: &str) -> Option<&Node> {
        path.split('.').try_fold(self, |node, step| match &node.kind {
            NodeKind::List(items) => items.get(step.parse::<usize>().ok()?),
            _ => node.child(step),
        })
    }

    /// Parses YAML text. An empty document is an empty node.
    pub fn parse(text: &str) -> Result<Self, YamlError> {
        if text.len() > MAX_BYTES {
            return Err(YamlError::TooLarge);
        }
        let raw: Raw = match serde_saphyr::from_str_with_options(text, options()) {
            Ok(raw) => raw,
            Err(error) => return Err(yaml_error(&error)),
        };
        Ok(raw.into_node(text))
    }

    /// The same tree, located in an environment variable.
    pub fn in_variable(mut self, variable: &Arc<str>) -> Self {
        self.location = SourceLocation::Variable(variable.clone());
        self.kind = match self.kind {
            NodeKind::List(nodes) => NodeKind::List(nodes.into_iter().map(|node| node.in_variable(variable)).collect()),
            NodeKind::Map(entries) => {
                NodeKind::Map(entries.into_iter().map(|(key, node)| (key, node.in_variable(variable))).collect())
            }
            plain => plain,
        };
        self
    }
}

/// Why text cannot be parsed as YAML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    #[error("is larger than 1MiB")]
    TooLarge,
    #[error("is not valid YAML: {message}")]
    Syntax { line: Option<u64>, message: String },
}

fn options() -> Options {
    let mut budget = Budget::default();
    budget.max_depth = MAX_DEPTH;
    budget.flow_nesting_limit = MAX_DEPTH;
    budget.max_nodes = MAX_NODES;
    budget.max_events = 4 * MAX_NODES;
    budget.max_aliases = MAX_ALIASES;
    budget.max_anchors = MAX_ALIASES;
    budget.max_merge_keys = MAX_ALIASES;
    budget.max_recorded_anchor_events = MAX_NODES;
    budget.max_total_scalar_bytes = MAX_BYTES;
    let mut options = Options::default();
    options.budget = Some(budget);
    options.alias_limits.max_total_replayed_events = MAX_NODES;
    options.non_finite_float_policy = NonFiniteFloatPolicy::AsString;
    options.reject_unsupported_tags = true;
    options.with_snippet = false;
    options
}

fn yaml_error(error: &serde_saphyr::Error) -> YamlError {
    let error = error.without_snippet();
    let line = error.location().map(|location| location.line()).filter(|line| *line > 0);
    let message: String = error.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
    YamlError::Syntax { line, message: message.trim().to_string() }
}

/// A node as deserialized by serde-saphyr. Plain scalars do not have their source text yet.
struct Raw(Spanned<RawKind>);

enum RawKind {
    Empty,
    /// A YAML string.
    Text(String),
    /// A plain scalar that YAML reads as a boolean or a number; it is replaced by its source text.
    Plain(String),
    List(Vec<Raw>),
    Map(Vec<(Spanned<String>, Raw)>),
}

impl Raw {
    fn into_node(self, source: &str) -> Node {
        let Spanned { value, referenced, defined } = self.0;
        let kind = match value {
            RawKind::Empty => NodeKind::Empty,
            RawKind::Text(text) => NodeKind::Scalar(text),
            RawKind::Plain(text) => NodeKind::Scalar(source_text(source, &defined).unwrap_or(text)),
            RawKind::List(items) => NodeKind::List(items.into_iter().map(|item| item.into_node(source)).collect()),
            RawKind::Map(entries) => NodeKind::Map(entries.into_iter().map(|entry| map_entry(entry, source)).collect()),
        };
        Node { location: location(&referenced), kind }
    }
}

/// The location of an entry is that of its key, even if its value starts on a later line.
fn map_entry((key, raw): (Spanned<String>, Raw), source: &str) -> (String, Node) {
    let mut node = raw.into_node(source);
    if let line @ SourceLocation::Line(_) = location(&key.referenced) {
        node.location = line;
    }
    (key.value, node)
}

fn location(location: &serde_saphyr::Location) -> SourceLocation {
    match location.line() {
        0 => SourceLocation::Unknown,
        line => SourceLocation::Line(line),
    }
}

fn source_text(source: &str, location: &serde_saphyr::Location) -> Option<String> {
    let span = location.span();
    let from = usize::try_from(span.byte_offset()?).ok()?;
    let to = from.checked_add(usize::try_from(span.byte_len()?).ok()?)?;
    source.get(from..to).map(str::trim).filter(|text| !text.is_empty()).map(str::to_string)
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(Raw)
    }
}

impl<'de> Deserialize<'de> for RawKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

macro_rules! plain {
    ($($visit:ident: $type:ty),*) => {
        $(fn $visit<E>(self, value: $type) -> Result<RawKind, E> {
            Ok(RawKind::Plain(value.to_string()))
        })*
    };
}

impl<'de> Visitor<'de> for RawVisitor {
    type Value = RawKind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a scalar, a list or a map")
    }

    plain!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_i128: i128, visit_u128: u128, visit_f64: f64);

    fn visit_unit<E>(self) -> Result<RawKind, E> {
        Ok(RawKind::Empty)
    }

    fn visit_none<E>(self) -> Result<RawKind, E> {
        Ok(RawKind::Empty)
    }

    fn visit_str<E>(self, text: &str) -> Result<RawKind, E> {
        Ok(RawKind::Text(text.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawKind, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(RawKind::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawKind, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(RawKind::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
        match &node.child(key)?.kind {
            NodeKind::Scalar(text) => Some(text),
            _ => None,
        }
    }

    #[test]
    fn scalars_keep_their_source_text() {
        let tree =
            Node::parse("a: 0123\nb: 1.10\nc: no\nd: True\ne: '7'\nf: 99999999999999999999999\ng: .nan\nh: -0\n")
                .unwrap();
        for (key, text) in [
            ("a", "0123"),
            ("b", "1.10"),
            ("c", "no"),
            ("d", "True"),
            ("e", "7"),
            ("f", "99999999999999999999999"),
            ("g", ".nan"),
            ("h", "-0"),
        ] {
            assert_eq!(text_of(&tree, key), Some(text), "{key}");
        }
    }

    #[test]
    fn location_of_an_entry_is_the_line_of_its_key() {
        let tree = Node::parse("a: 1\nb:\n\n  c: [x,\n   y]\n").unwrap();
        assert_eq!(tree.child("b").unwrap().location, SourceLocation::Line(2));
        assert_eq!(tree.child("b").unwrap().child("c").unwrap().location, SourceLocation::Line(4));
    }
}
