//! Bearer tokens from a file, each with a scope.
//!
//! One token per line: a name, `read` or `write`, and the token or `sha256:` followed by its hash. Only hashes are kept in
//! memory, they are compared in constant time, and no message contains any part of a token.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use prometheus::IntCounter;
use subtle::{ConditionallySelectable, ConstantTimeEq};

use super::reloading::{ReloadError, Reloading};

const MAX_TOKENS: usize = 1024;
const MIN_TOKEN_BYTES: usize = 16;
const MAX_TOKEN_BYTES: usize = 512;
const MAX_NAME_BYTES: usize = 64;
const HASH_PREFIX: &str = "sha256:";

type TokenDigest = [u8; 32];

/// Permission of a caller; `Write` includes `Read`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Read,
    Write,
}

/// A line of the tokens file.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) name: Arc<str>,
    pub(super) scope: Scope,
    digest: TokenDigest,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.name, self.scope)
    }
}

/// The entries of a tokens file; at least one.
#[derive(Debug)]
pub(super) struct Callers(Vec<Caller>);

/// The current content of a tokens file.
#[derive(Debug, Clone)]
pub struct Tokens(Reloading<Callers>);

/// Why a file is not a valid list of tokens. Names the line, never its content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokensError {
    #[error("is not UTF-8 text")]
    Encoding,
    #[error("contains no token, which would refuse every caller; add lines such as: billing write TOKEN")]
    Empty,
    #[error("contains more than {MAX_TOKENS} tokens")]
    TooMany,
    #[error("line {0}: expected a name, `read` or `write`, and a token, such as: billing write TOKEN")]
    Form(usize),
    #[error("line {0}: a name has 1 to {MAX_NAME_BYTES} letters, digits, dots, _ and -")]
    Name(usize),
    #[error("line {0}: the second word must be `read` or `write`")]
    Scope(usize),
    #[error(
        "line {0}: a token has {MIN_TOKEN_BYTES} to {MAX_TOKEN_BYTES} letters, digits and -._~+/ and may end with =; \
         generate one with `openssl rand -hex 24`"
    )]
    Token(usize),
    #[error(
        "line {0}: {HASH_PREFIX} must be followed by 64 hexadecimal digits, as printed by `printf %s TOKEN | sha256sum`"
    )]
    Hash(usize),
    #[error("line {0}: the same token as in line {1}; generate a different one")]
    Repeated(usize, usize),
}

impl Tokens {
    /// Reads the file now and whenever it changes. Must be called within a Tokio runtime.
    pub fn load(file: &Path, failures: IntCounter) -> Result<Self, ReloadError<TokensError>> {
        let build = |contents: &[Vec<u8>]| Callers::parse(&contents[0]);
        Ok(Self(Reloading::start(vec![file.to_owned()], build, failures)?))
    }

    pub(super) fn find(&self, token: &[u8]) -> Option<Caller> {
        self.0.get().find(token).cloned()
    }
}

impl Callers {
    pub(super) fn parse(content: &[u8]) -> Result<Self, TokensError> {
        let text = std::str::from_utf8(content).map_err(|_| TokensError::Encoding)?;
        let mut callers: Vec<(usize, Caller)> = Vec::new();
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        for (line, text) in lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#')) {
            let caller = parse_line(line, text)?;
            if let Some((other, _)) = callers.iter().find(|(_, other)| other.digest == caller.digest) {
                return Err(TokensError::Repeated(line, *other));
            }
            callers.push((line, caller));
        }
        match callers.len() {
            0 => Err(TokensError::Empty),
            count if count > MAX_TOKENS => Err(TokensError::TooMany),
            _ => Ok(Self(callers.into_iter().map(|(_, caller)| caller).collect())),
        }
    }

    /// Compares with every entry, so that the time taken reveals nothing about the match.
    fn find(&self, token: &[u8]) -> Option<&Caller> {
        let digest = digest(token);
        let mut found = u64::MAX;
        for (index, caller) in self.0.iter().enumerate() {
            found.conditional_assign(&(index as u64), caller.digest.ct_eq(&digest));
        }
        self.0.get(usize::try_from(found).ok()?)
    }
}

fn parse_line(line: usize, text: &str) -> Result<Caller, TokensError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [name, scope, secret] = words[..] else { return Err(TokensError::Form(line)) };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.len() > MAX_NAME_BYTES || !name.bytes().all(is_plain) {
        return Err(TokensError::Name(line));
    }
    let scope = match scope {
        "read" => Scope::Read,
        "write" => Scope::Write,
        _ => return Err(TokensError::Scope(line)),
    };
    let digest = match secret.strip_prefix(HASH_PREFIX) {
        Some(hash) => parse_digest(hash).ok_or(TokensError::Hash(line))?,
        None if is_token(secret) => digest(secret.as_bytes()),
        None => return Err(TokensError::Token(line)),
    };
    Ok(Caller { name: name.into(), scope, digest })
}

/// The form of RFC 6750, and too long to be guessed.
fn is_token(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    (MIN_TOKEN_BYTES..=MAX_TOKEN_BYTES).contains(&text.len())
        && !body.is_empty()
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte))
}

fn parse_digest(text: &str) -> Option<TokenDigest> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut digest = TokenDigest::default();
    for (byte, digits) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(digest)
}

fn digest(token: &[u8]) -> TokenDigest {
    let hash = ring::digest::digest(&ring::digest::SHA256, token);
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "correct-horse-battery-staple";

    fn parse_error(text: &str) -> TokensError {
        Callers::parse(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn tokens_are_found_whether_stored_as_text_or_as_hash() {
        // printf %s abcdefghijklmnop | sha256sum
        let hash = "f39dac6cbaba535e2c207cd0cd8f154974223c848f727f98b3564cea569b41cf";
        let text =
            format!("# comment\n\n  billing write {TOKEN}\r\nviewer\tread  sha256:{hash}  \nviewer read {TOKEN}==");
        let callers = Callers::parse(text.as_bytes()).unwrap();
        let found = |token: &str| callers.find(token.as_bytes()).map(|caller| (&*caller.name, caller.scope));
        assert_eq!(found(TOKEN), Some(("billing", Scope::Write)));
        assert_eq!(found("abcdefghijklmnop"), Some(("viewer", Scope::Read)));
        assert_eq!(found("correct-horse-battery-staple=="), Some(("viewer", Scope::Read)));
        for unknown in ["", "correct-horse-battery-stapl", "correct-horse-battery-staple ", hash] {
            assert_eq!(found(unknown), None, "{unknown:?}");
        }
    }

    #[test]
    fn invalid_file_is_refused_with_the_line_number() {
        assert_eq!(parse_error(""), TokensError::Empty);
        assert_eq!(parse_error("# nobody\n"), TokensError::Empty);
        assert_eq!(Callers::parse(b"a read \xff").unwrap_err(), TokensError::Encoding);
        for text in ["billing write", "billing", "a read one two"] {
            assert_eq!(parse_error(&format!("\n{text}")), TokensError::Form(2), "{text}");
        }
        assert_eq!(parse_error(&format!("a\u{1b} read {TOKEN}")), TokensError::Name(1));
        assert_eq!(parse_error(&format!("{} read {TOKEN}", "a".repeat(65))), TokensError::Name(1));
        assert_eq!(parse_error(&format!("a admin {TOKEN}")), TokensError::Scope(1));
        for token in ["short", "================", "sixteen-letters-ä", &"a".repeat(513)] {
            assert_eq!(parse_error(&format!("a read {token}")), TokensError::Token(1), "{token}");
        }
        for hash in ["", "abc", &"g".repeat(64), &"+1".repeat(32)] {
            assert_eq!(parse_error(&format!("a read sha256:{hash}")), TokensError::Hash(1), "{hash}");
        }
        assert_eq!(parse_error(&format!("a read {TOKEN}\n\nb write {TOKEN}")), TokensError::Repeated(3, 1));
        let many: String = (0..=MAX_TOKENS).map(|number| format!("a read {TOKEN}-{number}\n")).collect();
        assert_eq!(parse_error(&many), TokensError::TooMany);
    }

    #[test]
    fn error_messages_contain_no_part_of_a_token() {
        for text in
            ["a read hunter2", "hunter2", "hunter2 read hunter2 hunter2", "a hunter2 x", "a read sha256:hunter2"]
        {
            let error = parse_error(text);
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        let callers = Callers::parse(format!("a read {TOKEN}").as_bytes()).unwrap();
        assert_eq!(format!("{callers:?}"), "Callers([a (Read)])");
    }
}
