//! Streams whose history is known exactly.

use std::collections::HashMap;

use ebb_sketch::random::Random;

/// One event of a stream.
pub struct Event {
    pub item: u64,
    pub time_ms: i64,
    /// Costs of a false and of a missed duplicate.
    pub costs: (f64, f64),
    /// Sent only to disturb: what happens to it costs nothing.
    pub is_noise: bool,
}

/// The window of a stream.
#[derive(Clone, Copy, PartialEq)]
pub enum Window {
    Events(u64),
    Milliseconds(u64),
}

/// A stream, and the memory that its filter may use.
pub struct Stream {
    pub name: String,
    pub window: Window,
    pub events: Vec<Event>,
    /// Events within a window, on average.
    pub window_events: u64,
    /// Memory of the filter for each of them.
    pub bits_per_event: u64,
    /// Windows in which the stream changes: until the end of the next one the truth itself is changing.
    pub changes: Vec<usize>,
}

impl Stream {
    pub fn new(name: impl Into<String>, window: Window, arrivals: Vec<(u64, i64, bool)>) -> Self {
        let mut random = Random::new(5);
        let mut cost = || 1.0 + 9.0 * random.unit();
        let event = |(item, time_ms, is_noise)| Event { item, time_ms, costs: (cost(), cost()), is_noise };
        let events: Vec<Event> = arrivals.into_iter().map(event).collect();
        let window_events = match window {
            Window::Events(events) => events,
            Window::Milliseconds(window_ms) => {
                let honest = events.iter().filter(|event| !event.is_noise).count() as f64;
                let span = (events[events.len() - 1].time_ms - events[0].time_ms).max(1) as f64;
                (honest * window_ms as f64 / span) as u64
            }
        };
        Self { name: name.into(), window, events, window_events, bits_per_event: 8, changes: Vec::new() }
    }

    /// The position of an event on the window's axis.
    pub fn position(&self, index: usize) -> i64 {
        match self.window {
            Window::Events(_) => index as i64,
            Window::Milliseconds(_) => self.events[index].time_ms,
        }
    }

    pub fn window_length(&self) -> u64 {
        match self.window {
            Window::Events(length) | Window::Milliseconds(length) => length,
        }
    }

    /// For each event, whether its item was seen within the window before it.
    pub fn truths(&self) -> Vec<bool> {
        let mut last = HashMap::new();
        let truth = |index: usize| {
            let position = self.position(index);
            let before = last.insert(self.events[index].item, position);
            before.is_some_and(|before: i64| {
                let age = position - before - i64::from(matches!(self.window, Window::Events(_)));
                age < self.window_length() as i64
            })
        };
        (0..self.events.len()).map(truth).collect()
    }
}

const ARRIVALS: u64 = 1 << 18;
const UNIVERSE: u64 = 1 << 14;
const INTERVAL_MS: i64 = 10;

fn timed(items: impl Iterator<Item = u64>) -> Vec<(u64, i64, bool)> {
    items.enumerate().map(|(index, item)| (item, index as i64 * INTERVAL_MS, false)).collect()
}

/// Ranks with probability proportional to 1 / rank.
struct PowerLaw(Vec<f64>);

impl PowerLaw {
    fn new(items: u64) -> Self {
        let mut sum = 0.0;
        let mut add = |rank: u64| {
            sum += 1.0 / rank as f64;
            sum
        };
        Self((1..=items).map(&mut add).collect())
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let point = random.unit() * self.0[self.0.len() - 1];
        self.0.partition_point(|&below| below < point).min(self.0.len() - 1) as u64
    }
}

fn bursty_items(arrivals: u64, active: u64) -> impl Iterator<Item = u64> {
    let (law, mut random) = (PowerLaw::new(UNIVERSE), Random::new(11));
    let mut pool: Vec<u64> = (0..active).map(|slot| UNIVERSE + slot).collect();
    let mut next = UNIVERSE + active;
    (0..arrivals).map(move |_| {
        if random.unit() < 0.3 {
            return law.draw(&mut random);
        }
        let slot = &mut pool[random.below(active) as usize];
        let item = *slot;
        if random.unit() < 0.05 {
            *slot = next;
            next += 1;
        }
        item
    })
}

/// The synthetic streams, each with windows of events and of time.
pub fn synthetic() -> Vec<Stream> {
    let windows = |name: &str, window: u64, items: Vec<u64>| {
        let time = Window::Milliseconds(window * INTERVAL_MS as u64);
        [("events", Window::Events(window)), ("time", time)]
            .map(|(unit, window)| Stream::new(format!("{name}, {unit}"), window, timed(items.iter().copied())))
    };
    let mut random = Random::new(20_260_101);
    let uniform: Vec<u64> = (0..ARRIVALS).map(|_| random.below(UNIVERSE)).collect();
    let law = PowerLaw::new(UNIVERSE * 4);
    let zipf: Vec<u64> = (0..ARRIVALS).map(|_| law.draw(&mut random)).collect();
    let bursty: Vec<u64> = bursty_items(ARRIVALS, 1500).collect();
    let mut streams: Vec<Stream> = Vec::new();
    streams.extend(windows("uniform", UNIVERSE, uniform));
    streams.extend(windows("zipf", 1 << 12, zipf));
    streams.extend(windows("bursty", 1 << 12, bursty));
    let changing = |stream| Stream { changes: vec![8, 16, 24], ..stream };
    streams.extend(windows("drifting", 1 << 13, drifting()).map(changing));
    streams.push(noise_attack());
    streams
}

/// The universe moves on steadily, and every eight windows the share of repeats changes.
fn drifting() -> Vec<u64> {
    let mut random = Random::new(31);
    let mut fresh = 1 << 40;
    (0..ARRIVALS)
        .map(|at| {
            let repeats = [0.7, 0.3, 0.5, 0.1][(at >> 16) as usize % 4];
            if random.unit() < repeats {
                return at / 4 + random.below(1 << 12);
            }
            fresh += 1;
            fresh
        })
        .collect()
}

/// Honest traffic with repeats; in the second half three of four events are items that never come again. The filter has
/// room for both.
fn noise_attack() -> Stream {
    let mut random = Random::new(47);
    let (mut fresh, mut arrivals) = (1 << 40, Vec::new());
    for at in 0..ARRIVALS as i64 {
        arrivals.push((random.below(UNIVERSE), at * INTERVAL_MS, false));
        if at >= ARRIVALS as i64 / 2 {
            for _ in 0..3 {
                fresh += 1;
                arrivals.push((fresh, at * INTERVAL_MS, true));
            }
        }
    }
    let window = Window::Milliseconds(UNIVERSE * INTERVAL_MS as u64);
    Stream { bits_per_event: 128, changes: vec![8], ..Stream::new("noise attack, time", window, arrivals) }
}
