//! The configured paths as a tree of names.

use crate::event_spec::{EventSpecError, Path};

#[derive(Debug, Clone, Default)]
pub(super) struct Node(Vec<(Name, Child)>);

/// A name and its first bytes as a number: most comparisons end there.
#[derive(Debug, Clone)]
struct Name {
    first: u64,
    text: String,
}

/// The first eight bytes as a number; a shorter name ends in zeros. Every name of every record comes here, so it reads
/// words where it can.
pub(super) fn first_bytes(name: &str) -> u64 {
    let bytes = name.as_bytes();
    if let Some(first) = bytes.first_chunk() {
        return u64::from_le_bytes(*first);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        // Bytes that are in both words come to stand on themselves.
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return u64::from(first) | u64::from(last) << (8 * (bytes.len() - 4));
    }
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[derive(Debug, Clone)]
pub(super) enum Child {
    Slot(usize, Path),
    Inner(Node),
}

impl Node {
    /// A child and its place among its siblings.
    pub(super) fn child(&self, name: &str) -> Option<(usize, &Child)> {
        let first = first_bytes(name);
        let place = self.0.iter().position(|(known, _)| known.first == first && known.text == name)?;
        Some((place, &self.0[place].1))
    }

    fn any_path(&self) -> &Path {
        match &self.0.first().expect("an inner node has a child: it was made for one").1 {
            Child::Slot(_, path) => path,
            Child::Inner(node) => node.any_path(),
        }
    }

    pub(super) fn add(&mut self, path: &Path, at: usize, slots: &mut usize) -> Result<usize, EventSpecError> {
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
            Child::Slot(_, outer) => Err(EventSpecError::Nested(outer.clone(), path.clone())),
            Child::Inner(node) if is_last => Err(EventSpecError::Nested(path.clone(), node.any_path().clone())),
            Child::Inner(node) => node.add(path, at + 1, slots),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::first_bytes;

    #[test]
    fn first_bytes_of_names_of_every_length_are_padded_with_zeros() {
        let name = "campaigns-and-more";
        for length in 0..=name.len() {
            let mut padded = [0; 8];
            let kept = length.min(8);
            padded[..kept].copy_from_slice(&name.as_bytes()[..kept]);
            assert_eq!(first_bytes(&name[..length]), u64::from_le_bytes(padded), "{}", &name[..length]);
        }
    }
}
