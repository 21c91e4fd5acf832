//! Cells sorted by value, for decrements that must find a cell in proportion to 1 / value in one step.
//!
//! One list of cells a value, and for every cell its place in its list: a cell moves in O(1), a draw costs O(M). Weights
//! are whole numbers (parts of the least common multiple of 1..=15), so that a draw is exact everywhere.

use crate::random::Random;

/// The largest value whose weights stay whole.
pub const MOST_VALUE: u8 = 15;

/// The least common multiple of 1..=15.
const WHOLE: u64 = 360_360;

/// The weight of a cell, by its value.
const WEIGHTS: [u64; MOST_VALUE as usize + 1] = {
    let mut weights = [0; MOST_VALUE as usize + 1];
    let mut value = 1;
    while value < weights.len() {
        weights[value] = WHOLE / value as u64;
        value += 1;
    }
    weights
};

#[derive(Debug, Clone)]
pub struct Buckets {
    /// By value; the list of value 0 stays empty.
    lists: Vec<Vec<u32>>,
    /// Where each non-zero cell stands in its list.
    standing: Vec<u32>,
    /// The sum of the weights of all listed cells.
    weight: u64,
}

impl Buckets {
    pub fn new(cells: u64, top: u8) -> Self {
        Self { lists: vec![Vec::new(); usize::from(top) + 1], standing: vec![0; cells as usize], weight: 0 }
    }

    /// Cells of one value, in the order that draws see.
    pub fn of_value(&self, value: u8) -> &[u32] {
        &self.lists[usize::from(value)]
    }

    pub fn non_zero(&self) -> u64 {
        self.lists.iter().map(|list| list.len() as u64).sum()
    }

    pub fn shift(&mut self, cell: u32, from: u8, to: u8) {
        if from > 0 {
            self.remove(usize::from(from), self.standing[cell as usize] as usize);
        }
        if to > 0 {
            self.push(usize::from(to), cell);
        }
    }

    /// Takes one from a non-zero cell, chosen in proportion to 1 / value: the cell and the value it had. None when all
    /// are zero. Two draws.
    pub fn take_one(&mut self, random: &mut Random) -> Option<(u32, u8)> {
        let (value, place) = self.draw(random)?;
        let cell = self.lists[value][place];
        self.remove(value, place);
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

    fn remove(&mut self, value: usize, place: usize) {
        let list = &mut self.lists[value];
        list.swap_remove(place);
        if let Some(moved) = list.get(place) {
            self.standing[*moved as usize] = place as u32;
        }
        self.weight -= WEIGHTS[value];
    }

    fn push(&mut self, value: usize, cell: u32) {
        let list = &mut self.lists[value];
        self.standing[cell as usize] = list.len() as u32;
        list.push(cell);
        self.weight += WEIGHTS[value];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_in_proportion_to_one_over_the_value() {
        let mut buckets = Buckets::new(10, 4);
        for (cell, value) in [(0, 1), (1, 2), (2, 4), (3, 4)] {
            buckets.shift(cell, 0, value);
        }
        let mut random = Random::new(1);
        let mut hits = [0u32; 4];
        (0..40_000).for_each(|_| hits[buckets.clone().take_one(&mut random).unwrap().0 as usize] += 1);
        // 1, 1/2, 1/4, 1/4 of a sum of 2.
        for (hit, expected) in hits.iter().zip([20_000.0, 10_000.0, 5_000.0, 5_000.0]) {
            assert!((f64::from(*hit) - expected).abs() < 350.0, "{hits:?}");
        }
    }

    #[test]
    fn a_cell_stands_in_the_list_of_its_value_and_nowhere_else() {
        let mut buckets = Buckets::new(50, 7);
        let (mut values, mut random) = ([0u8; 50], Random::new(3));
        for _ in 0..5_000 {
            let (cell, to) = (random.below(50) as usize, random.below(8) as u8);
            if values[cell] != to {
                buckets.shift(cell as u32, values[cell], to);
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
    fn nothing_is_drawn_from_nothing() {
        assert_eq!(Buckets::new(10, 4).take_one(&mut Random::new(1)), None);
    }
}
