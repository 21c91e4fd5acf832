//! Cells grouped by value, to draw a cell with probability proportional to 1 / value.
//!
//! One list of cells per value, and for every cell its position in its list: moving a cell costs O(1), a draw O(M).
//! Weights are integers (fractions of the least common multiple of 1..=15), so that draws are exact on every machine.

use crate::random::Random;

/// The largest value with an integer weight.
pub const MAX_VALUE: u8 = 15;

/// The least common multiple of 1..=15.
const LEAST_COMMON_MULTIPLE: u64 = 360_360;

/// The weight of a cell of each value.
const WEIGHTS: [u64; MAX_VALUE as usize + 1] = {
    let mut weights = [0; MAX_VALUE as usize + 1];
    let mut value = 1;
    while value < weights.len() {
        weights[value] = LEAST_COMMON_MULTIPLE / value as u64;
        value += 1;
    }
    weights
};

/// The non-zero cells of a filter, grouped by value.
#[derive(Debug, Clone)]
pub struct ValueBuckets {
    /// Indexed by value; the list of value 0 stays empty.
    lists: Vec<Vec<u32>>,
    /// The position of each non-zero cell in its list.
    positions: Vec<u32>,
    /// Total weight of all listed cells.
    weight: u64,
}

impl ValueBuckets {
    /// Buckets for `cells` cells, all zero.
    pub fn new(cells: u64, max_value: u8) -> Self {
        Self { lists: vec![Vec::new(); usize::from(max_value) + 1], positions: vec![0; cells as usize], weight: 0 }
    }

    /// The cells of one value, in list order.
    pub fn of_value(&self, value: u8) -> &[u32] {
        &self.lists[usize::from(value)]
    }

    /// Number of non-zero cells.
    pub fn non_zero(&self) -> u64 {
        self.lists.iter().map(|list| list.len() as u64).sum()
    }

    /// Moves a cell from the list of one value to that of another.
    pub fn change(&mut self, cell: u32, from: u8, to: u8) {
        if from > 0 {
            self.remove(usize::from(from), self.positions[cell as usize] as usize);
        }
        if to > 0 {
            self.push(usize::from(to), cell);
        }
    }

    /// Decrements a non-zero cell drawn with probability proportional to 1 / value. Returns the cell and its previous value,
    /// or `None` if all cells are zero. Makes two draws.
    pub fn decrement_one(&mut self, random: &mut Random) -> Option<(u32, u8)> {
        let (value, position) = self.draw(random)?;
        let cell = self.lists[value][position];
        self.remove(value, position);
        if value > 1 {
            self.push(value - 1, cell);
        }
        Some((cell, value as u8))
    }

    fn draw(&self, random: &mut Random) -> Option<(usize, usize)> {
        if self.weight == 0 {
            return None;
        }
        let mut left = random.below(self.weight);
        let value = (1..self.lists.len()).find(|value| {
            let here = self.lists[*value].len() as u64 * WEIGHTS[*value];
            let found = left < here;
            left = left.wrapping_sub(here);
            found
        })?;
        Some((value, random.below(self.lists[value].len() as u64) as usize))
    }

    fn remove(&mut self, value: usize, position: usize) {
        let list = &mut self.lists[value];
        list.swap_remove(position);
        if let Some(moved) = list.get(position) {
            self.positions[*moved as usize] = position as u32;
        }
        self.weight -= WEIGHTS[value];
    }

    fn push(&mut self, value: usize, cell: u32) {
        let list = &mut self.lists[value];
        self.positions[cell as usize] = list.len() as u32;
        list.push(cell);
        self.weight += WEIGHTS[value];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_proportional_to_one_over_the_value() {
        let mut buckets = ValueBuckets::new(10, 4);
        for (cell, value) in [(0, 1), (1, 2), (2, 4), (3, 4)] {
            buckets.change(cell, 0, value);
        }
        let mut random = Random::new(1);
        let mut hits = [0u32; 4];
        (0..40_000).for_each(|_| hits[buckets.clone().decrement_one(&mut random).unwrap().0 as usize] += 1);
        // 1, 1/2, 1/4, 1/4 of a sum of 2.
        for (hit, expected) in hits.iter().zip([20_000.0, 10_000.0, 5_000.0, 5_000.0]) {
            assert!((f64::from(*hit) - expected).abs() < 350.0, "{hits:?}");
        }
    }

    #[test]
    fn a_cell_is_listed_under_its_value_only() {
        let mut buckets = ValueBuckets::new(50, 7);
        let (mut values, mut random) = ([0u8; 50], Random::new(3));
        for _ in 0..5_000 {
            let (cell, to) = (random.below(50) as usize, random.below(8) as u8);
            if values[cell] != to {
                buckets.change(cell as u32, values[cell], to);
                values[cell] = to;
            }
        }
        for value in 1..=7 {
            let mut listed = buckets.of_value(value).to_vec();
            listed.sort_unstable();
            let expected: Vec<u32> = (0..50).filter(|cell| values[*cell as usize] == value).collect();
            assert_eq!(listed, expected);
        }
        assert_eq!(buckets.non_zero(), values.iter().filter(|value| **value > 0).count() as u64);
    }

    #[test]
    fn empty_buckets_draw_nothing() {
        assert_eq!(ValueBuckets::new(10, 4).decrement_one(&mut Random::new(1)), None);
    }
}
