//! Schemas of single values: durations, sizes, numbers, addresses, paths, topics and decays.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::parser::{ConfigParser, Schema};
use super::suggest::excerpt;
use super::tree::{Node, NodeKind};
use ebb_sketch::decay::Decay;
use ebb_sketch::units::{Bytes, DurationMs, parse_bytes, parse_duration_ms};

/// Parses a scalar with `parse`, whose error is the whole message.
pub(super) fn scalar<T>(
    node: &Node,
    parser: &mut ConfigParser,
    form: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    let text = parser.scalar_text(node, form)?;
    parse(text).map_err(|message| parser.error(node, message)).ok()
}

/// A duration from `MIN` to `MAX` milliseconds.
#[derive(Debug)]
pub struct DurationRange<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Schema for DurationRange<MIN, MAX> {
    type Value = DurationMs;

    fn syntax() -> String {
        format!("a duration from {} to {}", DurationMs(MIN), DurationMs(MAX))
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<DurationMs> {
        scalar(node, parser, &Self::syntax(), |text| match parse_duration_ms(text) {
            Ok(ms) if (MIN..=MAX).contains(&ms) => Ok(DurationMs(ms)),
            Ok(_) => Err(format!("{} is out of range; expected {}", excerpt(text), Self::syntax())),
            Err(error) => Err(error.to_string()),
        })
    }

    fn to_node(value: &DurationMs) -> Option<Node> {
        Some(Node::scalar(value))
    }
}

/// A size from `MIN` to `MAX` bytes.
#[derive(Debug)]
pub struct SizeRange<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Schema for SizeRange<MIN, MAX> {
    type Value = Bytes;

    fn syntax() -> String {
        format!("a size from {} to {}", Bytes(MIN), Bytes(MAX))
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<Bytes> {
        scalar(node, parser, &Self::syntax(), |text| match parse_bytes(text) {
            Ok(bytes) if (MIN..=MAX).contains(&bytes) => Ok(Bytes(bytes)),
            Ok(_) => Err(format!("{} is out of range; expected {}", excerpt(text), Self::syntax())),
            Err(error) => Err(error.to_string()),
        })
    }

    fn to_node(value: &Bytes) -> Option<Node> {
        Some(Node::scalar(value))
    }
}

/// A whole number from `MIN` to `MAX`.
#[derive(Debug)]
pub struct IntegerRange<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Schema for IntegerRange<MIN, MAX> {
    type Value = u64;

    fn syntax() -> String {
        format!("a whole number from {MIN} to {MAX}")
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<u64> {
        scalar(node, parser, &Self::syntax(), |text| match text.parse::<u64>() {
            Ok(count) if (MIN..=MAX).contains(&count) => Ok(count),
            Ok(_) => Err(format!("{text} is out of range; expected {}", Self::syntax())),
            Err(_) => Err(format!("{} is not a whole number; expected {}", excerpt(text), Self::syntax())),
        })
    }

    fn to_node(value: &u64) -> Option<Node> {
        Some(Node::scalar(value))
    }
}

/// A number greater than 0 and at most `MAX`.
#[derive(Debug)]
pub struct PositiveNumber<const MAX: u64>;

impl<const MAX: u64> Schema for PositiveNumber<MAX> {
    type Value = f64;

    fn syntax() -> String {
        format!("a number greater than 0 and at most {MAX}")
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<f64> {
        scalar(node, parser, &Self::syntax(), |text| match text.parse::<f64>() {
            Ok(number) if number > 0.0 && number <= MAX as f64 => Ok(number),
            _ => Err(format!("{} is not valid; expected {}", excerpt(text), Self::syntax())),
        })
    }

    fn to_node(value: &f64) -> Option<Node> {
        Some(Node::scalar(value))
    }
}

/// A number strictly between 0 and 1.
#[derive(Debug)]
pub struct Fraction;

impl Fraction {
    pub(super) fn parse_text(text: &str) -> Option<f64> {
        text.parse::<f64>().ok().filter(|number| *number > 0.0 && *number < 1.0)
    }
}

impl Schema for Fraction {
    type Value = f64;

    fn syntax() -> String {
        "a number greater than 0 and less than 1".into()
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<f64> {
        scalar(node, parser, &Self::syntax(), |text| {
            Self::parse_text(text).ok_or_else(|| format!("{} is not valid; expected {}", excerpt(text), Self::syntax()))
        })
    }

    fn to_node(value: &f64) -> Option<Node> {
        Some(Node::scalar(value))
    }
}

/// An address and a port to listen on.
#[derive(Debug)]
pub struct ListenAddress;

impl Schema for ListenAddress {
    type Value = SocketAddr;

    fn syntax() -> String {
        "an IP address and a port such as 0.0.0.0:8080 or [::]:8080".into()
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<SocketAddr> {
        scalar(node, parser, &Self::syntax(), |text| {
            text.parse().map_err(|_| format!("{} is not a valid address; expected {}", excerpt(text), Self::syntax()))
        })
    }

    fn to_node(value: &SocketAddr) -> Option<Node> {
        Some(Node::scalar(value))
    }
}

/// The path of a file or directory.
#[derive(Debug)]
pub struct FilePath;

impl Schema for FilePath {
    type Value = PathBuf;

    fn syntax() -> String {
        "a path".into()
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<PathBuf> {
        scalar(node, parser, &Self::syntax(), |text| {
            if text.is_empty() || text.contains('\0') || text.len() > 4096 {
                return Err(format!("{} is not a valid path; expected 1 to 4096 bytes without NUL", excerpt(text)));
            }
            Ok(PathBuf::from(text))
        })
    }

    fn to_node(value: &PathBuf) -> Option<Node> {
        Some(Node::scalar(value.display()))
    }
}

/// A short text without control characters.
#[derive(Debug)]
pub struct ShortText;

impl Schema for ShortText {
    type Value = String;

    fn syntax() -> String {
        "a text of 1 to 255 characters".into()
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<String> {
        scalar(node, parser, &Self::syntax(), |text| {
            if (1..=255).contains(&text.chars().count()) && !text.contains(char::is_control) {
                return Ok(text.to_string());
            }
            Err(format!("{} is not valid; expected {} without control characters", excerpt(text), Self::syntax()))
        })
    }

    fn to_node(value: &String) -> Option<Node> {
        Some(Node::scalar(value))
    }
}

/// The placeholder for the stream's name in topic names.
pub const STREAM_PLACEHOLDER: &str = "<stream>";

/// The name of a Kafka topic.
#[derive(Debug)]
pub struct TopicName;

impl TopicName {
    fn is_legal(text: &str) -> bool {
        (1..=249).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
            && text != "."
            && text != ".."
    }
}

impl Schema for TopicName {
    type Value = String;

    fn syntax() -> String {
        format!(
            "a topic of 1 to 249 letters, digits, dots, _ and - ({STREAM_PLACEHOLDER} stands for the stream's name)"
        )
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<String> {
        scalar(node, parser, &Self::syntax(), |text| {
            // If it is legal with the longest stream name, it is legal with any.
            if Self::is_legal(&text.replace(STREAM_PLACEHOLDER, &"x".repeat(64))) {
                return Ok(text.to_string());
            }
            Err(format!("{} is not a valid topic; expected {}", excerpt(text), Self::syntax()))
        })
    }

    fn to_node(value: &String) -> Option<Node> {
        Some(Node::scalar(value))
    }
}

/// The syntax of a decay function.
#[derive(Debug)]
pub struct DecaySyntax;

/// A decay function and its original text, which prints without loss of digits.
#[derive(Debug, Clone, PartialEq)]
pub struct DecayConfig {
    pub text: String,
    pub decay: Decay,
}

impl Schema for DecaySyntax {
    type Value = DecayConfig;

    fn syntax() -> String {
        "window:1h, exponential:half_life=10m, exponential:rate=0.01 (per second), polynomial:alpha=1.5,unit=1s or \
         table:0s=1,1m=0.5,1h=0"
            .into()
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<DecayConfig> {
        scalar(node, parser, &Self::syntax(), |text| match text.parse() {
            Ok(decay) => Ok(DecayConfig { text: text.to_string(), decay }),
            Err(error) => Err(error.to_string()),
        })
    }

    fn to_node(value: &DecayConfig) -> Option<Node> {
        Some(Node::scalar(&value.text))
    }
}

/// The number of worker threads; `auto` is one per CPU core.
#[derive(Debug)]
pub struct WorkerCount;

impl Schema for WorkerCount {
    type Value = u64;

    fn syntax() -> String {
        "auto, or a whole number from 1 to 256".into()
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<u64> {
        match &node.kind {
            NodeKind::Scalar(text) if text == "auto" => {
                Some(std::thread::available_parallelism().map_or(1, |cores| cores.get().min(256)) as u64)
            }
            _ => IntegerRange::<1, 256>::from_node(node, parser),
        }
    }

    fn to_node(value: &u64) -> Option<Node> {
        Some(Node::scalar(value))
    }
}
