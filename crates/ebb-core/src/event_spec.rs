//! Which fields of a payload form an event, and how large a payload may be.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The path of a field from the outermost object inwards: `user.id`, with `\.` for a dot inside a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<String>);

impl Path {
    /// Maximum number of names in a path.
    pub const MAX_SEGMENTS: usize = 8;
    /// Maximum length of the text of a path.
    pub const MAX_BYTES: usize = 1024;

    /// The names from the outermost object inwards.
    pub fn segments(&self) -> &[String] {
        &self.0
    }
}

impl FromStr for Path {
    type Err = EventSpecError;

    fn from_str(text: &str) -> Result<Self, EventSpecError> {
        let (mut segments, mut segment) = (Vec::new(), String::new());
        let mut chars = text.chars();
        while let Some(char) = chars.next() {
            match char {
                '.' => segments.push(std::mem::take(&mut segment)),
                '\\' => {
                    let escaped = chars.next().filter(|next| ".\\".contains(*next));
                    segment.push(escaped.ok_or_else(|| EventSpecError::Escape(text.into()))?);
                }
                _ => segment.push(char),
            }
        }
        segments.push(segment);
        if segments.iter().any(String::is_empty) {
            return Err(EventSpecError::EmptySegment(text.into()));
        }
        if segments.len() > Self::MAX_SEGMENTS || text.len() > Self::MAX_BYTES {
            return Err(EventSpecError::LongPath(text.chars().take(60).collect()));
        }
        Ok(Self(segments))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped: Vec<String> = self.0.iter().map(|s| s.replace('\\', "\\\\").replace('.', "\\.")).collect();
        f.write_str(&escaped.join("."))
    }
}

/// How the time field is written.
// The order is part of the plan's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds since 1970.
    Seconds,
    /// Milliseconds since 1970.
    Milliseconds,
    /// Microseconds since 1970.
    Microseconds,
    /// Nanoseconds since 1970.
    Nanoseconds,
    /// A text such as `2026-11-16T02:35:00Z`.
    Rfc3339,
}

impl TimeUnit {
    /// All units.
    pub const ALL: [TimeUnit; 5] =
        [TimeUnit::Seconds, TimeUnit::Milliseconds, TimeUnit::Microseconds, TimeUnit::Nanoseconds, TimeUnit::Rfc3339];

    /// The name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            TimeUnit::Seconds => "s",
            TimeUnit::Milliseconds => "ms",
            TimeUnit::Microseconds => "us",
            TimeUnit::Nanoseconds => "ns",
            TimeUnit::Rfc3339 => "rfc3339",
        }
    }
}

/// Importance classes that events name instead of stating a number.
///
/// ```
/// use ebb_core::ImportanceClasses;
///
/// let classes = ImportanceClasses::new([("gold".to_string(), 3.0), ("silver".to_string(), 2.0)], None);
/// assert_eq!((classes.importance("gold"), classes.importance("bronze")), (Some(3.0), None));
/// assert_eq!(classes.name(2.0), Some("silver"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ImportanceClasses {
    classes: BTreeMap<String, f64>,
    other: Option<f64>,
}

impl ImportanceClasses {
    /// `other` is the importance of classes that are not listed; without it their events are rejected.
    pub fn new(classes: impl IntoIterator<Item = (String, f64)>, other: Option<f64>) -> Self {
        Self { classes: classes.into_iter().collect(), other }
    }

    /// The importance of a class; `None` if it is unknown.
    pub fn importance(&self, class: &str) -> Option<f64> {
        self.classes.get(class).copied().or(self.other)
    }

    /// The first class of this importance; `None` if no listed class has it.
    pub fn name(&self, importance: f64) -> Option<&str> {
        self.classes.iter().find(|(_, listed)| **listed == importance).map(|(name, _)| name.as_str())
    }

    /// The listed classes with their importance, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.classes.iter().map(|(name, importance)| (name.as_str(), *importance))
    }

    /// The importance of classes that are not listed.
    pub fn other(&self) -> Option<f64> {
        self.other
    }
}

/// The fields that are read from a payload. Checked by [`crate::Reader::new`].
#[derive(Debug, Clone, PartialEq)]
pub struct EventSpec {
    /// The fields that together must not repeat; at least one.
    pub item: Vec<Path>,
    /// The key; part of the item's identity.
    pub key: Option<Path>,
    /// The event time and how it is written.
    pub time: Option<(Path, TimeUnit)>,
    /// The identity of the observation.
    pub id: Option<Path>,
    /// The number that aggregates measure by default.
    pub value: Option<Path>,
    /// How often the event counts in aggregates.
    pub weight: Option<Path>,
    /// Importance class for filters that forget by importance.
    pub importance: Option<Path>,
    /// The names of importance classes; without them importances are numbers.
    pub importance_classes: Option<ImportanceClasses>,
    /// Numbers that costs and aggregates refer to by their index here.
    pub numbers: Vec<Path>,
    /// Fields whose texts aggregates list by name.
    pub labels: Vec<Path>,
    /// Limits of the whole payload.
    pub limits: PayloadLimits,
}

impl EventSpec {
    /// Reads the item's fields and nothing else.
    pub fn of_item(item: Vec<Path>) -> Self {
        Self {
            item,
            key: None,
            time: None,
            id: None,
            value: None,
            weight: None,
            importance: None,
            importance_classes: None,
            numbers: Vec::new(),
            labels: Vec::new(),
            limits: PayloadLimits::default(),
        }
    }
}

/// Limits of a payload; a larger one is rejected with [`crate::Reason::Limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadLimits {
    /// Maximum size of the payload.
    pub record_bytes: usize,
    /// Maximum nesting of objects and lists.
    pub depth: u32,
    /// Maximum number of fields in all objects together.
    pub fields: u32,
    /// Maximum length of a field name.
    pub key_bytes: usize,
}

impl PayloadLimits {
    /// Maximum of [`PayloadLimits::depth`]: serde_json itself refuses to nest deeper than 128.
    pub const MAX_DEPTH: u32 = 120;
}

impl Default for PayloadLimits {
    fn default() -> Self {
        Self { record_bytes: 1 << 20, depth: 64, fields: 1024, key_bytes: 1 << 10 }
    }
}

/// Why an [`EventSpec`] or a [`Path`] is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EventSpecError {
    /// A backslash before another character.
    #[error("{0:?}: a backslash in a path must be followed by a dot or a backslash")]
    Escape(String),
    /// A path begins or ends with a dot, or contains two in a row.
    #[error("{0:?}: a path needs a name on both sides of each dot")]
    EmptySegment(String),
    /// A path is too long.
    #[error("{0:?}: a path has at most {names} names and {bytes} bytes", names = Path::MAX_SEGMENTS, bytes = Path::MAX_BYTES)]
    LongPath(String),
    /// The item has no fields.
    #[error("an item needs at least one field")]
    NoItem,
    /// One path is read as a scalar, another reads a field inside it.
    #[error("{0} is read as a value, but {1} is a field inside it")]
    Nested(Path, Path),
    /// The depth limit is out of range.
    #[error("the depth limit must be between 1 and {max}", max = PayloadLimits::MAX_DEPTH)]
    Depth,
}
