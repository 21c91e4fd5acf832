//! The configured paths as a tree of field names.

use crate::event_spec::{EventSpecError, Path};

/// The configured fields of one object.
#[derive(Debug, Clone, Default)]
pub(super) struct PathNode(Vec<(KnownName, PathChild)>);

/// A field name and its first bytes as a number: most comparisons end with the number.
#[derive(Debug, Clone)]
struct KnownName {
    prefix: u64,
    text: String,
}

/// The first eight bytes of a name as a number, padded with zeros. This runs for every field of every record, so it reads
/// whole words where it can.
pub(super) fn name_prefix(name: &str) -> u64 {
    let bytes = name.as_bytes();
    if let Some(first) = bytes.first_chunk() {
        return u64::from_le_bytes(*first);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        // The two words overlap in equal bytes.
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return u64::from(first) | u64::from(last) << (8 * (bytes.len() - 4));
    }
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// What is configured under a name: a scalar to keep, or an object with configured fields.
#[derive(Debug, Clone)]
pub(super) enum PathChild {
    Slot(usize, Path),
    Inner(PathNode),
}

impl PathNode {
    /// The child of this name and its index among its siblings.
    pub(super) fn child(&self, name: &str) -> Option<(usize, &PathChild)> {
        let prefix = name_prefix(name);
        let index = self.0.iter().position(|(known, _)| known.prefix == prefix && known.text == name)?;
        Some((index, &self.0[index].1))
    }

    fn any_path(&self) -> &Path {
        match &self.0.first().expect("an inner node is created together with a child").1 {
            PathChild::Slot(_, path) => path,
            PathChild::Inner(node) => node.any_path(),
        }
    }

    /// Adds the segments of `path` from index `segment` on; returns the slot of the path.
    pub(super) fn add(&mut self, path: &Path, segment: usize, slots: &mut usize) -> Result<usize, EventSpecError> {
        let name = &path.segments()[segment];
        let is_last = segment + 1 == path.segments().len();
        let index = self.0.iter().position(|(known, _)| known.text == *name).unwrap_or_else(|| {
            let child = match is_last {
                true => PathChild::Slot(*slots, path.clone()),
                false => PathChild::Inner(PathNode::default()),
            };
            *slots += usize::from(is_last);
            self.0.push((KnownName { prefix: name_prefix(name), text: name.clone() }, child));
            self.0.len() - 1
        });
        match &mut self.0[index].1 {
            PathChild::Slot(slot, _) if is_last => Ok(*slot),
            PathChild::Slot(_, outer) => Err(EventSpecError::Nested(outer.clone(), path.clone())),
            PathChild::Inner(node) if is_last => Err(EventSpecError::Nested(path.clone(), node.any_path().clone())),
            PathChild::Inner(node) => node.add(path, segment + 1, slots),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::name_prefix;

    #[test]
    fn name_prefix_pads_names_of_every_length_with_zeros() {
        let name = "campaigns-and-more";
        for length in 0..=name.len() {
            let mut padded = [0; 8];
            let copied = length.min(8);
            padded[..copied].copy_from_slice(&name.as_bytes()[..copied]);
            assert_eq!(name_prefix(&name[..length]), u64::from_le_bytes(padded), "{}", &name[..length]);
        }
    }
}
