//! The reference: every key as commented YAML, from its declaration. It reads back as a configuration.

use std::fmt;

use super::read::{Inside, Key};

const WIDTH: usize = 100;

/// Every key with its documentation, form and default. Keys that may be left out are commented out without a space:
/// what remains without the `#` is YAML again.
pub(super) fn reference(keys: &Inside) -> String {
    let mut out = String::new();
    if let Inside::Keys(keys) = keys {
        section(keys, "", "", &mut out);
    }
    out
}

fn section(keys: &[Key], indent: &str, mark: &str, out: &mut String) {
    for key in keys {
        let may_be_empty = matches!(key.inside, Inside::Named(_)) && key.texts.default.is_some();
        let mark = if key.is_optional || may_be_empty { "#" } else { mark };
        let inner = format!("{indent}  ");
        comment(key, indent, out);
        match &key.inside {
            Inside::Keys(keys) => {
                line(out, indent, mark, format_args!("{}:", key.name));
                section(keys, &inner, mark, out);
            }
            Inside::Named(keys) => {
                line(out, indent, mark, format_args!("{}:", key.name));
                line(out, &inner, mark, format_args!("name:"));
                section(keys, &format!("{inner}  "), mark, out);
            }
            Inside::Value | Inside::Properties => {
                let value = key.texts.default.or(key.texts.example).unwrap_or_default();
                line(out, indent, mark, format_args!("{}: {value}", key.name));
            }
        }
    }
}

fn line(out: &mut String, indent: &str, mark: &str, text: fmt::Arguments<'_>) {
    out.push_str(&format!("{indent}{mark}{text}\n"));
}

fn comment(key: &Key, indent: &str, out: &mut String) {
    wrap(key.doc.join(" ").trim(), indent, out);
    if !matches!(key.inside, Inside::Keys(_)) {
        let presence = match (key.texts.default, key.is_optional) {
            (Some(default), _) => format!("Default: {default}"),
            (None, true) => "Optional.".to_string(),
            (None, false) => "Required.".to_string(),
        };
        wrap(&format!("Form: {}. {presence}", key.form), indent, out);
        if let (Some(_), Some(example)) = (key.texts.default, key.texts.example) {
            wrap(&format!("Such as: {example}"), indent, out);
        }
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
