//! The kinds of single values: durations, sizes, counts, fractions, addresses, paths, topics, decays.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::read::{Kind, Reader};
use super::tree::{Node, NodeKind};
use super::words::excerpt;
use ebb_sketch::decay::Decay;
use ebb_sketch::units::{Bytes, DurationMs, parse_bytes, parse_duration_ms};

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

/// Stands for the stream's own name in a topic.
pub const OWN_NAME: &str = "<stream>";

/// The name of a Kafka topic.
#[derive(Debug)]
pub struct Topic;

impl Topic {
    fn is_legal(text: &str) -> bool {
        (1..=249).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
            && text != "."
            && text != ".."
    }
}

impl Kind for Topic {
    type Out = String;

    fn form() -> String {
        format!("a topic of 1 to 249 letters, digits, dots, _ and - ({OWN_NAME} stands for the stream's name)")
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<String> {
        scalar(node, reader, &Self::form(), |text| {
            // Legal with the longest name is legal with any.
            if Self::is_legal(&text.replace(OWN_NAME, &"x".repeat(64))) {
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
