//! A count-min sketch with conservative update and halving. The reference stratifies its learned priors by such estimates;
//! the production frequency filter is a different structure.

use ebb_sketch::random::mix;

/// A decaying count-min sketch.
pub struct CountMin {
    counts: Vec<f64>,
    width: usize,
    depth: usize,
    halve_every: u64,
    max_count: f64,
    added: u64,
    weight: f64,
}

impl CountMin {
    pub fn new(depth: usize, width: usize, halve_every: u64, max_count: f64) -> Self {
        Self { counts: vec![0.0; depth * width], width, depth, halve_every, max_count, added: 0, weight: 0.0 }
    }

    fn cells(&self, item: u64) -> impl Iterator<Item = usize> + use<> {
        let (first, width) = (mix(item ^ 0xABCDEF), self.width);
        (0..self.depth).map(move |row| row * width + (mix(first + row as u64) % width as u64) as usize)
    }

    pub fn estimate(&self, item: u64) -> f64 {
        self.cells(item).map(|cell| self.counts[cell]).fold(f64::INFINITY, f64::min)
    }

    /// Number of additions, halved like the counts.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    pub fn add(&mut self, item: u64) {
        let count = (self.estimate(item) + 1.0).min(self.max_count);
        for cell in self.cells(item) {
            self.counts[cell] = self.counts[cell].max(count);
        }
        (self.added, self.weight) = (self.added + 1, self.weight + 1.0);
        if self.added.is_multiple_of(self.halve_every) {
            let whole = self.max_count.is_finite();
            self.counts.iter_mut().for_each(|count| *count = if whole { (*count / 2.0).floor() } else { *count / 2.0 });
            self.weight /= 2.0;
        }
    }
}
