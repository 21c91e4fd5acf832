//! The published sliding-window structure: replicated levels of q-digests over time, with its corrections.
//!
//! Kept for comparison with [`cascade`](super::cascade), which promises the same from one copy of every observation: here
//! an observation is copied into every level that reaches back to it. The raw observations are added to the answer of
//! the level (the printed query forgets them), and straddling ranges count half.

mod codec;
mod store;

use super::content::{
    Band, Content, ContentShape, Gather, Held, Labels, Observation, QuestionError, Refused, ShapeError, Tally,
    Timeline, TimelineShape, Totals, Values, time_at,
};
use crate::decay::Decay;
use store::Store;

/// Totals alone need less room than whole cells.
#[derive(Debug, Clone, PartialEq)]
enum Body {
    Totals(Store<Tally>),
    Cells(Store<Content>),
}

/// Decayed aggregates for any question, in replicated levels.
#[derive(Debug, Clone, PartialEq)]
pub struct Levels {
    shape: TimelineShape,
    /// The oldest and the newest accepted time.
    span_ms: Option<(i64, i64)>,
    /// The newest time at the last expiry.
    expired_at_ms: Option<i64>,
    body: Body,
}

/// One level as others see it.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelRanges {
    pub floor_ms: Option<i64>,
    /// First time, last time and weight of every range, by last time.
    pub ranges: Vec<(i64, i64, f64)>,
}

impl Levels {
    /// Counts within `epsilon` for windows up to `horizon_ms`; weights may not be below the least that `content` takes.
    pub fn shape(epsilon: f64, horizon_ms: u64, content: ContentShape) -> Result<TimelineShape, ShapeError> {
        TimelineShape::new(epsilon, horizon_ms, content, 2.0)
    }

    pub fn new(shape: TimelineShape) -> Self {
        let plain = shape.content.values().is_none() && shape.content.counters().is_none();
        let body = if plain { Body::Totals(Store::new(&shape)) } else { Body::Cells(Store::new(&shape)) };
        Self { shape, span_ms: None, expired_at_ms: None, body }
    }

    pub fn timeline(&self) -> TimelineShape {
        self.shape
    }

    pub fn newest_ms(&self) -> Option<i64> {
        self.span_ms.map(|(_, newest)| newest)
    }

    pub fn insert(&mut self, observation: &Observation) -> Result<(), Refused> {
        self.shape.content.check(observation)?;
        let time_ms = observation.time_ms;
        let (oldest_ms, newest_ms) = self.span_ms.map_or((time_ms, time_ms), |(o, n)| (o.min(time_ms), n.max(time_ms)));
        let horizon_ms = self.shape.horizon_ms;
        if newest_ms.abs_diff(time_ms) >= horizon_ms {
            return Err(Refused::Late { time_ms, now_ms: newest_ms, horizon_ms });
        }
        self.span_ms = Some((oldest_ms, newest_ms));
        self.expire_in_steps(oldest_ms, newest_ms);
        let kept = self.shape.content.kept(observation);
        match &mut self.body {
            Body::Totals(store) => store.insert(&self.shape, &kept),
            Body::Cells(store) => store.insert(&self.shape, &kept),
        }
        Ok(())
    }

    /// Sixteen times in a horizon is often enough, and nothing is expired before anything is old.
    fn expire_in_steps(&mut self, oldest_ms: i64, newest_ms: i64) {
        let (horizon_ms, last_ms) = (self.shape.horizon_ms, *self.expired_at_ms.get_or_insert(newest_ms));
        let old = newest_ms.abs_diff(oldest_ms) >= horizon_ms;
        if old && newest_ms > last_ms && newest_ms.abs_diff(last_ms) >= (horizon_ms / 16).max(1) {
            self.expired_at_ms = Some(newest_ms);
            match &mut self.body {
                Body::Totals(store) => store.expire(&self.shape, newest_ms),
                Body::Cells(store) => store.expire(&self.shape, newest_ms),
            }
        }
    }

    fn timeline_at<'a>(&self, now_ms: i64, decay: &'a Decay) -> Result<Timeline<'a>, QuestionError> {
        Timeline::new(self.shape, decay, self.newest_ms().map_or(now_ms, |newest| newest.max(now_ms)))
    }

    fn gather<G: Gather>(&self, timeline: &Timeline<'_>, into: &mut G) -> usize {
        match &self.body {
            Body::Totals(store) => store.gather(timeline, into),
            Body::Cells(store) => store.gather(timeline, into),
        }
    }

    /// Count, sum and mean.
    pub fn totals(&self, now_ms: i64, decay: &Decay) -> Result<Totals, QuestionError> {
        let timeline = self.timeline_at(now_ms, decay)?;
        let mut totals = Totals::new();
        let used = self.gather(&timeline, &mut totals);
        totals.standing = timeline.totals_standing(self.span_ms, used);
        Ok(totals)
    }

    /// Ranks, quantiles and shares.
    pub fn values(&self, now_ms: i64, decay: &Decay) -> Result<Values, QuestionError> {
        let timeline = self.timeline_at(now_ms, decay)?;
        let shape = self.shape.content.values().ok_or(QuestionError::NotKept("values"))?;
        let mut bands: Vec<Band> = Vec::new();
        let used = self.gather(&timeline, &mut bands);
        let standing = timeline.standing(shape.beta() / 2.0, self.span_ms, used);
        let rank_epsilon = self.shape.epsilon + shape.beta() / 2.0 * (1.0 + self.shape.epsilon);
        Ok(Values::new(bands, shape.value_most(), standing, rank_epsilon))
    }

    /// Top labels.
    pub fn labels(&self, now_ms: i64, decay: &Decay) -> Result<Labels, QuestionError> {
        let timeline = self.timeline_at(now_ms, decay)?;
        let counters = self.shape.content.counters().ok_or(QuestionError::NotKept("labels"))?;
        let mut labels = Labels::new();
        let used = self.gather(&timeline, &mut labels);
        Ok(labels.finish(timeline.standing(1.0 / f64::from(counters), self.span_ms, used)))
    }

    /// Raw observations, then the levels from the finest: how many are kept raw, their floor, and every level's ranges.
    pub fn levels(&self) -> (usize, Option<i64>, Vec<LevelRanges>) {
        match &self.body {
            Body::Totals(store) => (store.raw_len, store.raw_floor_ms, ranges(store)),
            Body::Cells(store) => (store.raw_len, store.raw_floor_ms, ranges(store)),
        }
    }

    /// Every label that a later answer may name; some twice.
    pub fn held_labels(&self, into: &mut Vec<u128>) {
        if let Body::Cells(store) = &self.body {
            into.extend(store.raw.keys().map(|key| store::observation(key).label));
            let ranges = store.levels.iter().flat_map(|level| level.tree.ranges());
            ranges.for_each(|(_, _, content)| into.extend(content.held_labels()));
        }
    }

    /// Raw observations and nodes of all digests with their buffers folded in: what the papers count.
    pub fn nodes(&self) -> usize {
        match &self.body {
            Body::Totals(_) => self.len(),
            Body::Cells(store) => {
                let ranges = store.levels.iter().flat_map(|level| level.tree.ranges());
                store.raw_len + ranges.map(|(_, _, content)| content.nodes()).sum::<usize>()
            }
        }
    }

    /// Raw observations, and in the ranges digest nodes, counters and buffered observations; where only totals are kept,
    /// the ranges themselves.
    pub fn len(&self) -> usize {
        match &self.body {
            Body::Totals(store) => store.raw_len + store.levels.iter().map(|level| level.tree.len()).sum::<usize>(),
            Body::Cells(store) => {
                let ranges = store.levels.iter().flat_map(|level| level.tree.ranges());
                store.raw_len + ranges.map(|(_, _, content)| content.len()).sum::<usize>()
            }
        }
    }

    /// Whether nothing was ever seen.
    pub fn is_empty(&self) -> bool {
        self.span_ms.is_none()
    }
}

fn ranges<M: Held>(store: &Store<M>) -> Vec<LevelRanges> {
    let level = |level: &store::Level<M>| LevelRanges {
        floor_ms: level.floor_ms,
        ranges: level.tree.ranges().map(|(low, high, mass)| (time_at(low), time_at(high), mass.weight())).collect(),
    };
    store.levels.iter().map(level).collect()
}

#[cfg(test)]
mod tests;
