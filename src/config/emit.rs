//! Prints a tree as YAML text that parses back to the same tree.

use std::borrow::Cow;

use super::tree::{Node, NodeKind};

/// Prints block YAML, `indent` levels deep.
pub fn emit(node: &Node, indent: usize, out: &mut String) {
    match &node.kind {
        NodeKind::Map(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                out.push_str(&"  ".repeat(indent));
                out.push_str(&quoted(key));
                out.push(':');
                match &value.kind {
                    NodeKind::Map(inner) if !inner.is_empty() => {
                        out.push('\n');
                        emit(value, indent + 1, out);
                    }
                    _ => {
                        out.push(' ');
                        out.push_str(&inline(value));
                        out.push('\n');
                    }
                }
            }
        }
        _ => {
            out.push_str(&inline(node));
            out.push('\n');
        }
    }
}

/// A scalar without quotes, any other node on one line, for messages.
pub fn plain(node: &Node) -> String {
    match &node.kind {
        NodeKind::Scalar(text) => text.clone(),
        _ => inline(node),
    }
}

/// The node on one line.
pub fn inline(node: &Node) -> String {
    match &node.kind {
        NodeKind::Empty => "null".into(),
        NodeKind::Scalar(text) => quoted(text).into_owned(),
        NodeKind::List(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        NodeKind::Map(entries) => {
            let entries: Vec<_> =
                entries.iter().map(|(key, value)| format!("{}: {}", quoted(key), inline(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

fn quoted(text: &str) -> Cow<'_, str> {
    let plain = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && !text.ends_with(':')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./:+".contains(c))
        && !text.eq_ignore_ascii_case("null");
    if plain {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("\"{}\"", text.chars().map(escaped).collect::<String>()))
    }
}

/// A character within double quotes. Characters that YAML does not allow there are escaped by their code point.
fn escaped(c: char) -> String {
    match c {
        '"' | '\\' => format!("\\{c}"),
        ' '..='~' => c.to_string(),
        _ if c.is_alphanumeric() => c.to_string(),
        _ => format!("\\U{:08x}", u32::from(c)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn assert_parses_back(text: &str) {
        let tree = Node::new(NodeKind::Map(vec![
            (format!("k{text}"), Node::scalar(text)),
            ("list".into(), Node::new(NodeKind::List(vec![Node::scalar(text)]))),
        ]));
        let mut shown = String::new();
        emit(&tree, 0, &mut shown);
        let back = Node::parse(&shown).unwrap_or_else(|error| panic!("{error}: {shown}"));
        let scalar = NodeKind::Scalar(text.into());
        assert_eq!(back.child(&format!("k{text}")).map(|node| &node.kind), Some(&scalar), "{shown}");
        assert_eq!(back.below("list.0").map(|node| &node.kind), Some(&scalar), "{shown}");
    }

    #[test]
    fn texts_with_a_special_meaning_in_yaml_parse_back() {
        for text in [
            "a",
            "a b",
            "1.10",
            "0x1F",
            "1e5",
            "-1",
            "null",
            "Null",
            "~",
            "",
            "a: b",
            "x:",
            "#c",
            "\"q\"",
            "- a",
            "*a",
            "{x",
            ".5",
            ".inf",
            "<<",
            "é\u{7f}\n\t",
            "\u{85}\u{2028}\u{feff}",
            "yes",
            "a #b",
            "---",
            "0o17",
            "1:2",
        ] {
            assert_parses_back(text);
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_back(text in any::<String>()) {
            assert_parses_back(&text);
        }

        #[test]
        fn any_short_plain_text_parses_back(text in "[a-zA-Z0-9_./:+~<>=-]{0,5}") {
            assert_parses_back(&text);
        }
    }
}
