//! The floors of the levels of a store.

/// A floor below every time: nothing was dropped.
pub const NO_FLOOR: i64 = i64::MIN;

/// For each level the time (or key) at or below which it keeps nothing. Floors never rise with the level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LevelFloors(Vec<i64>);

impl LevelFloors {
    pub fn new(levels: usize) -> Self {
        Self(vec![NO_FLOOR; levels])
    }

    pub fn as_slice(&self) -> &[i64] {
        &self.0
    }

    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, i64> {
        self.0.iter_mut()
    }

    #[inline]
    pub fn of(&self, level: usize) -> i64 {
        self.0[level]
    }

    /// The lowest floor, which is that of the last level.
    pub fn lowest(&self) -> i64 {
        self.0.last().copied().unwrap_or(NO_FLOOR)
    }

    /// Raises all floors to at least `floor`; whether one has changed.
    pub fn raise(&mut self, floor: i64) -> bool {
        let is_above = floor > self.lowest();
        if is_above {
            self.0.iter_mut().for_each(|own| *own = (*own).max(floor));
        }
        is_above
    }

    /// The higher floor of both at every level.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, others)| *own = (*own).max(*others));
    }

    /// Replaces the floors by as many others.
    pub fn replace(&mut self, floors: &[i64]) -> bool {
        let is_same_length = floors.len() == self.0.len();
        if is_same_length {
            self.0.copy_from_slice(floors);
        }
        is_same_length
    }
}
