//! The kinds that are built from others: a key that may be left out, a map of names, a list.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use super::read::{Inside, Kind, Reader};
use super::tree::{Node, NodeKind};

/// A key that may be left out.
#[derive(Debug)]
pub struct Maybe<K>(PhantomData<K>);

impl<K: Kind> Kind for Maybe<K> {
    type Out = Option<K::Out>;

    fn form() -> String {
        K::form()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<Self::Out> {
        K::read(node, reader).map(Some)
    }

    fn show(out: &Self::Out) -> Option<Node> {
        K::show(out.as_ref()?)
    }

    fn absent() -> Option<Self::Out> {
        Some(None)
    }

    fn inside() -> Inside {
        K::inside()
    }
}

/// A map from names of the user's choice to sections.
#[derive(Debug)]
pub struct Named<K>(PhantomData<K>);

const NAME_FORM: &str = "1 to 64 of a-z, 0-9, _ and -";

fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
}

impl<K: Kind> Kind for Named<K> {
    type Out = BTreeMap<String, K::Out>;

    fn form() -> String {
        "a map from names to sections".into()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<Self::Out> {
        let NodeKind::Map(entries) = &node.kind else {
            reader.report(node, format_args!("is not a map; write NAME: {{…}} for each, with names of {NAME_FORM}"));
            return None;
        };
        let mut out = BTreeMap::new();
        for (name, entry) in entries {
            reader.at(name, |reader| {
                out.extend(reader.filled::<K>(entry).map(|value| (name.clone(), value)));
                if !is_name(name) {
                    reader.report(entry, format_args!("is not a name; write {NAME_FORM}"));
                }
            });
        }
        Some(out)
    }

    fn show(out: &Self::Out) -> Option<Node> {
        let entries = out.iter().filter_map(|(name, value)| Some((name.clone(), K::show(value)?))).collect();
        Some(Node::new(NodeKind::Map(entries)))
    }

    fn inside() -> Inside {
        match K::inside() {
            Inside::Keys(keys) => Inside::Named(keys),
            other => other,
        }
    }
}

/// A list of `K`, at most `MOST` long; a single value stands for a list of one.
#[derive(Debug)]
pub struct List<K, const MOST: usize>(PhantomData<K>);

impl<K: Kind, const MOST: usize> Kind for List<K, MOST> {
    type Out = Vec<K::Out>;

    fn form() -> String {
        format!("{}, or a list of them", K::form())
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<Self::Out> {
        let NodeKind::List(items) = &node.kind else {
            return reader.filled::<K>(node).map(|one| vec![one]);
        };
        if items.len() > MOST {
            reader.report(node, format_args!("has {} entries; write at most {MOST}", items.len()));
            return None;
        }
        let read: Vec<Option<K::Out>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| reader.at(&index.to_string(), |reader| reader.filled::<K>(item)))
            .collect();
        read.into_iter().collect()
    }

    fn show(out: &Self::Out) -> Option<Node> {
        Some(Node::new(NodeKind::List(out.iter().filter_map(K::show).collect())))
    }
}
