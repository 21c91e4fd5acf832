//! A small memory of where recent elements lie, to drop near repeats before any work.
//!
//! It only ever names a place; the caller compares the whole element there. A forgotten or outdated place costs a little
//! time and nothing else: state bytes never depend on it, so it is not part of the state.

/// Places remembered.
const SLOTS: usize = 1 << 14;
const POSITION_BITS: u32 = 26;

/// Direct-mapped: a start chooses its slot, and its low bits are noted beside the place so that most other elements are
/// told apart without looking there. Empty until [`NearRepeats::open`] is called, so that small sketches stay small.
#[derive(Debug, Clone, Default)]
pub struct NearRepeats {
    places: Vec<Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    mark: u32,
    list_and_position: u32,
}

impl NearRepeats {
    pub fn open(&mut self) {
        if self.places.is_empty() {
            self.places = vec![Place { mark: 0, list_and_position: u32::MAX }; SLOTS];
        }
    }

    /// The list and position where an element of this start may have been put last.
    #[inline]
    pub fn place(&self, start: u64) -> Option<(usize, usize)> {
        let place = self.places.get(slot(start)).filter(|place| place.mark == start as u32)?;
        let position = place.list_and_position & ((1 << POSITION_BITS) - 1);
        Some(((place.list_and_position >> POSITION_BITS) as usize, position as usize))
    }

    #[inline]
    pub fn note(&mut self, start: u64, list: usize, position: usize) {
        if position < 1 << POSITION_BITS
            && let Some(place) = self.places.get_mut(slot(start))
        {
            *place = Place { mark: start as u32, list_and_position: (list as u32) << POSITION_BITS | position as u32 };
        }
    }
}

#[inline]
fn slot(start: u64) -> usize {
    (start >> 40) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_remembered_before_it_is_opened() {
        let mut near = NearRepeats::default();
        near.note(7, 3, 5);
        assert_eq!(near.place(7), None);
    }

    #[test]
    fn the_last_place_of_a_start_is_remembered_until_another_takes_its_slot() {
        let mut near = NearRepeats::default();
        near.open();
        let (one, same_slot) = (5 << 40 | 1, 5 << 40 | 2);
        near.note(one, 3, 77);
        assert_eq!((near.place(one), near.place(same_slot)), (Some((3, 77)), None));
        near.note(same_slot, 57, (1 << POSITION_BITS) - 1);
        assert_eq!((near.place(one), near.place(same_slot)), (None, Some((57, (1 << POSITION_BITS) - 1))));
    }

    #[test]
    fn a_position_that_does_not_fit_is_not_remembered() {
        let mut near = NearRepeats::default();
        near.open();
        near.note(9, 3, 1 << POSITION_BITS);
        assert_eq!(near.place(9), None);
    }
}
