//! How to read an event from a payload: which fields, how large.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The way to a field, from the outside in: `user.id`, with `\.` for a dot inside a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<String>);

impl Path {
    pub const MOST_SEGMENTS: usize = 8;
    pub const MOST_BYTES: usize = 1024;

    pub fn segments(&self) -> &[String] {
        &self.0
    }
}

impl FromStr for Path {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut segments = vec![String::new()];
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            let segment = segments.last_mut().expect("there is always a last segment");
            match letter {
                '.' => segments.push(String::new()),
                '\\' => segment
                    .push(letters.next().filter(|c| ".\\".contains(*c)).ok_or_else(|| SpecError::Escape(text.into()))?),
                _ => segment.push(letter),
            }
        }
        if segments.iter().any(String::is_empty) {
            return Err(SpecError::EmptySegment(text.into()));
        }
        if segments.len() > Self::MOST_SEGMENTS || text.len() > Self::MOST_BYTES {
            return Err(SpecError::LongPath(text.chars().take(60).collect()));
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

/// How the time field counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
    Rfc3339,
}

/// What is read from a payload, and how much of it is borne. Valid once [`super::Reader::new`] took it.
#[derive(Debug, Clone, PartialEq)]
pub struct EventSpec {
    /// The fields that together must not repeat: at least one.
    pub item: Vec<Path>,
    pub key: Option<Path>,
    pub time: Option<(Path, TimeUnit)>,
    pub id: Option<Path>,
    pub value: Option<Path>,
    pub weight: Option<Path>,
    pub importance: Option<Path>,
    /// Numbers that costs and aggregates refer to by their place here.
    pub numbers: Vec<Path>,
    /// Fields whose text aggregates list by name.
    pub labels: Vec<Path>,
    pub limits: Limits,
}

impl EventSpec {
    /// Only the item's fields; everything else absent.
    pub fn of_item(item: Vec<Path>) -> Self {
        Self {
            item,
            key: None,
            time: None,
            id: None,
            value: None,
            weight: None,
            importance: None,
            numbers: Vec::new(),
            labels: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// What a payload may not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub record_bytes: usize,
    pub depth: u32,
    pub fields: u32,
    pub key_bytes: usize,
}

impl Limits {
    /// serde_json itself refuses to nest deeper than 128.
    pub const MOST_DEPTH: u32 = 120;
}

impl Default for Limits {
    fn default() -> Self {
        Self { record_bytes: 1 << 20, depth: 64, fields: 1024, key_bytes: 1 << 10 }
    }
}

/// Why a specification of events was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SpecError {
    #[error("{0:?}: a backslash may only stand before a dot or a backslash")]
    Escape(String),
    #[error("{0:?}: a path needs a name on both sides of each dot")]
    EmptySegment(String),
    #[error("{0:?}: a path has at most {names} names and {bytes} bytes", names = Path::MOST_SEGMENTS, bytes = Path::MOST_BYTES)]
    LongPath(String),
    #[error("an item needs at least one field")]
    NoItem,
    #[error("{0} is read as a value and {1} inside it: a field is one or the other")]
    Nested(Path, Path),
    #[error("a depth limit must lie between 1 and {most}", most = Limits::MOST_DEPTH)]
    Depth,
}
