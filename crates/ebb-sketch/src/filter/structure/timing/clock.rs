//! The clock and the sweep, which clears dead timers before their stamp is used again.
//!
//! The sweep visits the whole array once in `spare + 1` ticks. Its position is a function of the clock alone, evaluated on
//! a grid of at most [`SLICES`] points per tick: a filter of any size is swept in small steps, and neither batch sizes nor
//! idle advances of the clock affect the bytes. A cell visited at grid point x is compared with the block of x.

use super::{ClockSpec, DEAD, EXPIRED, TimingFilter};

/// Grid points per tick.
const SLICES: i64 = 512;

/// Clocks stay within this distance of 0 (73 million years), so that no sum of times overflows.
const MAX_TIME: i64 = 1 << 61;

pub(super) fn bounded(time: i64) -> i64 {
    time.clamp(-MAX_TIME, MAX_TIME)
}

impl TimingFilter {
    /// Starts the clock. Nothing is stored yet, so there is nothing to sweep.
    pub(super) fn start(&mut self, now: i64) {
        let now = bounded(now);
        self.now = Some(now);
        self.enter_block(now.div_euclid(self.block_length()));
        self.next_sweep = self.next_grid_point(now);
    }

    #[inline]
    pub(super) fn move_clock(&mut self, now: i64) {
        let Some(before) = self.now else { return self.start(now) };
        if now <= before {
            return;
        }
        if now < self.next_sweep {
            self.now = Some(now);
            return;
        }
        self.pass_grid_points(before, bounded(now));
    }

    #[inline(never)]
    fn pass_grid_points(&mut self, before: i64, now: i64) {
        self.now = Some(now);
        let block = now.div_euclid(self.block_length());
        let ticks = block - self.block;
        if ticks >= i64::from(self.spec.stamps()) {
            self.clear_all();
        } else {
            self.sweep(before, now, block);
            self.open_blocks(block);
        }
        if ticks > 0 {
            self.enter_block(block);
        }
        self.next_sweep = self.next_grid_point(now);
    }

    fn enter_block(&mut self, block: i64) {
        self.block = block;
        self.block_begin = block * self.block_length();
        self.current_stamp = self.stamp(block);
        self.ages = [DEAD; 256];
        for age in 0..=self.spec.oldest_live_age() {
            self.ages[usize::from(self.stamp_of_age(age))] = age;
        }
        self.sum_arrivals();
    }

    pub(super) fn sum_arrivals(&mut self) {
        let mut sum = 0u64;
        for age in 1..self.spec.stamps() {
            self.younger_arrivals[usize::from(age)] = sum;
            sum = sum.saturating_add(self.block_arrivals[usize::from(self.stamp_of_age(age))]);
        }
        self.younger_arrivals[usize::from(self.spec.stamps())..].fill(sum);
    }

    /// Makes the visits due between `before` and `now`, comparing each cell with the block at its visit. A cell that is due
    /// more than once is visited only the last time, because timers only grow older in between.
    fn sweep(&mut self, before: i64, now: i64, block: i64) {
        let to = self.swept_at(self.grid_point(now));
        let mut from = self.swept_at(self.grid_point(before)).max(to - i128::from(self.cells.len()));
        for tick in self.block..=block {
            let at = if tick == block { self.grid_point(now) } else { self.last_grid_point(tick) };
            let end = self.swept_at(at);
            if end > from {
                let (dead, count) = self.dead_stamps(tick, at);
                self.clear_stamps(from, end, &dead[..count]);
                from = end;
            }
        }
    }

    /// `from..end` are visit numbers since the clock's epoch; the cell is the number modulo the array length.
    fn clear_stamps(&mut self, from: i128, end: i128, dead: &[u8]) {
        let cells = i128::from(self.cells.len());
        let (start, length) = (from.rem_euclid(cells) as u64, (end - from) as u64);
        let first = length.min(self.cells.len() - start);
        let histogram = &mut self.histogram;
        let mut cleared = |stamp: u8, count: u64| {
            histogram[usize::from(stamp)] -= count;
            histogram[usize::from(EXPIRED)] += count;
        };
        self.cells.clear_values(start, start + first, dead, &mut cleared);
        self.cells.clear_values(0, length - first, dead, &mut cleared);
    }

    /// The stamps in use, and their number, that are dead at grid point `at` of block `tick` (the current block or a later one).
    fn dead_stamps(&self, tick: i64, at: i64) -> ([u8; 256], usize) {
        let limit = match self.spec.clock() {
            ClockSpec::Time { .. } => i64::from(self.spec.oldest_live_age()),
            // The window's far edge moves within a block and may pass a block boundary before the next tick.
            ClockSpec::Count { window, .. } => {
                let length = self.block_length();
                let into_block = at - tick * length;
                -((into_block - window as i64).div_euclid(length))
            }
        };
        // Ages that exceed the limit at block `tick`, counted from the current block.
        let first = (limit + 1 - (tick - self.block)).max(0);
        let mut dead = [EXPIRED; 256];
        let mut count = 0;
        for age in first..i64::from(self.spec.stamps()) {
            dead[count] = self.stamp_of_age(age as u8);
            count += usize::from(self.histogram[usize::from(dead[count])] > 0);
        }
        (dead, count)
    }

    fn open_blocks(&mut self, block: i64) {
        for opened in self.block + 1..=block {
            let stamp = usize::from(self.stamp(opened));
            debug_assert!(cfg!(fuzzing) || self.histogram[stamp] == 0, "a stamp is reused before it was swept");
            // Only bytes that no sweep produced can hold this stamp. Its cells are dead and must not read as new.
            if self.histogram[stamp] > 0 {
                self.clear_stamps(0, i128::from(self.cells.len()), &[stamp as u8]);
            }
            self.block_arrivals[stamp] = 0;
        }
    }

    fn clear_all(&mut self) {
        self.cells.clear();
        self.histogram.fill(0);
        self.histogram[usize::from(EXPIRED)] = self.cells.len();
        self.block_arrivals.fill(0);
    }

    fn slice(&self) -> i64 {
        (self.block_length() / SLICES).max(1)
    }

    /// The last grid point at or before `now`.
    fn grid_point(&self, now: i64) -> i64 {
        now - now.rem_euclid(self.block_length()) % self.slice()
    }

    fn last_grid_point(&self, block: i64) -> i64 {
        let length = self.block_length();
        block * length + (length - 1) / self.slice() * self.slice()
    }

    pub(super) fn next_grid_point(&self, now: i64) -> i64 {
        let end = self.block_begin + self.block_length();
        (self.grid_point(now) + self.slice()).min(end)
    }

    /// Number of visits made up to time `at`, counted from the clock's epoch.
    fn swept_at(&self, at: i64) -> i128 {
        let round = self.block_length() * (i64::from(self.spec.spare()) + 1);
        let (rounds, rest) = (at.div_euclid(round), at.rem_euclid(round) as u64);
        let (cells, round) = (self.cells.len(), round as u64);
        let visits = match rest.checked_mul(cells) {
            Some(product) => product.div_ceil(round),
            None => (u128::from(rest) * u128::from(cells)).div_ceil(u128::from(round)) as u64,
        };
        i128::from(rounds) * i128::from(cells) + i128::from(visits)
    }
}
