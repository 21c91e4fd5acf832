//! Which text a label stands for, as long as a sketch may still name it.
//!
//! Sketches keep labels as numbers; this keeps their texts, cut to [`MAX_TEXT_BYTES`]. When the table outgrows its room,
//! the texts of labels that no sketch holds any more are let go, and the room follows from what is left: the table is
//! bounded by the sketches, and what is in it depends on the log alone.

use std::collections::BTreeMap;

use ebb_sketch::codec::{CodecError, Reader, Writer};

/// Longer texts are cut here, at the end of a character.
pub const MAX_TEXT_BYTES: usize = 256;
/// Tables below this are not worth going through.
const ROOM_LEAST: usize = 1024;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Texts {
    texts: BTreeMap<u128, Box<str>>,
    room: usize,
}

impl Texts {
    pub fn new() -> Self {
        Self { texts: BTreeMap::new(), room: ROOM_LEAST }
    }

    pub fn note(&mut self, label: u128, text: &str) {
        self.texts.entry(label).or_insert_with(|| cut(text).into());
    }

    pub fn is_full(&self) -> bool {
        self.texts.len() > self.room
    }

    /// Keeps the texts of these labels only. Going through many labels must not happen often: they make room, too.
    pub fn keep(&mut self, mut held: Vec<u128>) {
        let all = held.len();
        held.sort_unstable();
        held.dedup();
        self.texts.retain(|label, _| held.binary_search(label).is_ok());
        self.room = (2 * self.texts.len() + all / 4).max(ROOM_LEAST);
    }

    pub fn len(&self) -> usize {
        self.texts.len()
    }

    pub fn bytes(&self) -> u64 {
        self.texts.values().map(|text| text.len() as u64 + 40).sum()
    }

    /// The texts of these labels.
    pub fn of(&self, mut labels: Vec<u128>) -> BTreeMap<u128, Box<str>> {
        labels.sort_unstable();
        labels.dedup();
        labels.into_iter().filter_map(|label| Some((label, self.texts.get(&label)?.clone()))).collect()
    }

    pub fn write(&self, writer: &mut Writer) {
        writer.varint(self.room as u64);
        Self::write_some(&self.texts, writer);
    }

    pub fn write_some(texts: &BTreeMap<u128, Box<str>>, writer: &mut Writer) {
        writer.varint(texts.len() as u64);
        for (label, text) in texts {
            writer.u128(*label);
            writer.bytes(text.as_bytes());
        }
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let room = reader.varint()?;
        let room = usize::try_from(room).map_err(|_| CodecError::invalid("texts", "a room beyond this machine"))?;
        Ok(Self { texts: Self::read_some(reader)?, room })
    }

    pub fn read_some(reader: &mut Reader<'_>) -> Result<BTreeMap<u128, Box<str>>, CodecError> {
        let mut texts: BTreeMap<u128, Box<str>> = BTreeMap::new();
        for _ in 0..reader.count(17)? {
            let label = reader.u128()?;
            if texts.last_key_value().is_some_and(|(last, _)| *last >= label) {
                return Err(CodecError::invalid("texts", "labels out of order"));
            }
            let bytes = reader.bytes()?;
            let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_TEXT_BYTES);
            texts.insert(label, text.ok_or_else(|| CodecError::invalid("texts", "no text, or too long"))?.into());
        }
        Ok(texts)
    }
}

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
    fn long_texts_are_cut_at_the_end_of_a_character() {
        let mut texts = Texts::new();
        texts.note(1, &"é".repeat(200));
        texts.note(2, "short");
        let known = texts.of(vec![1, 2, 3, 1]);
        assert_eq!(known.len(), 2);
        assert_eq!(known[&1].len(), 256);
        assert_eq!(cut(&format!("a{}", "é".repeat(200))).len(), 255);
    }

    #[test]
    fn only_texts_of_held_labels_stay() {
        let mut texts = Texts::new();
        (0..5_000u128).for_each(|label| texts.note(label, "x"));
        assert!(texts.is_full());
        texts.keep(vec![7, 7, 9, 6_000]);
        assert_eq!(texts.texts.keys().copied().collect::<Vec<_>>(), [7, 9]);
        assert!(!texts.is_full());
    }
}
