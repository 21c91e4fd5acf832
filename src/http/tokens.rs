//! Who may ask and who may record: bearer tokens from a file.
//!
//! One token a line: a name, `read` or `write`, and the token itself or `sha256:` and its hash. Only hashes are kept, they
//! are compared in constant time, and no message contains any part of a token.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use prometheus::IntCounter;
use subtle::{ConditionallySelectable, ConstantTimeEq};

use super::fresh::{Fresh, FreshError};

const MOST_TOKENS: usize = 1024;
const LEAST_TOKEN_BYTES: usize = 16;
const MOST_TOKEN_BYTES: usize = 512;
const MOST_NAME_BYTES: usize = 64;
const HASHED: &str = "sha256:";

type Digest = [u8; 32];

/// What a caller may do; `Write` includes `Read`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Read,
    Write,
}

/// Somebody who may come in.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) name: Arc<str>,
    pub(super) scope: Scope,
    digest: Digest,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.name, self.scope)
    }
}

/// Everybody who may come in; at least one.
#[derive(Debug)]
pub(super) struct Callers(Vec<Caller>);

/// The tokens of a file, as of now.
#[derive(Debug, Clone)]
pub struct Tokens(Fresh<Callers>);

/// Why a file is no list of tokens. Says the line, never what stands there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokensError {
    #[error("is not UTF-8 text")]
    Encoding,
    #[error("has no token, so that nobody could come in; write lines such as: billing write TOKEN")]
    Empty,
    #[error("has more than {MOST_TOKENS} tokens")]
    Many,
    #[error("line {0}: write a name, `read` or `write`, and a token: billing write TOKEN")]
    Form(usize),
    #[error("line {0}: a name has 1 to {MOST_NAME_BYTES} letters, digits, dots, _ and -")]
    Name(usize),
    #[error("line {0}: the second word is neither `read` nor `write`")]
    Scope(usize),
    #[error(
        "line {0}: a token has {LEAST_TOKEN_BYTES} to {MOST_TOKEN_BYTES} letters, digits and -._~+/ and may end with =; \
         `openssl rand -hex 24` makes one"
    )]
    Token(usize),
    #[error("line {0}: {HASHED} is followed by 64 hexadecimal digits; `printf %s TOKEN | sha256sum` prints them")]
    Hash(usize),
    #[error("line {0}: the same token as in line {1}; make another")]
    Repeated(usize, usize),
}

impl Tokens {
    /// Reads the file now and again whenever it changes. Within a runtime only.
    pub fn load(file: &Path, failures: IntCounter) -> Result<Self, FreshError<TokensError>> {
        let make = |contents: &[Vec<u8>]| Callers::parse(&contents[0]);
        Ok(Self(Fresh::follow(vec![file.to_owned()], make, failures)?))
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
            count if count > MOST_TOKENS => Err(TokensError::Many),
            _ => Ok(Self(callers.into_iter().map(|(_, caller)| caller).collect())),
        }
    }

    /// Looks at all of them, whichever it is, so that the time taken tells nothing.
    fn find(&self, token: &[u8]) -> Option<&Caller> {
        let digest = digest(token);
        let mut place = u64::MAX;
        for (index, caller) in self.0.iter().enumerate() {
            place.conditional_assign(&(index as u64), caller.digest.ct_eq(&digest));
        }
        self.0.get(usize::try_from(place).ok()?)
    }
}

fn parse_line(line: usize, text: &str) -> Result<Caller, TokensError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [name, scope, secret] = words[..] else { return Err(TokensError::Form(line)) };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.len() > MOST_NAME_BYTES || !name.bytes().all(plain) {
        return Err(TokensError::Name(line));
    }
    let scope = match scope {
        "read" => Scope::Read,
        "write" => Scope::Write,
        _ => return Err(TokensError::Scope(line)),
    };
    let digest = match secret.strip_prefix(HASHED) {
        Some(hash) => parse_digest(hash).ok_or(TokensError::Hash(line))?,
        None if is_token(secret) => digest(secret.as_bytes()),
        None => return Err(TokensError::Token(line)),
    };
    Ok(Caller { name: name.into(), scope, digest })
}

/// The form of RFC 6750, and long enough not to be guessed.
fn is_token(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    (LEAST_TOKEN_BYTES..=MOST_TOKEN_BYTES).contains(&text.len())
        && !body.is_empty()
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte))
}

fn parse_digest(text: &str) -> Option<Digest> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut digest = Digest::default();
    for (byte, digits) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(digest)
}

fn digest(token: &[u8]) -> Digest {
    let hash = ring::digest::digest(&ring::digest::SHA256, token);
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "correct-horse-battery-staple";

    fn refused(text: &str) -> TokensError {
        Callers::parse(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn tokens_are_found_by_their_text_whether_written_plainly_or_as_a_hash() {
        // printf %s abcdefghijklmnop | sha256sum
        let hash = "f39dac6cbaba535e2c207cd0cd8f154974223c848f727f98b3564cea569b41cf";
        let text = format!(
            "# who may come in\n\n  billing write {TOKEN}\r\nviewer\tread  sha256:{hash}  \nviewer read {TOKEN}=="
        );
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
    fn a_file_that_is_no_list_of_tokens_is_refused_with_the_line() {
        assert_eq!(refused(""), TokensError::Empty);
        assert_eq!(refused("# nobody\n"), TokensError::Empty);
        assert_eq!(Callers::parse(b"a read \xff").unwrap_err(), TokensError::Encoding);
        for text in ["billing write", "billing", "a read one two"] {
            assert_eq!(refused(&format!("\n{text}")), TokensError::Form(2), "{text}");
        }
        assert_eq!(refused(&format!("a\u{1b} read {TOKEN}")), TokensError::Name(1));
        assert_eq!(refused(&format!("{} read {TOKEN}", "a".repeat(65))), TokensError::Name(1));
        assert_eq!(refused(&format!("a admin {TOKEN}")), TokensError::Scope(1));
        for token in ["short", "================", "sixteen-letters-ä", &"a".repeat(513)] {
            assert_eq!(refused(&format!("a read {token}")), TokensError::Token(1), "{token}");
        }
        for hash in ["", "abc", &"g".repeat(64), &"+1".repeat(32)] {
            assert_eq!(refused(&format!("a read sha256:{hash}")), TokensError::Hash(1), "{hash}");
        }
        assert_eq!(refused(&format!("a read {TOKEN}\n\nb write {TOKEN}")), TokensError::Repeated(3, 1));
        let many: String = (0..=MOST_TOKENS).map(|number| format!("a read {TOKEN}-{number}\n")).collect();
        assert_eq!(refused(&many), TokensError::Many);
    }

    #[test]
    fn no_message_contains_a_part_of_a_token() {
        for text in
            ["a read hunter2", "hunter2", "hunter2 read hunter2 hunter2", "a hunter2 x", "a read sha256:hunter2"]
        {
            let error = refused(text);
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        let callers = Callers::parse(format!("a read {TOKEN}").as_bytes()).unwrap();
        assert_eq!(format!("{callers:?}"), "Callers([a (Read)])");
    }
}
