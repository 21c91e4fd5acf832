//! A small cache of where recent elements are stored, to drop early repeats cheaply.
//!
//! It only suggests an index; the caller compares the whole element there. A lost or outdated entry costs a little time and
//! nothing else, so the cache is not part of the state.

/// Cached entries.
const SLOTS: usize = 1 << 14;
const INDEX_BITS: u32 = 26;

/// Direct-mapped: the hash start of an element selects the slot, whose tag holds the low bits of the start. Unallocated until
/// [`RecentElements::enable`] is called, so that small sketches stay small.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecentElements {
    slots: Vec<RecentSlot>,
    is_disabled: bool,
}

#[derive(Debug, Clone, Copy)]
struct RecentSlot {
    tag: u32,
    list_and_index: u32,
}

impl RecentElements {
    /// Allocated size, once enabled.
    pub const BYTES: usize = SLOTS * size_of::<RecentSlot>();

    /// Releases the cache for good.
    pub fn disable(&mut self) {
        *self = Self { slots: Vec::new(), is_disabled: true };
    }

    /// The most memory that the cache may take.
    pub fn max_bytes(&self) -> usize {
        if self.is_disabled { 0 } else { Self::BYTES }
    }

    pub fn enable(&mut self) {
        if self.slots.is_empty() && !self.is_disabled {
            self.slots = vec![RecentSlot { tag: 0, list_and_index: u32::MAX }; SLOTS];
        }
    }

    /// The list and index where an element of this start may be stored.
    #[inline]
    pub fn find(&self, start: u64) -> Option<(usize, usize)> {
        let slot = self.slots.get(slot_of(start)).filter(|slot| slot.tag == start as u32)?;
        let index = slot.list_and_index & ((1 << INDEX_BITS) - 1);
        Some(((slot.list_and_index >> INDEX_BITS) as usize, index as usize))
    }

    #[inline]
    pub fn note(&mut self, start: u64, list: usize, index: usize) {
        if index < 1 << INDEX_BITS
            && let Some(slot) = self.slots.get_mut(slot_of(start))
        {
            *slot = RecentSlot { tag: start as u32, list_and_index: (list as u32) << INDEX_BITS | index as u32 };
        }
    }
}

#[inline]
fn slot_of(start: u64) -> usize {
    (start >> 40) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_cached_before_enable() {
        let mut recent = RecentElements::default();
        recent.note(7, 3, 5);
        assert_eq!(recent.find(7), None);
    }

    #[test]
    fn disabled_cache_takes_no_memory_and_stays_disabled() {
        let mut recent = RecentElements::default();
        assert_eq!(recent.max_bytes(), RecentElements::BYTES);
        recent.enable();
        recent.disable();
        recent.enable();
        recent.note(7, 3, 5);
        assert_eq!((recent.find(7), recent.max_bytes(), recent.slots.capacity()), (None, 0, 0));
    }

    #[test]
    fn entry_is_cached_until_another_takes_its_slot() {
        let mut recent = RecentElements::default();
        recent.enable();
        let (one, same_slot) = (5 << 40 | 1, 5 << 40 | 2);
        recent.note(one, 3, 77);
        assert_eq!((recent.find(one), recent.find(same_slot)), (Some((3, 77)), None));
        recent.note(same_slot, 57, (1 << INDEX_BITS) - 1);
        assert_eq!((recent.find(one), recent.find(same_slot)), (None, Some((57, (1 << INDEX_BITS) - 1))));
    }

    #[test]
    fn index_that_does_not_fit_is_not_cached() {
        let mut recent = RecentElements::default();
        recent.enable();
        recent.note(9, 3, 1 << INDEX_BITS);
        assert_eq!(recent.find(9), None);
    }
}
