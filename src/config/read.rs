//! How a tree becomes typed values, with every mistake collected.
//!
//! A key that cannot be read is reported, and reading goes on with a stand-in (its default, or its example), so that the
//! rules between keys are still checked; a rule is silent about keys that were reported already.

use std::fmt;

use super::tree::{Node, NodeKind, Place};
use super::words::{printable, unknown};

/// One mistake: where, what is wrong, what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    pub path: String,
    pub place: Place,
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, place, message } = self;
        let told = match (place, path.is_empty()) {
            (Place::Line(line), false) => format!("{path} (line {line}): {message}"),
            (Place::Line(line), true) => format!("line {line}: {message}"),
            (Place::Variable(name), false) => format!("{path} (from {name}): {message}"),
            (Place::Variable(name), true) => format!("{name}: {message}"),
            (Place::Unknown, false) => format!("{path}: {message}"),
            (Place::Unknown, true) => message.clone(),
        };
        f.write_str(&printable(&told))
    }
}

/// Whether a librdkafka property with this name and value exists, or why not.
pub type PropertyCheck = fn(&str, &str) -> Result<(), String>;

/// Walks a tree and collects mistakes; a reading that reported one yields nothing.
#[derive(Debug)]
pub struct Reader {
    path: Vec<String>,
    pub mistakes: Vec<Mistake>,
    /// Whether the file has a `kafka` section: other sections may ask for it.
    pub with_kafka: bool,
    pub property_check: PropertyCheck,
}

impl Reader {
    pub fn new(with_kafka: bool, property_check: PropertyCheck) -> Self {
        Self { path: Vec::new(), mistakes: Vec::new(), with_kafka, property_check }
    }

    /// Reports a mistake about `node`, which stands at the current path.
    pub fn report(&mut self, node: &Node, message: impl fmt::Display) {
        let (path, place) = (self.path.join("."), node.place.clone());
        self.mistakes.push(Mistake { path, place, message: message.to_string() });
    }

    /// Reports that `key` of `section` breaks a rule that also rests on the keys in `with`, unless one of them was
    /// reported already.
    pub fn rule(&mut self, section: &Node, key: &str, with: &[&str], message: impl fmt::Display) {
        if [key].iter().chain(with).all(|key| self.is_sound(key)) {
            let node = section.below(key).unwrap_or(section);
            self.at(key, |reader| reader.report(node, message));
        }
    }

    /// Whether nothing was reported about this key of the current section, above it or below it.
    fn is_sound(&self, key: &str) -> bool {
        let path = self.path.iter().map(String::as_str).chain([key]).collect::<Vec<_>>().join(".");
        let holds = |outer: &str, inner: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        !self.mistakes.iter().any(|mistake| holds(&path, &mistake.path) || holds(&mistake.path, &path))
    }

    /// Does `read` one step down the path.
    pub fn at<T>(&mut self, step: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step.chars().take(300).collect());
        let result = read(self);
        self.path.pop();
        result
    }

    /// The text of a scalar; anything else is reported as not being a `form`.
    pub fn text<'n>(&mut self, node: &'n Node, form: &str) -> Option<&'n str> {
        let found = match &node.kind {
            NodeKind::Scalar(text) => return Some(text),
            NodeKind::Empty => "nothing",
            NodeKind::List(_) => "a list",
            NodeKind::Map(_) => "a map",
        };
        self.report(node, format_args!("{found} where a value belongs; write {form}"));
        None
    }

    /// Reports each entry of a section that is none of its keys, with the nearest that is. `false` if it is no section.
    pub fn entries(&mut self, node: &Node, known: &[&str]) -> bool {
        let NodeKind::Map(entries) = &node.kind else {
            let keys = known.iter().take(6).copied().collect::<Vec<_>>().join(", ");
            self.report(node, format_args!("is not a section; write {{}} for all defaults, or keys such as {keys}"));
            return false;
        };
        for (name, entry) in entries.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            self.at(name, |reader| reader.report(entry, unknown("key", name, known)));
        }
        true
    }

    /// Reads one key of a section, or its default where it is absent, or a stand-in where it is wrong.
    pub fn key<K: Kind>(&mut self, section: &Node, name: &str, texts: Texts) -> Option<K::Out> {
        self.at(name, |reader| {
            let read = match (section.child(name), texts.default) {
                (Some(node), _) => reader.filled::<K>(node),
                (None, None) => K::absent().or_else(|| reader.missing::<K>(section, texts)),
                (None, Some(text)) => reader.declared::<K>(text),
            };
            read.or_else(|| reader.stand_in::<K>(texts))
        })
    }

    fn missing<K: Kind>(&mut self, section: &Node, texts: Texts) -> Option<K::Out> {
        let example = texts.example.map(|example| format!(", such as {example}")).unwrap_or_default();
        self.report(section, format_args!("is missing; write {}{example}", K::form()));
        None
    }

    /// Reads the text of a declaration.
    pub fn declared<K: Kind>(&mut self, text: &str) -> Option<K::Out> {
        match Node::parse(text) {
            Ok(node) => self.filled::<K>(&node),
            Err(error) => {
                self.report(&Node::new(NodeKind::Empty), format_args!("{text:?} {error}"));
                None
            }
        }
    }

    /// A value to go on with after a mistake; it adds no mistakes of its own.
    fn stand_in<K: Kind>(&mut self, texts: Texts) -> Option<K::Out> {
        let reported = self.mistakes.len();
        let text = texts.default.or(texts.example);
        let value = K::absent().or_else(|| self.declared::<K>(text?));
        self.mistakes.truncate(reported);
        value
    }

    /// Reads a node that must not be empty.
    pub fn filled<K: Kind>(&mut self, node: &Node) -> Option<K::Out> {
        if node.kind == NodeKind::Empty {
            self.report(node, format_args!("is empty; write {}, or remove the key", K::form()));
            return None;
        }
        K::read(node, self)
    }
}

/// What a value may look like, how it is read and how it is shown.
pub trait Kind {
    type Out;
    /// How a value is written, for the reference and for mistakes: `a duration such as 24h`.
    fn form() -> String;
    fn read(node: &Node, reader: &mut Reader) -> Option<Self::Out>;
    /// The tree that reads back as `out`; `None` where the key would be left out.
    fn show(out: &Self::Out) -> Option<Node>;
    /// What a missing key without a default means, if it may be missing.
    fn absent() -> Option<Self::Out> {
        None
    }
    fn inside() -> Inside {
        Inside::Value
    }
}

/// What stands below a key.
#[derive(Debug)]
pub enum Inside {
    Value,
    Keys(Vec<Key>),
    /// Names of the user's choice, each with these keys.
    Named(Vec<Key>),
    /// librdkafka's own names, with dots.
    Properties,
}

/// One declared key.
#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    pub doc: &'static [&'static str],
    pub form: String,
    pub texts: Texts,
    pub is_optional: bool,
    pub inside: Inside,
}

/// What a declaration says about a key's value.
#[derive(Debug, Clone, Copy)]
pub struct Texts {
    pub default: Option<&'static str>,
    pub example: Option<&'static str>,
}
