//! Predicates of share queries: comparisons of value or weight, joined by `and`, `or` and `not`.
//!
//! Bounds are integers where they are compared with what a sketch keeps, and fractions in the units of the events. The
//! grammar is closed and bounded: at most [`MAX_COMPARISONS`] comparisons, nested at most [`MAX_DEPTH`] deep. `not` binds
//! tighter than `and`, and `and` tighter than `or`. A negation is resolved when it is read: `not value < 5` is
//! `value >= 5`.

use std::fmt;
use std::str::FromStr;

/// The most comparisons in one predicate.
pub const MAX_COMPARISONS: usize = 32;
/// The deepest nesting of parentheses.
pub const MAX_DEPTH: usize = 8;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The value of the observation.
    Value,
    /// The weight of the observation.
    Weight,
}

/// How it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `>=`
    AtLeast,
    /// `>`
    More,
}

/// A condition on one observation.
///
/// ```
/// use ebb_sketch::aggregate::predicate::Predicate;
///
/// let predicate: Predicate = "value >= 100 and not (weight >= 5 and value != 700)".parse()?;
/// assert!(predicate.matches(150, 1) && predicate.matches(700, 9) && !predicate.matches(99, 1));
/// # Ok::<(), ebb_sketch::aggregate::predicate::PredicateError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Predicate<B = u64> {
    /// One comparison.
    Compare {
        /// What is compared.
        field: Field,
        /// How it is compared.
        comparison: Comparison,
        /// With what it is compared.
        bound: B,
    },
    /// All parts hold; true without parts.
    All(Vec<Predicate<B>>),
    /// At least one part holds; false without parts.
    Any(Vec<Predicate<B>>),
}

/// Why a predicate could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PredicateError {
    /// The text does not follow the grammar.
    #[error("expected {expected} at {found:?}; write value >= 100 and (weight < 5 or value = 7)")]
    Syntax {
        /// What the grammar expects.
        expected: &'static str,
        /// The text at that position.
        found: String,
    },
    /// There are more than [`MAX_COMPARISONS`] comparisons.
    #[error("a predicate has at most {MAX_COMPARISONS} comparisons")]
    TooMany,
    /// Parentheses are nested deeper than [`MAX_DEPTH`].
    #[error("parentheses are nested at most {MAX_DEPTH} deep")]
    TooDeep,
}

const SIGNS: [(&str, Comparison); 8] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("!=", Comparison::NotEqual),
    ("==", Comparison::Equal),
    ("<>", Comparison::NotEqual),
    ("<", Comparison::Less),
    (">", Comparison::More),
    ("=", Comparison::Equal),
];

impl Comparison {
    fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Self::Less => left < right,
            Self::AtMost => left <= right,
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::AtLeast => left >= right,
            Self::More => left > right,
        }
    }

    fn negated(self) -> Self {
        match self {
            Self::Less => Self::AtLeast,
            Self::AtMost => Self::More,
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::AtLeast => Self::Less,
            Self::More => Self::AtMost,
        }
    }

    fn sign(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::AtLeast => ">=",
            Self::More => ">",
        }
    }
}

impl Predicate {
    /// `value <= bound`: its share is the rank of `bound`.
    pub fn value_at_most(bound: u64) -> Self {
        Self::Compare { field: Field::Value, comparison: Comparison::AtMost, bound }
    }

    /// Whether the predicate selects an observation of this value and weight.
    pub fn matches(&self, value: u64, weight: u64) -> bool {
        match self {
            Self::Compare { field: Field::Value, comparison, bound } => comparison.holds(value, *bound),
            Self::Compare { field: Field::Weight, comparison, bound } => comparison.holds(weight, *bound),
            Self::All(parts) => parts.iter().all(|part| part.matches(value, weight)),
            Self::Any(parts) => parts.iter().any(|part| part.matches(value, weight)),
        }
    }
}

impl<B> Predicate<B> {
    /// Selects exactly the observations that this predicate does not.
    pub fn negated(self) -> Self {
        let all = |parts: Vec<Self>| parts.into_iter().map(Self::negated).collect();
        match self {
            Self::Compare { field, comparison, bound } => {
                Self::Compare { field, comparison: comparison.negated(), bound }
            }
            Self::All(parts) => Self::Any(all(parts)),
            Self::Any(parts) => Self::All(all(parts)),
        }
    }
}

impl<B: fmt::Display> fmt::Display for Predicate<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |f: &mut fmt::Formatter<'_>, parts: &[Self], word: &str| {
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    write!(f, " {word} ")?;
                }
                match part {
                    Self::Compare { .. } => write!(f, "{part}")?,
                    Self::All(_) | Self::Any(_) => write!(f, "({part})")?,
                }
            }
            Ok(())
        };
        match self {
            Self::Compare { field, comparison, bound } => {
                let name = if *field == Field::Value { "value" } else { "weight" };
                write!(f, "{name} {} {bound}", comparison.sign())
            }
            Self::All(parts) => joined(f, parts, "and"),
            Self::Any(parts) => joined(f, parts, "or"),
        }
    }
}

impl FromStr for Predicate {
    type Err = PredicateError;

    fn from_str(text: &str) -> Result<Self, PredicateError> {
        PredicateParser::new(text, (|text| text.parse().ok(), "a whole number below 2^64")).parse()
    }
}

impl FromStr for Predicate<f64> {
    type Err = PredicateError;

    fn from_str(text: &str) -> Result<Self, PredicateError> {
        // The parser passes only digits and a point: no sign, no exponent, no infinity.
        let read = |text: &str| text.parse().ok().filter(|bound: &f64| bound.is_finite());
        PredicateParser::new(text, (read, "a number such as 10 or 0.25")).parse()
    }
}

/// How a bound is parsed, and how errors name it.
type BoundParser<B> = (fn(&str) -> Option<B>, &'static str);

struct PredicateParser<'a, B> {
    rest: &'a str,
    comparisons: usize,
    bound: BoundParser<B>,
}

impl<'a, B> PredicateParser<'a, B> {
    fn new(text: &'a str, bound: BoundParser<B>) -> Self {
        Self { rest: text.trim(), comparisons: 0, bound }
    }

    fn parse(mut self) -> Result<Predicate<B>, PredicateError> {
        let predicate = self.any(0)?;
        if self.rest.is_empty() { Ok(predicate) } else { Err(self.expected("and, or, or the end")) }
    }

    fn expected(&self, expected: &'static str) -> PredicateError {
        PredicateError::Syntax { expected, found: self.rest.chars().take(24).collect() }
    }

    fn any(&mut self, depth: usize) -> Result<Predicate<B>, PredicateError> {
        let mut parts = vec![self.all(depth)?];
        while self.consume_word("or") {
            parts.push(self.all(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Predicate::Any(parts) })
    }

    fn all(&mut self, depth: usize) -> Result<Predicate<B>, PredicateError> {
        let mut parts = vec![self.term(depth)?];
        while self.consume_word("and") {
            parts.push(self.term(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Predicate::All(parts) })
    }

    fn term(&mut self, depth: usize) -> Result<Predicate<B>, PredicateError> {
        let mut negations = 0;
        while self.consume_word("not") {
            negations += 1;
        }
        let term = self.positive_term(depth)?;
        Ok(if negations % 2 == 1 { term.negated() } else { term })
    }

    fn positive_term(&mut self, depth: usize) -> Result<Predicate<B>, PredicateError> {
        if !self.consume_sign("(") {
            return self.comparison();
        }
        if depth == MAX_DEPTH {
            return Err(PredicateError::TooDeep);
        }
        let inner = self.any(depth + 1)?;
        if self.consume_sign(")") { Ok(inner) } else { Err(self.expected("a closing parenthesis")) }
    }

    fn comparison(&mut self) -> Result<Predicate<B>, PredicateError> {
        let field = match (self.consume_word("value"), self.consume_word("weight")) {
            (true, _) => Field::Value,
            (false, true) => Field::Weight,
            (false, false) => return Err(self.expected("value or weight")),
        };
        let (_, comparison) =
            SIGNS.into_iter().find(|(sign, _)| self.consume_sign(sign)).ok_or_else(|| self.expected("a comparison"))?;
        let digits = self.rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(self.rest.len());
        let (read, expected) = self.bound;
        let bound = read(&self.rest[..digits]).ok_or_else(|| self.expected(expected))?;
        self.rest = self.rest[digits..].trim_start();
        self.comparisons += 1;
        if self.comparisons > MAX_COMPARISONS {
            return Err(PredicateError::TooMany);
        }
        Ok(Predicate::Compare { field, comparison, bound })
    }

    /// Consumes `word` if it comes next as a whole word.
    fn consume_word(&mut self, word: &str) -> bool {
        match self.rest.strip_prefix(word) {
            Some(after) if !after.starts_with(|c: char| c.is_alphanumeric() || c == '_') => {
                self.rest = after.trim_start();
                true
            }
            _ => false,
        }
    }

    fn consume_sign(&mut self, sign: &str) -> bool {
        match self.rest.strip_prefix(sign) {
            Some(after) => {
                self.rest = after.trim_start();
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests;
