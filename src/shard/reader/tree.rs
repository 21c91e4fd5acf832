//! The configured paths as a tree of names.

use crate::shard::spec::{Path, SpecError};

#[derive(Debug, Clone, Default)]
pub(super) struct Node(Vec<(Name, Child)>);

/// A name and its first bytes as a number: most comparisons end there.
#[derive(Debug, Clone)]
struct Name {
    first: u64,
    text: String,
}

pub(super) fn first_bytes(name: &str) -> u64 {
    let mut first = [0; 8];
    let length = name.len().min(8);
    first[..length].copy_from_slice(&name.as_bytes()[..length]);
    u64::from_le_bytes(first)
}

#[derive(Debug, Clone)]
pub(super) enum Child {
    Slot(usize, Path),
    Inner(Node),
}

impl Node {
    pub(super) fn child(&self, name: &str) -> Option<&Child> {
        let first = first_bytes(name);
        self.0.iter().find(|(known, _)| known.first == first && known.text == name).map(|(_, child)| child)
    }

    fn any_path(&self) -> &Path {
        match &self.0.first().expect("an inner node has a child: it was made for one").1 {
            Child::Slot(_, path) => path,
            Child::Inner(node) => node.any_path(),
        }
    }

    pub(super) fn add(&mut self, path: &Path, at: usize, slots: &mut usize) -> Result<usize, SpecError> {
        let name = &path.segments()[at];
        let is_last = at + 1 == path.segments().len();
        let index = self.0.iter().position(|(known, _)| known.text == *name).unwrap_or_else(|| {
            let child = if is_last { Child::Slot(*slots, path.clone()) } else { Child::Inner(Node::default()) };
            *slots += usize::from(is_last);
            self.0.push((Name { first: first_bytes(name), text: name.clone() }, child));
            self.0.len() - 1
        });
        match &mut self.0[index].1 {
            Child::Slot(slot, _) if is_last => Ok(*slot),
            Child::Slot(_, outer) => Err(SpecError::Nested(outer.clone(), path.clone())),
            Child::Inner(node) if is_last => Err(SpecError::Nested(path.clone(), node.any_path().clone())),
            Child::Inner(node) => node.add(path, at + 1, slots),
        }
    }
}
