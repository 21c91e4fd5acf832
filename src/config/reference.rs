//! The reference: every declared key as commented YAML that parses as a configuration.

use std::fmt;

use super::parser::{Children, KeyDeclaration};

const WIDTH: usize = 100;

/// Every key with its documentation, syntax and default. Keys that may be left out are commented out without a space
/// after the `#`: without the `#` they are YAML again.
pub(super) fn reference(keys: &Children) -> String {
    let mut out = String::new();
    if let Children::Keys(keys) = keys {
        section(keys, "", "", &mut out);
    }
    out
}

fn section(keys: &[KeyDeclaration], indent: &str, marker: &str, out: &mut String) {
    for key in keys {
        let may_be_empty = matches!(key.children, Children::Named(_)) && key.texts.default.is_some();
        let marker = if key.is_optional || may_be_empty { "#" } else { marker };
        let inner = format!("{indent}  ");
        comment(key, indent, out);
        match &key.children {
            Children::Keys(keys) => {
                line(out, indent, marker, format_args!("{}:", key.name));
                section(keys, &inner, marker, out);
            }
            Children::Named(keys) => {
                line(out, indent, marker, format_args!("{}:", key.name));
                line(out, &inner, marker, format_args!("name:"));
                section(keys, &format!("{inner}  "), marker, out);
            }
            Children::None | Children::Properties => {
                let value = key.texts.default.or(key.texts.example).unwrap_or_default();
                line(out, indent, marker, format_args!("{}: {value}", key.name));
            }
        }
    }
}

fn line(out: &mut String, indent: &str, marker: &str, text: fmt::Arguments<'_>) {
    out.push_str(&format!("{indent}{marker}{text}\n"));
}

fn comment(key: &KeyDeclaration, indent: &str, out: &mut String) {
    wrap(key.doc.join(" ").trim(), indent, out);
    if matches!(key.children, Children::Keys(_)) {
        return;
    }
    let texts = key.texts;
    let presence = match (texts.default.or(texts.derived), key.is_optional) {
        (Some(default), _) => format!("Default: {default}"),
        (None, true) => "Optional.".to_string(),
        (None, false) => "Required.".to_string(),
    };
    wrap(&format!("Syntax: {}. {presence}", key.syntax), indent, out);
    if let (Some(_), Some(example)) = (texts.default, texts.example) {
        wrap(&format!("Example: {example}"), indent, out);
    }
}

fn wrap(text: &str, indent: &str, out: &mut String) {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + word.len() + indent.len() > WIDTH {
            out.push_str(&format!("{indent}# {line}\n"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    out.push_str(&format!("{indent}# {line}\n"));
}
