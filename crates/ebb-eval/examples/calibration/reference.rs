//! The reference: cells spread over the whole filter, blocks of arrivals, and a prior from every age seen so far.
//!
//! It has what the service has not: every age of the stream exactly, and the best number of cells in hindsight.

use ebb_sketch::random::mix;

use super::streams::{Stream, Window};

const BITS_PER_EVENT: u64 = 8;
const AGE_BINS: usize = 100;
/// Arrivals between two rebuilds of the curve.
const REBUILD: usize = 2048;

/// Penalties after the second window, each with the best number of cells.
#[derive(Clone, Copy)]
pub struct Reference {
    /// Of decisions by posterior.
    pub posterior: f64,
    /// Of the standard answer.
    pub standard: f64,
}

/// `None` for windows of time, which the reference does not have.
pub fn run(stream: &Stream) -> Option<Reference> {
    let Window::Events(window) = stream.window else { return None };
    let ages = ages(stream);
    let costs = (1..=5).filter_map(|cells| Engine::new(window, cells)).map(|engine| engine.run(stream, &ages));
    let (posterior, standard) = costs.fold((f64::INFINITY, f64::INFINITY), |best, (posterior, standard)| {
        (best.0.min(posterior), best.1.min(standard))
    });
    Some(Reference { posterior, standard })
}

/// Arrivals between an event and the previous one with its item.
fn ages(stream: &Stream) -> Vec<Option<usize>> {
    let mut last = std::collections::HashMap::new();
    let age = |(index, event): (usize, &super::streams::Event)| {
        last.insert(event.item, index).map(|before: usize| index - 1 - before)
    };
    stream.events.iter().enumerate().map(age).collect()
}

/// One layout: as many timers as fit, and the shortest blocks that their values can tell apart.
struct Engine {
    window: i64,
    cells: u64,
    per_item: u64,
    block: i64,
}

impl Engine {
    fn new(window: u64, per_item: u64) -> Option<Self> {
        let bits = per_item.max(3);
        let (cells, largest) = (window * BITS_PER_EVENT / bits, (1u64 << bits) - 2);
        let fits = |block: &u64| {
            let rounds = cells.div_ceil(block * per_item).max(1) - 1;
            window.div_ceil(*block) + 1 + rounds <= largest
        };
        let block = (window.div_ceil(largest - 1).max(1)..=window).find(fits)?;
        Some(Self { window: window as i64, cells, per_item, block: block as i64 })
    }

    /// Penalties of decisions by posterior and of the standard answer.
    fn run(&self, stream: &Stream, ages: &[Option<usize>]) -> (f64, f64) {
        let mut timers = vec![i64::MIN / 2; self.cells as usize];
        let mut written = vec![0u64; stream.events.len() / self.block as usize + 2];
        let (mut curve, mut histogram) = ([0.0; AGE_BINS], [0.0; AGE_BINS]);
        let (mut posterior_cost, mut standard_cost) = (0.0, 0.0);
        for (index, event) in stream.events.iter().enumerate() {
            let (block, into) = (index as i64 / self.block, index as i64 % self.block);
            let probes = self.probes(event.item);
            if index % REBUILD.min(self.window as usize / 4) == 0 {
                curve = cumulative(&histogram);
            }
            let truth = ages[index].is_some_and(|age| (age as i64) < self.window);
            let (inside, positive) = self.belief(&probes, &timers, &written, (block, into), &curve);
            if index as i64 >= 2 * self.window {
                let duplicate = event.costs.0 * (1.0 - inside) <= event.costs.1 * inside;
                posterior_cost += match (duplicate, truth) {
                    (true, false) => event.costs.0,
                    (false, true) => event.costs.1,
                    _ => 0.0,
                };
                standard_cost += if positive && !truth { event.costs.0 } else { 0.0 };
            }
            let bin = ages[index].filter(|age| (*age as i64) < 8 * self.window).map_or(AGE_BINS - 1, bin_of);
            histogram[bin] += 1.0;
            if (index + 1) % (8 * self.window as usize) == 0 {
                histogram.iter_mut().for_each(|count| *count *= 0.5);
            }
            for probe in probes {
                let before = std::mem::replace(&mut timers[probe], block);
                if before != block {
                    written[block as usize] += 1;
                    if before >= 0 {
                        written[before as usize] -= 1;
                    }
                }
            }
        }
        (posterior_cost, standard_cost)
    }

    fn probes(&self, item: u64) -> Vec<usize> {
        let mut probes: Vec<usize> =
            (1..=self.per_item).map(|number| (mix(mix(item).wrapping_add(number)) % self.cells) as usize).collect();
        probes.sort_unstable();
        probes.dedup();
        probes
    }

    /// The probability of a repeat within the window, and the standard answer.
    fn belief(
        &self,
        probes: &[usize],
        timers: &[i64],
        written: &[u64],
        (block, into): (i64, i64),
        curve: &[f64; AGE_BINS],
    ) -> (f64, bool) {
        let oldest = probes.iter().map(|&probe| timers[probe]).min().unwrap_or(i64::MIN / 2);
        let age = block - oldest;
        let limit = -((into - self.window).div_euclid(self.block));
        if age > limit {
            return (0.0, false);
        }
        let (from, length) = if age == 0 { (0, into) } else { ((age - 1) * self.block + into, self.block) };
        let same = probes.iter().filter(|&&probe| timers[probe] == oldest).count() as i32;
        let younger: u64 = (0..age).map(|younger| written[(block - younger) as usize]).sum();
        let collision = (written[oldest as usize] as f64 / (self.cells - younger) as f64).powi(same);
        let below = |age: i64| below(curve, age as f64);
        let (start, end, edge) = (below(from), below(from + length), below(self.window));
        let whole = end - start + collision * (1.0 - end);
        let inside = edge.min(end) - start + collision * (edge - end).max(0.0);
        (if whole > 0.0 { inside / whole } else { 0.0 }, true)
    }
}

fn bin_of(age: usize) -> usize {
    ((4.0 * (age as f64 + 1.0).log2()) as usize).min(AGE_BINS - 2)
}

fn cumulative(histogram: &[f64; AGE_BINS]) -> [f64; AGE_BINS] {
    let (total, mut sum) = (histogram.iter().sum::<f64>() + 1e-9, 0.0);
    histogram.map(|count| {
        let below = sum;
        sum += count / total;
        below
    })
}

/// Linear within a bin.
fn below(curve: &[f64; AGE_BINS], age: f64) -> f64 {
    if age <= 0.0 {
        return 0.0;
    }
    let bin = (4.0 * (age + 1.0).log2()) as usize;
    if bin >= AGE_BINS - 2 {
        return curve[AGE_BINS - 2];
    }
    let edge = |bin: usize| (bin as f64 / 4.0).exp2() - 1.0;
    curve[bin] + (curve[bin + 1] - curve[bin]) * (age - edge(bin)) / (edge(bin + 1) - edge(bin))
}
