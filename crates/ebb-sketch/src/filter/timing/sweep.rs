//! The clock and the sweep: dead timers are cleared before their stamp comes round again.
//!
//! The whole array is visited once in `spare + 1` ticks. How far the sweep has come is a function of the clock alone,
//! evaluated on a grid of at most [`SLICES`] points a tick: a filter of any size is swept in small pieces, and neither
//! batches nor idle moves of the clock show in its bytes. A cell visited at grid point x is judged by the block of x.

use super::{DEAD, Drive, EXPIRED, TimingFilter};

/// Pieces into which the sweep of one tick is cut.
const SLICES: i64 = 512;

/// Clocks stay within this of 0 (73 million years), so that no sum of times overflows, whoever wrote them.
const TIME_MOST: i64 = 1 << 61;

pub(super) fn bounded(time: i64) -> i64 {
    time.clamp(-TIME_MOST, TIME_MOST)
}

impl TimingFilter {
    /// First sight of time: nothing is stored yet, so nothing is owed.
    pub(super) fn start(&mut self, now: i64) {
        let now = bounded(now);
        self.now = Some(now);
        self.enter(now.div_euclid(self.block_length()));
        self.due = self.next_grid_point(now);
    }

    #[inline]
    pub(super) fn move_clock(&mut self, now: i64) {
        let Some(before) = self.now else { return self.start(now) };
        if now <= before {
            return;
        }
        if now < self.due {
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
            self.forget_all();
        } else {
            self.sweep(before, now, block);
            self.open_blocks(block);
        }
        if ticks > 0 {
            self.enter(block);
        }
        self.due = self.next_grid_point(now);
    }

    fn enter(&mut self, block: i64) {
        self.block = block;
        self.block_begin = block * self.block_length();
        self.present = self.stamp(block);
        self.ages = [DEAD; 256];
        for age in 0..=self.spec.oldest_live_age() {
            self.ages[usize::from(self.stamp_of_age(age))] = age;
        }
        self.sum_arrivals();
    }

    pub(super) fn sum_arrivals(&mut self) {
        let mut sum = 0u64;
        for age in 1..self.spec.stamps() {
            self.arrivals_before[usize::from(age)] = sum;
            sum = sum.saturating_add(self.arrivals[usize::from(self.stamp_of_age(age))]);
        }
        self.arrivals_before[usize::from(self.spec.stamps())..].fill(sum);
    }

    /// Visits what the clock passed on its way from `before` to `now`, each cell judged by the block at its visit. When
    /// a cell was passed more than once only its last visit is made: timers only grow older on the way.
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

    /// `from..end` count visits since the epoch of the clock: the array comes round and round.
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

    /// The stamps in use (so many of them) that are dead at grid point `at` of block `tick`, the present block or a later one.
    fn dead_stamps(&self, tick: i64, at: i64) -> ([u8; 256], usize) {
        let limit = match self.spec.drive() {
            Drive::Time { .. } => i64::from(self.spec.oldest_live_age()),
            // Within a block the window's far edge moves on, and may leave a block behind before the next tick.
            Drive::Count { window, .. } => {
                let length = self.block_length();
                let into_block = at - tick * length;
                -((into_block - window as i64).div_euclid(length))
            }
        };
        // What is older than the limit now, or will be by then.
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
            debug_assert!(cfg!(fuzzing) || self.histogram[stamp] == 0, "a stamp came round before it was swept");
            // Bytes that no sweep has left behind may hold it: what is so old is dead and must not look new.
            if self.histogram[stamp] > 0 {
                self.clear_stamps(0, i128::from(self.cells.len()), &[stamp as u8]);
            }
            self.arrivals[stamp] = 0;
        }
    }

    fn forget_all(&mut self) {
        self.cells.clear();
        self.histogram.fill(0);
        self.histogram[usize::from(EXPIRED)] = self.cells.len();
        self.arrivals.fill(0);
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

    /// Visits made by the time the clock shows `at`, counted from its epoch.
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
