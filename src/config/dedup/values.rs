//! The syntax of windows, costs and priors.

use super::{MAX_EVENTS, MAX_WINDOW_MS};
use crate::config::parser::{ConfigParser, Schema};
use crate::config::scalars::{Fraction, scalar};
use crate::config::stream::{Path, parse_path};
use crate::config::suggest::excerpt;
use crate::config::tree::{Node, NodeKind};
use ebb_sketch::units::{DurationMs, parse_duration_ms};

/// A window of time or of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowConfig {
    Time(DurationMs),
    Events(u64),
}

impl Schema for WindowConfig {
    type Value = Self;

    fn syntax() -> String {
        format!(
            "a duration from 1ms to {} such as 24h, or a number of events such as 1000000 events",
            DurationMs(MAX_WINDOW_MS)
        )
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<Self> {
        scalar(node, parser, &Self::syntax(), |text| {
            let error = || format!("{} is not a valid window; expected {}", excerpt(text), Self::syntax());
            match text.trim().strip_suffix("events") {
                Some(count) => {
                    let count = count.trim().parse().ok().filter(|count| (1..=MAX_EVENTS).contains(count));
                    count.map(Self::Events).ok_or_else(error)
                }
                None => {
                    let ms = parse_duration_ms(text).ok().filter(|ms| (1..=MAX_WINDOW_MS).contains(ms));
                    ms.map(|ms| Self::Time(DurationMs(ms))).ok_or_else(error)
                }
            }
        })
    }

    fn to_node(value: &Self) -> Option<Node> {
        Some(match value {
            Self::Time(ms) => Node::scalar(ms),
            Self::Events(count) => Node::scalar(format_args!("{count} events")),
        })
    }
}

/// The penalty of a wrong answer: a constant, or a field of the event.
#[derive(Debug, Clone, PartialEq)]
pub enum CostConfig {
    Constant(f64),
    Field(Path),
}

/// The syntax of a [`CostConfig`].
#[derive(Debug)]
pub struct CostSyntax;

impl Schema for CostSyntax {
    type Value = CostConfig;

    fn syntax() -> String {
        "a number of at least 0, or the path of a numeric field".into()
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<CostConfig> {
        scalar(node, parser, &Self::syntax(), |text| match text.parse::<f64>() {
            Ok(cost) if cost.is_finite() && cost >= 0.0 => Ok(CostConfig::Constant(cost)),
            Ok(_) => Err(format!("{} is not a valid cost; expected {}", excerpt(text), Self::syntax())),
            Err(_) => parse_path(text).map(CostConfig::Field),
        })
    }

    fn to_node(value: &CostConfig) -> Option<Node> {
        Some(match value {
            CostConfig::Constant(cost) => Node::scalar(cost),
            CostConfig::Field(path) => Node::scalar(path),
        })
    }
}

/// The prior probability of a repeat.
#[derive(Debug, Clone, PartialEq)]
pub enum PriorConfig {
    /// Learned from a sample of the stream.
    Auto,
    /// Learned separately for rare and frequent items.
    AutoFrequency,
    /// The probability that the next event has a given item.
    Constant(f64),
    /// A field of the event with that probability; learned where the field is absent.
    Field(Path),
    /// That probability by importance class; learned for other classes.
    Classes(Vec<(String, f64)>),
}

/// The syntax of a [`PriorConfig`].
#[derive(Debug)]
pub struct PriorSyntax;

impl Schema for PriorSyntax {
    type Value = PriorConfig;

    fn syntax() -> String {
        "auto, auto-frequency, a number greater than 0 and less than 1, the path of a numeric field, or a map from \
         importance classes to numbers"
            .into()
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<PriorConfig> {
        if let NodeKind::Map(entries) = &node.kind {
            let share = |(class, entry): &(String, Node)| {
                parser.at(class, |parser| Some((class.clone(), parser.parse_non_empty::<Fraction>(entry)?)))
            };
            let shares: Vec<_> = entries.iter().map(share).collect();
            return shares.into_iter().collect::<Option<_>>().map(PriorConfig::Classes);
        }
        scalar(node, parser, &Self::syntax(), |text| match (text, Fraction::parse_text(text)) {
            ("auto", _) => Ok(PriorConfig::Auto),
            ("auto-frequency", _) => Ok(PriorConfig::AutoFrequency),
            (_, Some(p)) => Ok(PriorConfig::Constant(p)),
            (_, None) if text.parse::<f64>().is_ok() => {
                Err(format!("{} is not a valid prior; expected {}", excerpt(text), Self::syntax()))
            }
            (_, None) => parse_path(text).map(PriorConfig::Field),
        })
    }

    fn to_node(value: &PriorConfig) -> Option<Node> {
        Some(match value {
            PriorConfig::Auto => Node::scalar("auto"),
            PriorConfig::AutoFrequency => Node::scalar("auto-frequency"),
            PriorConfig::Constant(p) => Node::scalar(p),
            PriorConfig::Field(path) => Node::scalar(path),
            PriorConfig::Classes(classes) => {
                let entry = |(class, share): &(String, f64)| (class.clone(), Node::scalar(share));
                Node::new(NodeKind::Map(classes.iter().map(entry).collect()))
            }
        })
    }
}
