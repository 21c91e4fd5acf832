//! A tokenizer for Rust that keeps names and punctuation and skips comments, string literals and lifetimes.

use std::iter::Peekable;
use std::str::Chars;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    Name(String),
    /// `::`
    Path,
    Sign(char),
}

/// The tokens of a source, each with its line.
pub fn tokens(source: &str) -> Vec<(usize, Token)> {
    let mut scan = Scan { rest: source.chars().peekable(), line: 1, tokens: Vec::new() };
    while let Some(sign) = scan.bump() {
        scan.take(sign);
    }
    scan.tokens
}

struct Scan<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
    tokens: Vec<(usize, Token)>,
}

impl Scan<'_> {
    fn bump(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.line += usize::from(next == Some('\n'));
        next
    }

    fn take(&mut self, sign: char) {
        match sign {
            '/' if self.rest.peek() == Some(&'/') => while self.bump().is_some_and(|next| next != '\n') {},
            '/' if self.rest.peek() == Some(&'*') => self.skip_block_comment(),
            '"' => self.skip_string(),
            '\'' => self.skip_quote(),
            ':' if self.rest.peek() == Some(&':') => {
                self.bump();
                self.tokens.push((self.line, Token::Path));
            }
            _ if sign.is_alphabetic() || sign == '_' => self.take_name(sign),
            _ if sign.is_whitespace() => {}
            _ => self.tokens.push((self.line, Token::Sign(sign))),
        }
    }

    fn take_name(&mut self, first: char) {
        let (line, mut name) = (self.line, String::from(first));
        while let Some(next) = self.rest.next_if(|next| next.is_alphanumeric() || *next == '_') {
            name.push(next);
        }
        let raw = matches!(name.as_str(), "r" | "br" | "cr");
        match self.rest.peek() {
            Some('"' | '#') if raw => self.take_raw(line),
            _ => self.tokens.push((line, Token::Name(name))),
        }
    }

    /// After `r`: a raw string literal or a raw identifier.
    fn take_raw(&mut self, line: usize) {
        let mut fence = 0;
        while self.rest.next_if_eq(&'#').is_some() {
            fence += 1;
        }
        if self.rest.next_if_eq(&'"').is_none() {
            self.tokens.push((line, Token::Sign('#')));
            return;
        }
        let mut closing = None;
        while closing != Some(fence) {
            closing = match (self.bump(), closing) {
                (None, _) => return,
                (Some('"'), _) => Some(0),
                (Some('#'), Some(seen)) => Some(seen + 1),
                (Some(_), _) => None,
            };
        }
    }

    fn skip_string(&mut self) {
        while let Some(next) = self.bump() {
            match next {
                '"' => return,
                '\\' => drop(self.bump()),
                _ => {}
            }
        }
    }

    /// A character literal or a lifetime.
    fn skip_quote(&mut self) {
        let first = self.bump();
        if first == Some('\\') {
            self.bump();
            while self.bump().is_some_and(|next| next != '\'') {}
        } else if self.rest.next_if_eq(&'\'').is_none() {
            while self.rest.next_if(|next| next.is_alphanumeric() || *next == '_').is_some() {}
        }
    }

    fn skip_block_comment(&mut self) {
        self.bump();
        let mut depth = 1;
        while depth > 0 {
            match self.bump() {
                None => return,
                Some('*') if self.rest.next_if_eq(&'/').is_some() => depth -= 1,
                Some('/') if self.rest.next_if_eq(&'*').is_some() => depth += 1,
                Some(_) => {}
            }
        }
    }
}

#[test]
fn comments_and_literals_are_skipped() {
    let source = concat!(
        "//! a\n/* b /* c */ d */ use e::f; // g\n",
        r###"let _ = ("h \" i", r#"j " k"#, b"l", 'm', '\'', "/*"); fn n<'o>() {} r"p""###,
    );
    let names = tokens(source).into_iter().filter_map(|(line, token)| match token {
        Token::Name(name) => Some((line, name)),
        Token::Path | Token::Sign(_) => None,
    });
    let expected = [(2, "use"), (2, "e"), (2, "f"), (3, "let"), (3, "_"), (3, "b"), (3, "fn"), (3, "n")];
    assert_eq!(names.collect::<Vec<_>>(), expected.map(|(line, name)| (line, name.to_owned())));
}
