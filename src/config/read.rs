//! How a tree becomes typed values, with every mistake collected and each key declared once.
//!
//! [`section!`] and [`choice!`] are the only places where keys and words are declared: from one declaration come the
//! type, its reading, its defaults, its part of the reference and its part of the effective configuration.

use std::fmt;

use super::tree::{Node, NodeKind, Place};

/// One mistake: where, what is wrong, what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    pub path: String,
    pub place: Place,
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.place, self.path.is_empty()) {
            (Place::Line(line), false) => write!(f, "{} (line {line}): {}", self.path, self.message),
            (Place::Line(line), true) => write!(f, "line {line}: {}", self.message),
            (Place::Variable(name), false) => write!(f, "{} (from {name}): {}", self.path, self.message),
            (Place::Variable(name), true) => write!(f, "{name}: {}", self.message),
            (Place::Unknown, false) => write!(f, "{}: {}", self.path, self.message),
            (Place::Unknown, true) => f.write_str(&self.message),
        }
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

    /// Reports that `key` of `section` breaks a rule that also concerns other keys.
    pub fn rule(&mut self, section: &Node, key: &str, message: impl fmt::Display) {
        let node = key.split('.').try_fold(section, |node, name| node.child(name)).unwrap_or(section);
        self.at(key, |reader| reader.report(node, message));
    }

    /// Does `read` one step down the path.
    pub fn at<T>(&mut self, step: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step.chars().take(80).flat_map(char::escape_debug).collect());
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

    /// Reads one key of a section, or its default where it is absent.
    pub fn key<K: Kind>(
        &mut self,
        section: &Node,
        name: &'static str,
        default: Option<&'static str>,
    ) -> Option<K::Out> {
        self.at(name, |reader| match (section.child(name), default) {
            (Some(node), _) => reader.filled::<K>(node),
            (None, None) => K::absent(section, reader),
            (None, Some(text)) => match Node::parse(text) {
                Ok(node) => K::read(&node, reader),
                Err(error) => {
                    reader.report(section, format_args!("its default {text:?} {error}"));
                    None
                }
            },
        })
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
    /// What a missing key without a default means.
    fn absent(section: &Node, reader: &mut Reader) -> Option<Self::Out> {
        reader.report(section, format_args!("is missing; write {}", Self::form()));
        None
    }
    fn inside() -> Inside {
        Inside::Value
    }
    fn is_optional() -> bool {
        false
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
    pub default: Option<&'static str>,
    pub example: Option<&'static str>,
    pub is_optional: bool,
    pub inside: Inside,
    /// The mistakes in a text for this key alone.
    #[cfg_attr(not(test), allow(dead_code))]
    pub try_read: fn(&str, &mut Reader),
}

/// Reads `text` as a `K`, leaving its mistakes with the reader.
pub fn try_read<K: Kind>(text: &str, reader: &mut Reader) {
    match Node::parse(text) {
        Ok(node) => drop(reader.filled::<K>(&node)),
        Err(error) => reader.report(&Node::new(NodeKind::Empty), error),
    }
}

/// A value as a message shows it: escaped, and never long.
pub fn excerpt(text: &str) -> String {
    let mut shown: String = text.chars().take(60).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// "no such key", with the nearest known word, or all of them when none is near.
pub fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("there is no such {what}; did you mean {near}?"),
        None => format!("there is no such {what}; there are {}", known.join(", ")),
    }
}

/// The known word within a third of its length in edits.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    if word.len() > 80 {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    let close = |name: &&str| {
        let edits = edits(&word, &name.replace('-', "_"));
        (edits <= name.len().max(word.len()).div_ceil(3)).then_some(edits)
    };
    known.iter().filter_map(|name| Some((close(name)?, *name))).min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

/// Declares a section: each key once, with its documentation, its kind, and a default (`= "text"`) or an example
/// (`eg "text"`). `rules` names a function that sees the whole section after its keys were read.
macro_rules! section {
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident {
            $( $(#[doc = $key_doc:literal])* $key:ident: $kind:ty $(= $default:literal)? $(, eg $example:literal)?; )*
        }
        $(rules $rules:path)?
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( $(#[doc = $key_doc])* pub $key: <$kind as $crate::config::read::Kind>::Out, )*
        }

        impl $crate::config::read::Kind for $name {
            type Out = Self;

            fn form() -> String {
                format!("a section with {}", [$(stringify!($key)),*].join(", "))
            }

            fn read(
                node: &$crate::config::tree::Node,
                reader: &mut $crate::config::read::Reader,
            ) -> Option<Self> {
                if !reader.entries(node, &[$(stringify!($key)),*]) {
                    return None;
                }
                $( let $key = reader.key::<$kind>(node, stringify!($key), [$($default)?].first().copied()); )*
                #[allow(unused_mut)]
                let mut section = Self { $( $key: $key?, )* };
                $( $rules(&mut section, node, reader); )?
                Some(section)
            }

            fn show(out: &Self) -> Option<$crate::config::tree::Node> {
                let entries = [$( (stringify!($key), <$kind as $crate::config::read::Kind>::show(&out.$key)) ),*];
                let entries = entries.into_iter().filter_map(|(key, node)| Some((key.to_string(), node?))).collect();
                Some($crate::config::tree::Node::new($crate::config::tree::NodeKind::Map(entries)))
            }

            fn inside() -> $crate::config::read::Inside {
                $crate::config::read::Inside::Keys(vec![$( $crate::config::read::Key {
                    name: stringify!($key),
                    doc: &[$($key_doc),*],
                    form: <$kind as $crate::config::read::Kind>::form(),
                    default: [$($default)?].first().copied(),
                    example: [$($example)?].first().copied(),
                    is_optional: <$kind as $crate::config::read::Kind>::is_optional(),
                    inside: <$kind as $crate::config::read::Kind>::inside(),
                    try_read: $crate::config::read::try_read::<$kind>,
                } ),*])
            }
        }
    };
}

/// Declares a closed set of words.
macro_rules! choice {
    (
        $(#[doc = $doc:literal])*
        pub enum $name:ident { $( $(#[doc = $word_doc:literal])* $word:ident = $text:literal, )* }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $( $(#[doc = $word_doc])* $word, )* }

        impl $name {
            /// Every word, in declared order.
            pub const ALL: &'static [Self] = &[$(Self::$word),*];

            /// The word as it is written.
            pub fn word(self) -> &'static str {
                match self { $( Self::$word => $text, )* }
            }
        }

        impl $crate::config::read::Kind for $name {
            type Out = Self;

            fn form() -> String {
                [$($text),*].join(" | ")
            }

            fn read(
                node: &$crate::config::tree::Node,
                reader: &mut $crate::config::read::Reader,
            ) -> Option<Self> {
                let text = reader.text(node, &Self::form())?;
                match text {
                    $( $text => Some(Self::$word), )*
                    other => {
                        let shown = $crate::config::read::excerpt(other);
                        let near = $crate::config::read::unknown("word", other, &[$($text),*]);
                        reader.report(node, format_args!("{shown}: {near}"));
                        None
                    }
                }
            }

            fn show(out: &Self) -> Option<$crate::config::tree::Node> {
                Some($crate::config::tree::Node::scalar(out.word()))
            }
        }
    };
}

pub(super) use {choice, section};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_the_one_with_fewest_edits() {
        let known = ["window", "memory", "error", "lateness", "seen"];
        for (word, near) in [
            ("windw", Some("window")),
            ("Window", Some("window")),
            ("wnidow", Some("window")),
            ("eror", Some("error")),
            ("sene", Some("seen")),
            ("xyzzy", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, &known), near, "{word}");
        }
    }
}
