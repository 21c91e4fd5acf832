//! Windows, costs and priors as people write them.

use super::{LONGEST, MOST_EVENTS};
use crate::config::read::{Kind, Reader};
use crate::config::scalars::{Fraction, scalar};
use crate::config::stream::{Path, parse_path};
use crate::config::tree::Node;
use crate::config::words::excerpt;
use ebb_sketch::units::{DurationMs, parse_duration_ms};

/// A span of time or of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    Time(DurationMs),
    Events(u64),
}

impl Kind for Window {
    type Out = Self;

    fn form() -> String {
        format!(
            "a duration from 1ms to {} such as 24h, or a number of events such as 1000000 events",
            DurationMs(LONGEST)
        )
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<Self> {
        scalar(node, reader, &Self::form(), |text| {
            let refused = || format!("{} is not a window; write {}", excerpt(text), Self::form());
            match text.trim().strip_suffix("events") {
                Some(count) => {
                    let count = count.trim().parse().ok().filter(|count| (1..=MOST_EVENTS).contains(count));
                    count.map(Self::Events).ok_or_else(refused)
                }
                None => {
                    let ms = parse_duration_ms(text).ok().filter(|ms| (1..=LONGEST).contains(ms));
                    ms.map(|ms| Self::Time(DurationMs(ms))).ok_or_else(refused)
                }
            }
        })
    }

    fn show(out: &Self) -> Option<Node> {
        Some(match out {
            Self::Time(ms) => Node::scalar(ms),
            Self::Events(count) => Node::scalar(format_args!("{count} events")),
        })
    }
}

/// What one wrong answer costs.
#[derive(Debug, Clone, PartialEq)]
pub enum Cost {
    Constant(f64),
    Field(Path),
}

/// A number of at least 0, or a path to a field that holds one.
#[derive(Debug)]
pub struct CostForm;

impl Kind for CostForm {
    type Out = Cost;

    fn form() -> String {
        "a number of at least 0, or the path of a field that holds one".into()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<Cost> {
        scalar(node, reader, &Self::form(), |text| match text.parse::<f64>() {
            Ok(cost) if cost.is_finite() && cost >= 0.0 => Ok(Cost::Constant(cost)),
            Ok(_) => Err(format!("{} is not a cost; write {}", excerpt(text), Self::form())),
            Err(_) => parse_path(text).map(Cost::Field),
        })
    }

    fn show(out: &Cost) -> Option<Node> {
        Some(match out {
            Cost::Constant(cost) => Node::scalar(cost),
            Cost::Field(path) => Node::scalar(path),
        })
    }
}

/// How likely a repeat is before looking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Prior {
    /// Learnt from a sample of the stream.
    Auto,
    /// Learnt apart for rare and frequent items.
    AutoFrequency,
    /// The chance that the next event is a given item.
    Given(f64),
}

/// `auto`, `auto-frequency` or a number.
#[derive(Debug)]
pub struct PriorForm;

impl Kind for PriorForm {
    type Out = Prior;

    fn form() -> String {
        "auto, auto-frequency, or a number above 0 and below 1".into()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<Prior> {
        scalar(node, reader, &Self::form(), |text| match (text, Fraction::parse(text)) {
            ("auto", _) => Ok(Prior::Auto),
            ("auto-frequency", _) => Ok(Prior::AutoFrequency),
            (_, Some(p)) => Ok(Prior::Given(p)),
            _ => Err(format!("{} is not a prior; write {}", excerpt(text), Self::form())),
        })
    }

    fn show(out: &Prior) -> Option<Node> {
        Some(match out {
            Prior::Auto => Node::scalar("auto"),
            Prior::AutoFrequency => Node::scalar("auto-frequency"),
            Prior::Given(p) => Node::scalar(p),
        })
    }
}
