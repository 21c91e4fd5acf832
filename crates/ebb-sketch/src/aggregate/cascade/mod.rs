//! Cascade: any window and any decay, chosen when it is asked, from one copy of every observation.
//!
//! Promises, whatever the order of arrival: the truth lies within the bounds, always; a count is within epsilon of
//! itself, for every window up to the horizon and every decay; ranks and top labels within epsilon of the total plus the
//! error of their summary. Shards are not merged: adding level to level would add up their errors. Their readings are
//! joined.

mod codec;
mod store;

use super::content::{
    Band, Content, ContentShape, Gather, Labels, Observation, QuestionError, Refused, ShapeError, TIME_MOST_MS, Tally,
    Timeline, TimelineShape, Totals, Values,
};
use crate::decay::Decay;
use store::Store;

/// Totals alone need less room than whole cells.
#[derive(Debug, Clone, PartialEq)]
enum Body {
    Totals(Store<Tally>),
    Cells(Store<Content>),
}

/// Decayed aggregates for any question.
#[derive(Debug, Clone, PartialEq)]
pub struct Cascade {
    shape: TimelineShape,
    /// The oldest and the newest accepted time.
    span_ms: Option<(i64, i64)>,
    body: Body,
}

/// One level as others see it.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelSummary {
    /// What a range of the level holds when it is full.
    pub gamma: f64,
    pub floor_ms: Option<i64>,
    /// First time, last time and weight of every range.
    pub ranges: Vec<(i64, i64, f64)>,
}

impl Cascade {
    /// Counts within `epsilon` for windows up to `horizon_ms`; weights may not be below the least that `content` takes.
    pub fn shape(epsilon: f64, horizon_ms: u64, content: ContentShape) -> Result<TimelineShape, ShapeError> {
        TimelineShape::new(epsilon, horizon_ms, content, 4.0)
    }

    pub fn new(shape: TimelineShape) -> Self {
        let plain = shape.content.values().is_none() && shape.content.counters().is_none();
        let body = if plain { Body::Totals(Store::new()) } else { Body::Cells(Store::new()) };
        Self { shape, span_ms: None, body }
    }

    pub fn timeline(&self) -> TimelineShape {
        self.shape
    }

    pub fn newest_ms(&self) -> Option<i64> {
        self.span_ms.map(|(_, newest)| newest)
    }

    /// Whether nothing was ever seen.
    pub fn is_empty(&self) -> bool {
        self.span_ms.is_none()
    }

    #[inline]
    pub fn insert(&mut self, observation: &Observation) -> Result<(), Refused> {
        self.shape.content.check(observation)?;
        let time_ms = observation.time_ms;
        let (oldest_ms, newest_ms) = self.span_ms.map_or((time_ms, time_ms), |(o, n)| (o.min(time_ms), n.max(time_ms)));
        let horizon_ms = self.shape.horizon_ms;
        if newest_ms.abs_diff(time_ms) >= horizon_ms {
            return Err(Refused::Late { time_ms, now_ms: newest_ms, horizon_ms });
        }
        self.span_ms = Some((oldest_ms, newest_ms));
        let kept = self.shape.content.kept(observation);
        match &mut self.body {
            Body::Totals(store) => store.insert(&self.shape, kept, newest_ms),
            Body::Cells(store) => store.insert(&self.shape, kept, newest_ms),
        }
        Ok(())
    }

    /// Forgets what is past the horizon at `now_ms`. Not needed for answers: only for room while nothing arrives.
    pub fn expire(&mut self, now_ms: i64) {
        let now_ms = now_ms.clamp(-TIME_MOST_MS, TIME_MOST_MS);
        let now_ms = self.newest_ms().map_or(now_ms, |newest| newest.max(now_ms));
        match &mut self.body {
            Body::Totals(store) => store.expire(&self.shape, now_ms),
            Body::Cells(store) => store.expire(&self.shape, now_ms),
        }
    }

    /// Weight that is no longer held because it is older than the horizon.
    pub fn expired(&self) -> f64 {
        match &self.body {
            Body::Totals(store) => store.expired,
            Body::Cells(store) => store.expired,
        }
    }

    fn timeline_at<'a>(&self, now_ms: i64, decay: &'a Decay) -> Result<Timeline<'a>, QuestionError> {
        let now_ms = self.newest_ms().map_or(now_ms, |newest| newest.max(now_ms));
        Timeline::new(self.shape, decay, now_ms)
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

    /// The levels, from the newest.
    pub fn levels(&self) -> Vec<LevelSummary> {
        match &self.body {
            Body::Totals(store) => summaries(&self.shape, store),
            Body::Cells(store) => summaries(&self.shape, store),
        }
    }

    /// Every label that a later answer may name; some twice.
    pub fn held_labels(&self, into: &mut Vec<u128>) {
        if let Body::Cells(store) = &self.body {
            into.extend(store.raw.iter().map(|one| one.label));
            let ranges = store.levels.iter().flat_map(|level| &level.forest.nodes);
            ranges.for_each(|node| into.extend(node.mass.held_labels()));
        }
    }

    /// Observations that are kept as they came.
    pub fn raw(&self) -> &[Observation] {
        match &self.body {
            Body::Totals(store) => &store.raw,
            Body::Cells(store) => &store.raw,
        }
    }

    /// Raw observations and nodes of all digests with their buffers folded in: what the papers count.
    pub fn nodes(&self) -> usize {
        match &self.body {
            Body::Totals(_) => self.len(),
            Body::Cells(store) => {
                let nodes = store.levels.iter().flat_map(|level| &level.forest.nodes);
                store.raw.len() + nodes.map(|node| node.mass.nodes()).sum::<usize>()
            }
        }
    }

    /// Raw observations, and in the ranges digest nodes, counters and buffered observations; where only totals are kept,
    /// the ranges themselves.
    pub fn len(&self) -> usize {
        match &self.body {
            Body::Totals(store) => store.raw.len() + store.levels.iter().map(|l| l.forest.nodes.len()).sum::<usize>(),
            Body::Cells(store) => {
                let nodes = store.levels.iter().flat_map(|level| &level.forest.nodes);
                store.raw.len() + nodes.map(|node| node.mass.len()).sum::<usize>()
            }
        }
    }
}

fn summaries<M: super::content::Held>(shape: &TimelineShape, store: &Store<M>) -> Vec<LevelSummary> {
    let levels = store.levels.iter().enumerate().map(|(place, level)| {
        let height = level.forest.height;
        let time = super::content::time_at;
        let range =
            |n: &super::qdigest::tree::Node<M>| (time(n.range.low()), time(n.range.high(height)), n.mass.weight());
        let ranges = level.forest.nodes.iter().map(range).collect();
        LevelSummary { gamma: store::gamma(shape, place), floor_ms: level.floor_ms, ranges }
    });
    levels.collect()
}

#[cfg(test)]
mod tests;
