//! What is wrong with a configuration: all errors at once, each with its key path and its line or variable.

use std::fmt;

use super::suggest::printable;
use super::tree::{SourceLocation, YamlError};

const MAX_SHOWN: usize = 100;

/// One error: where it is, what is wrong, what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The path of the key, such as `http.listen`; empty when the error belongs to no key.
    pub path: String,
    pub location: SourceLocation,
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, location, message } = self;
        let text = match (location, path.is_empty()) {
            (SourceLocation::Line(line), false) => format!("{path} (line {line}): {message}"),
            (SourceLocation::Line(line), true) => format!("line {line}: {message}"),
            (SourceLocation::Variable(name), false) => format!("{path} (from {name}): {message}"),
            (SourceLocation::Variable(name), true) => format!("{name}: {message}"),
            (SourceLocation::Unknown, false) => format!("{path}: {message}"),
            (SourceLocation::Unknown, true) => message.clone(),
        };
        f.write_str(&printable(&text))
    }
}

/// Everything that is wrong with a configuration. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// The errors in the order of the file, followed by those of the environment.
    pub fn all(&self) -> &[ConfigError] {
        &self.0
    }

    /// Errors that were found after parsing, as pairs of path and message. `None` if there are none.
    pub fn from_paths(errors: impl IntoIterator<Item = (String, String)>) -> Option<Self> {
        let error = |(path, message)| ConfigError { path, location: SourceLocation::Unknown, message };
        Self::from_errors(errors.into_iter().map(error).collect())
    }

    /// `None` if there are no errors.
    pub(super) fn from_errors(mut errors: Vec<ConfigError>) -> Option<Self> {
        errors.sort_by_key(|error| error.location.rank());
        (!errors.is_empty()).then_some(Self(errors))
    }

    /// An error of the file as a whole.
    pub(super) fn of_file(message: impl fmt::Display) -> Self {
        let (path, location) = (String::new(), SourceLocation::Unknown);
        Self(vec![ConfigError { path, location, message: message.to_string() }])
    }
}

impl From<YamlError> for ConfigErrors {
    fn from(error: YamlError) -> Self {
        let location = match error {
            YamlError::Syntax { line: Some(line), .. } => SourceLocation::Line(line),
            YamlError::Syntax { line: None, .. } | YamlError::TooLarge => SourceLocation::Unknown,
        };
        Self(vec![ConfigError { path: String::new(), location, message: format!("the file {error}") }])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => f.write_str("1 error")?,
            count if count > MAX_SHOWN => write!(f, "{count} errors, the first {MAX_SHOWN} are shown")?,
            count => write!(f, "{count} errors")?,
        }
        self.0.iter().take(MAX_SHOWN).try_for_each(|error| write!(f, "\n  {error}"))
    }
}
