//! Turns a tree into typed values and collects every error.
//!
//! A key with an invalid value is reported, and parsing continues with a placeholder (its default or its example), so
//! that checks between keys still run. Such a check reports nothing about keys that already have an error.

use std::fmt;

use super::error::ConfigError;
use super::suggest::unknown_key;
use super::tree::{Node, NodeKind};

/// Whether librdkafka accepts a property with this name and value, or why not.
pub type PropertyCheck = fn(&str, &str) -> Result<(), String>;

/// Walks a tree and collects errors. A schema that reported an error returns no value.
#[derive(Debug)]
pub struct ConfigParser {
    path: Vec<String>,
    pub errors: Vec<ConfigError>,
    /// Whether the configuration has a `kafka` section; other sections depend on it.
    pub with_kafka: bool,
    pub property_check: PropertyCheck,
}

impl ConfigParser {
    pub fn new(with_kafka: bool, property_check: PropertyCheck) -> Self {
        Self { path: Vec::new(), errors: Vec::new(), with_kafka, property_check }
    }

    /// Reports an error of `node`, the node at the current path.
    pub fn error(&mut self, node: &Node, message: impl fmt::Display) {
        let (path, location) = (self.path.join("."), node.location.clone());
        self.errors.push(ConfigError { path, location, message: message.to_string() });
    }

    /// Reports an error of `key` in `section` that also depends on the keys in `depends_on`, unless one of them already
    /// has an error.
    pub fn key_error(&mut self, section: &Node, key: &str, depends_on: &[&str], message: impl fmt::Display) {
        if [key].iter().chain(depends_on).all(|key| self.is_error_free(key)) {
            let node = section.below(key).unwrap_or(section);
            self.at(key, |parser| parser.error(node, message));
        }
    }

    /// Whether no error was reported for this key of the current section, nor above or below it.
    fn is_error_free(&self, key: &str) -> bool {
        let path = self.path.iter().map(String::as_str).chain([key]).collect::<Vec<_>>().join(".");
        let contains = |outer: &str, inner: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        !self.errors.iter().any(|error| contains(&path, &error.path) || contains(&error.path, &path))
    }

    /// Runs `parse` one step down the path.
    pub fn at<T>(&mut self, step: &str, parse: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step.chars().take(300).collect());
        let result = parse(self);
        self.path.pop();
        result
    }

    /// The text of a scalar. Any other node is an error that names the expected `syntax`.
    pub fn scalar_text<'n>(&mut self, node: &'n Node, syntax: &str) -> Option<&'n str> {
        let actual = match &node.kind {
            NodeKind::Scalar(text) => return Some(text),
            NodeKind::Empty => "nothing",
            NodeKind::List(_) => "a list",
            NodeKind::Map(_) => "a map",
        };
        self.error(node, format_args!("is {actual}; expected {syntax}"));
        None
    }

    /// Reports each key of a section that is not declared. Returns `false` if the node is not a section.
    pub fn expect_keys(&mut self, node: &Node, declared: &[&str]) -> bool {
        let NodeKind::Map(entries) = &node.kind else {
            let keys = declared.iter().take(6).copied().collect::<Vec<_>>().join(", ");
            self.error(node, format_args!("is not a section; expected {{}} for all defaults, or keys such as {keys}"));
            return false;
        };
        for (name, entry) in entries.iter().filter(|(name, _)| !declared.contains(&name.as_str())) {
            self.at(name, |parser| parser.error(entry, unknown_key(name, declared)));
        }
        true
    }

    /// The value of a key: configured, or its default if it is absent, or a placeholder if it is invalid.
    pub fn parse_key<S: Schema>(&mut self, section: &Node, name: &str, texts: KeyTexts) -> Option<S::Value> {
        self.at(name, |parser| {
            let value = match (section.child(name), texts.default) {
                (Some(node), _) => parser.parse_non_empty::<S>(node),
                (None, None) => S::absent_value().or_else(|| parser.missing::<S>(section, texts)),
                (None, Some(text)) => parser.parse_literal::<S>(text),
            };
            value.or_else(|| parser.placeholder::<S>(texts))
        })
    }

    fn missing<S: Schema>(&mut self, section: &Node, texts: KeyTexts) -> Option<S::Value> {
        let example = texts.example.map(|example| format!(", such as {example}")).unwrap_or_default();
        self.error(section, format_args!("is required; set {}{example}", S::syntax()));
        None
    }

    /// Parses the default or example of a declaration.
    fn parse_literal<S: Schema>(&mut self, text: &str) -> Option<S::Value> {
        match Node::parse(text) {
            Ok(node) => self.parse_non_empty::<S>(&node),
            Err(error) => {
                self.error(&Node::new(NodeKind::Empty), format_args!("{text:?} {error}"));
                None
            }
        }
    }

    /// A value to continue with after an error. It adds no errors of its own.
    fn placeholder<S: Schema>(&mut self, texts: KeyTexts) -> Option<S::Value> {
        let reported = self.errors.len();
        let text = texts.default.or(texts.example);
        let value = S::absent_value().or_else(|| self.parse_literal::<S>(text?));
        self.errors.truncate(reported);
        value
    }

    /// Parses a node that must not be empty.
    pub fn parse_non_empty<S: Schema>(&mut self, node: &Node) -> Option<S::Value> {
        if node.kind == NodeKind::Empty {
            self.error(node, format_args!("has no value; set {}, or remove the key", S::syntax()));
            return None;
        }
        S::from_node(node, self)
    }
}

/// How a value is written in a configuration: its syntax, parsing and printing.
pub trait Schema {
    type Value;
    /// How a value is written, for the reference and for errors: `a duration from 1s to 1h`.
    fn syntax() -> String;
    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<Self::Value>;
    /// The tree that parses back to `value`; `None` if the key is left out.
    fn to_node(value: &Self::Value) -> Option<Node>;
    /// The value of an absent key that has no default; `None` if the key is required.
    fn absent_value() -> Option<Self::Value> {
        None
    }
    fn children() -> Children {
        Children::None
    }
}

/// The keys below a key.
#[derive(Debug)]
pub enum Children {
    None,
    Keys(Vec<KeyDeclaration>),
    /// Names that the user chooses, each with these keys.
    Named(Vec<KeyDeclaration>),
    /// librdkafka's property names, which contain dots.
    Properties,
}

/// One declared key.
#[derive(Debug)]
pub struct KeyDeclaration {
    pub name: &'static str,
    pub doc: &'static [&'static str],
    pub syntax: String,
    pub texts: KeyTexts,
    pub is_optional: bool,
    pub children: Children,
}

/// What a declaration says about a key's value.
#[derive(Debug, Clone, Copy)]
pub struct KeyTexts {
    /// The default, as it would be written.
    pub default: Option<&'static str>,
    /// How the default follows from other keys, in words.
    pub derived: Option<&'static str>,
    pub example: Option<&'static str>,
}
