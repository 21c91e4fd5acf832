//! The kinds of single values: durations, sizes, counts, names, addresses, paths, and what is built from them.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::read::{Inside, Kind, Reader, excerpt};
use super::tree::{Node, NodeKind};
use crate::decay::Decay;
use crate::units::{Bytes, DurationMs, parse_bytes, parse_duration_ms};

/// A key that may be left out.
#[derive(Debug)]
pub struct Maybe<K>(PhantomData<K>);

impl<K: Kind> Kind for Maybe<K> {
    type Out = Option<K::Out>;

    fn form() -> String {
        K::form()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<Self::Out> {
        K::read(node, reader).map(Some)
    }

    fn show(out: &Self::Out) -> Option<Node> {
        K::show(out.as_ref()?)
    }

    fn absent(_: &Node, _: &mut Reader) -> Option<Self::Out> {
        Some(None)
    }

    fn inside() -> Inside {
        K::inside()
    }

    fn is_optional() -> bool {
        true
    }
}

/// A map from names of the user's choice to sections.
#[derive(Debug)]
pub struct Named<K>(PhantomData<K>);

const NAME_FORM: &str = "1 to 64 of a-z, 0-9, _ and -";

fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
}

impl<K: Kind> Kind for Named<K> {
    type Out = BTreeMap<String, K::Out>;

    fn form() -> String {
        "a map from names to sections".into()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<Self::Out> {
        let NodeKind::Map(entries) = &node.kind else {
            reader.report(node, format_args!("is not a map; write NAME: {{…}} for each, with names of {NAME_FORM}"));
            return None;
        };
        let mut out = Some(BTreeMap::new());
        for (name, entry) in entries {
            let read = reader.at(name, |reader| {
                if !is_name(name) {
                    reader.report(entry, format_args!("is not a name; write {NAME_FORM}"));
                }
                reader.filled::<K>(entry)
            });
            match (read, &mut out) {
                (Some(value), Some(map)) => drop(map.insert(name.clone(), value)),
                (None, _) => out = None,
                (Some(_), None) => {}
            }
        }
        out
    }

    fn show(out: &Self::Out) -> Option<Node> {
        let entries = out.iter().filter_map(|(name, value)| Some((name.clone(), K::show(value)?))).collect();
        Some(Node::new(NodeKind::Map(entries)))
    }

    fn inside() -> Inside {
        match K::inside() {
            Inside::Keys(keys) => Inside::Named(keys),
            other => other,
        }
    }
}

/// A list of `K`, at most `MOST` long; a single value stands for a list of one.
#[derive(Debug)]
pub struct List<K, const MOST: usize>(PhantomData<K>);

impl<K: Kind, const MOST: usize> Kind for List<K, MOST> {
    type Out = Vec<K::Out>;

    fn form() -> String {
        format!("{}, or a list of them", K::form())
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<Self::Out> {
        let NodeKind::List(items) = &node.kind else {
            return reader.filled::<K>(node).map(|one| vec![one]);
        };
        if items.len() > MOST {
            reader.report(node, format_args!("has {} entries; write at most {MOST}", items.len()));
            return None;
        }
        let read: Vec<Option<K::Out>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| reader.at(&index.to_string(), |reader| reader.filled::<K>(item)))
            .collect();
        read.into_iter().collect()
    }

    fn show(out: &Self::Out) -> Option<Node> {
        Some(Node::new(NodeKind::List(out.iter().filter_map(K::show).collect())))
    }
}

/// Reads a scalar with `parse`, whose error is the whole message.
pub(super) fn scalar<T>(
    node: &Node,
    reader: &mut Reader,
    form: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    let text = reader.text(node, form)?;
    parse(text).map_err(|message| reader.report(node, message)).ok()
}

/// A duration from `MIN` to `MAX` milliseconds.
#[derive(Debug)]
pub struct Duration<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Kind for Duration<MIN, MAX> {
    type Out = DurationMs;

    fn form() -> String {
        format!("a duration from {} to {}", DurationMs(MIN), DurationMs(MAX))
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<DurationMs> {
        scalar(node, reader, &Self::form(), |text| match parse_duration_ms(text) {
            Ok(ms) if (MIN..=MAX).contains(&ms) => Ok(DurationMs(ms)),
            Ok(_) => Err(format!("{} is out of range; write {}", excerpt(text), Self::form())),
            Err(error) => Err(error.to_string()),
        })
    }

    fn show(out: &DurationMs) -> Option<Node> {
        Some(Node::scalar(out))
    }
}

/// A size from `MIN` to `MAX` bytes.
#[derive(Debug)]
pub struct Size<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Kind for Size<MIN, MAX> {
    type Out = Bytes;

    fn form() -> String {
        format!("a size from {} to {}", Bytes(MIN), Bytes(MAX))
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<Bytes> {
        scalar(node, reader, &Self::form(), |text| match parse_bytes(text) {
            Ok(bytes) if (MIN..=MAX).contains(&bytes) => Ok(Bytes(bytes)),
            Ok(_) => Err(format!("{} is out of range; write {}", excerpt(text), Self::form())),
            Err(error) => Err(error.to_string()),
        })
    }

    fn show(out: &Bytes) -> Option<Node> {
        Some(Node::scalar(out))
    }
}

/// A whole number from `MIN` to `MAX`.
#[derive(Debug)]
pub struct Count<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Kind for Count<MIN, MAX> {
    type Out = u64;

    fn form() -> String {
        format!("a whole number from {MIN} to {MAX}")
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<u64> {
        scalar(node, reader, &Self::form(), |text| match text.parse::<u64>() {
            Ok(count) if (MIN..=MAX).contains(&count) => Ok(count),
            Ok(_) => Err(format!("{text} is out of range; write {}", Self::form())),
            Err(_) => Err(format!("{} is not a whole number; write {}", excerpt(text), Self::form())),
        })
    }

    fn show(out: &u64) -> Option<Node> {
        Some(Node::scalar(out))
    }
}

/// A number above 0 and at most `MAX`.
#[derive(Debug)]
pub struct Positive<const MAX: u64>;

impl<const MAX: u64> Kind for Positive<MAX> {
    type Out = f64;

    fn form() -> String {
        format!("a number above 0 and at most {MAX}")
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<f64> {
        scalar(node, reader, &Self::form(), |text| match text.parse::<f64>() {
            Ok(number) if number > 0.0 && number <= MAX as f64 => Ok(number),
            _ => Err(format!("{} is not possible; write {}", excerpt(text), Self::form())),
        })
    }

    fn show(out: &f64) -> Option<Node> {
        Some(Node::scalar(out))
    }
}

/// A number strictly between 0 and 1.
#[derive(Debug)]
pub struct Fraction;

impl Fraction {
    pub(super) fn parse(text: &str) -> Option<f64> {
        text.parse::<f64>().ok().filter(|number| *number > 0.0 && *number < 1.0)
    }
}

impl Kind for Fraction {
    type Out = f64;

    fn form() -> String {
        "a number above 0 and below 1".into()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<f64> {
        scalar(node, reader, &Self::form(), |text| {
            Self::parse(text).ok_or_else(|| format!("{} is not possible; write {}", excerpt(text), Self::form()))
        })
    }

    fn show(out: &f64) -> Option<Node> {
        Some(Node::scalar(out))
    }
}

/// An address and a port to listen on.
#[derive(Debug)]
pub struct Address;

impl Kind for Address {
    type Out = SocketAddr;

    fn form() -> String {
        "an IP address and a port such as 0.0.0.0:8080 or [::]:8080".into()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<SocketAddr> {
        scalar(node, reader, &Self::form(), |text| {
            text.parse().map_err(|_| format!("{} is not an address; write {}", excerpt(text), Self::form()))
        })
    }

    fn show(out: &SocketAddr) -> Option<Node> {
        Some(Node::scalar(out))
    }
}

/// The path of a file or directory.
#[derive(Debug)]
pub struct FilePath;

impl Kind for FilePath {
    type Out = PathBuf;

    fn form() -> String {
        "a path".into()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<PathBuf> {
        scalar(node, reader, &Self::form(), |text| {
            if text.is_empty() || text.contains('\0') || text.len() > 4096 {
                return Err(format!("{} is not a path; write 1 to 4096 bytes without NUL", excerpt(text)));
            }
            Ok(PathBuf::from(text))
        })
    }

    fn show(out: &PathBuf) -> Option<Node> {
        Some(Node::scalar(out.display()))
    }
}

/// A short text without control characters.
#[derive(Debug)]
pub struct Text;

impl Kind for Text {
    type Out = String;

    fn form() -> String {
        "a text of 1 to 255 characters".into()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<String> {
        scalar(node, reader, &Self::form(), |text| {
            if (1..=255).contains(&text.chars().count()) && !text.contains(char::is_control) {
                return Ok(text.to_string());
            }
            Err(format!("{} is not possible; write {} and no control characters", excerpt(text), Self::form()))
        })
    }

    fn show(out: &String) -> Option<Node> {
        Some(Node::scalar(out))
    }
}

/// The name of a Kafka topic.
#[derive(Debug)]
pub struct Topic;

impl Topic {
    pub(super) fn is_legal(text: &str) -> bool {
        (1..=249).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
            && text != "."
            && text != ".."
    }
}

impl Kind for Topic {
    type Out = String;

    fn form() -> String {
        "a topic of 1 to 249 letters, digits, dots, _ and -".into()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<String> {
        scalar(node, reader, &Self::form(), |text| {
            if Self::is_legal(text) || text == super::stream::OWN_NAME {
                return Ok(text.to_string());
            }
            Err(format!("{} is not a topic; write {}", excerpt(text), Self::form()))
        })
    }

    fn show(out: &String) -> Option<Node> {
        Some(Node::scalar(out))
    }
}

/// How old observations fade.
#[derive(Debug)]
pub struct DecayForm;

/// A decay and the words it was given in, so that it can be shown without losing a digit.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenDecay {
    pub written: String,
    pub decay: Decay,
}

impl Kind for DecayForm {
    type Out = WrittenDecay;

    fn form() -> String {
        "window:1h, exponential:half_life=10m, exponential:rate=0.01 (per second), polynomial:alpha=1.5,unit=1s or \
         table:0s=1,1m=0.5,1h=0"
            .into()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<WrittenDecay> {
        scalar(node, reader, &Self::form(), |text| match text.parse() {
            Ok(decay) => Ok(WrittenDecay { written: text.to_string(), decay }),
            Err(error) => Err(error.to_string()),
        })
    }

    fn show(out: &WrittenDecay) -> Option<Node> {
        Some(Node::scalar(&out.written))
    }
}

/// How many threads own shards; `auto` is one for each core.
#[derive(Debug)]
pub struct Workers;

impl Kind for Workers {
    type Out = u64;

    fn form() -> String {
        "auto, or a whole number from 1 to 256".into()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<u64> {
        match &node.kind {
            NodeKind::Scalar(text) if text == "auto" => {
                Some(std::thread::available_parallelism().map_or(1, |cores| cores.get().min(256)) as u64)
            }
            _ => Count::<1, 256>::read(node, reader),
        }
    }

    fn show(out: &u64) -> Option<Node> {
        Some(Node::scalar(out))
    }
}
