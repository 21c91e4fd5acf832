//! The texts of labels.
//!
//! Sketches keep labels as numbers; this table keeps their texts, cut to [`MAX_TEXT_BYTES`]. When it exceeds its capacity,
//! the texts of labels that no sketch contains are removed, and the capacity is set in proportion to the rest. So the
//! table is bounded by the sketches, and its content depends on the log alone.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use ebb_sketch::codec::{CodecError, Reader, Writer};

/// Maximum length of a label's text; longer texts are cut at a character boundary.
pub const MAX_TEXT_BYTES: usize = 256;
/// Smaller tables are not pruned.
const MIN_CAPACITY: usize = 1024;

/// The memory of an entry of the table in a tree that may be half empty, without the text.
const TEXT_ENTRY_BYTES: u64 = 96;

/// The texts of labels, by label.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LabelTexts {
    texts: BTreeMap<u128, Box<str>>,
    capacity: usize,
}

impl LabelTexts {
    pub fn new() -> Self {
        Self { texts: BTreeMap::new(), capacity: MIN_CAPACITY }
    }

    /// Adds a text, and returns the memory that it takes if it is new.
    pub fn insert(&mut self, label: u128, text: &str) -> u64 {
        match self.texts.entry(label) {
            Entry::Occupied(_) => 0,
            Entry::Vacant(entry) => Self::bytes_of(entry.insert(cut(text).into()).len()),
        }
    }

    /// Upper bound of the memory of a text of this length.
    pub fn bytes_of(length: usize) -> u64 {
        length as u64 + TEXT_ENTRY_BYTES
    }

    pub fn is_full(&self) -> bool {
        self.texts.len() > self.capacity
    }

    /// Removes the texts of all other labels. The number of labels adds to the capacity, because collecting many labels
    /// is expensive and must be rare.
    pub fn retain(&mut self, mut held: Vec<u128>) {
        let all = held.len();
        held.sort_unstable();
        held.dedup();
        self.texts.retain(|label, _| held.binary_search(label).is_ok());
        self.capacity = (2 * self.texts.len() + all / 4).max(MIN_CAPACITY);
    }

    pub fn len(&self) -> usize {
        self.texts.len()
    }

    pub fn bytes(&self) -> u64 {
        self.texts.values().map(|text| Self::bytes_of(text.len())).sum()
    }

    /// The texts of these labels.
    pub fn select(&self, mut labels: Vec<u128>) -> BTreeMap<u128, Box<str>> {
        labels.sort_unstable();
        labels.dedup();
        labels.into_iter().filter_map(|label| Some((label, self.texts.get(&label)?.clone()))).collect()
    }

    pub fn encode(&self, writer: &mut Writer) {
        writer.varint(self.capacity as u64);
        Self::encode_map(&self.texts, writer);
    }

    pub fn encode_map(texts: &BTreeMap<u128, Box<str>>, writer: &mut Writer) {
        writer.varint(texts.len() as u64);
        for (label, text) in texts {
            writer.u128(*label);
            writer.bytes(text.as_bytes());
        }
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let capacity = reader.varint()?;
        let capacity = usize::try_from(capacity)
            .map_err(|_| CodecError::invalid("label texts", "the capacity exceeds the address space"))?;
        Ok(Self { texts: Self::decode_map(reader)?, capacity })
    }

    pub fn decode_map(reader: &mut Reader<'_>) -> Result<BTreeMap<u128, Box<str>>, CodecError> {
        let mut texts: BTreeMap<u128, Box<str>> = BTreeMap::new();
        for _ in 0..reader.count(17)? {
            let label = reader.u128()?;
            if texts.last_key_value().is_some_and(|(last, _)| *last >= label) {
                return Err(CodecError::invalid("label texts", "labels are not in ascending order"));
            }
            let bytes = reader.bytes()?;
            let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_TEXT_BYTES);
            texts.insert(
                label,
                text.ok_or_else(|| CodecError::invalid("label texts", "invalid UTF-8 or too long"))?.into(),
            );
        }
        Ok(texts)
    }
}

/// The longest prefix of at most [`MAX_TEXT_BYTES`].
fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_a_character_boundary() {
        let mut texts = LabelTexts::new();
        texts.insert(1, &"é".repeat(200));
        texts.insert(2, "short");
        let known = texts.select(vec![1, 2, 3, 1]);
        assert_eq!(known.len(), 2);
        assert_eq!(known[&1].len(), 256);
        assert_eq!(cut(&format!("a{}", "é".repeat(200))).len(), 255);
    }

    #[test]
    fn retain_removes_texts_of_other_labels() {
        let mut texts = LabelTexts::new();
        (0..5_000u128).for_each(|label| _ = texts.insert(label, "x"));
        assert!(texts.is_full());
        texts.retain(vec![7, 7, 9, 6_000]);
        assert_eq!(texts.texts.keys().copied().collect::<Vec<_>>(), [7, 9]);
        assert!(!texts.is_full());
    }
}
