//! Windows by number of events: the shortest window of time that contains as many.
//!
//! The window is found by its estimated count, so that the number of events in it is as certain as a count is. Answers name
//! the window and bound that number.

use super::answer::count_of;
use super::method::{Measure, Method};
use super::question::AggregateError;
use super::sketch::{QueryPoint, Sketch};
use super::spec::AggregateSpec;
use ebb_sketch::aggregate::answer::Estimate;
use ebb_sketch::decay::Decay;

impl AggregateSpec {
    /// The shortest window at `now_ms` with at least `events` events, or the whole horizon if that has fewer; and the number
    /// of events in it.
    pub(super) fn window_of(
        &self,
        events: u64,
        sketches: &mut [Sketch],
        now_ms: i64,
    ) -> Result<(Decay, Estimate), AggregateError> {
        match (self.parameters().method, self.parameters().of) {
            (_, Measure::Distinct(_)) => return Err(AggregateError::NoWindows { what: "distinct" }),
            (Method::Robust | Method::Cascade | Method::Levels, _) => {}
            (method, _) => return Err(AggregateError::NoWindows { what: method.name() }),
        }
        if events == 0 {
            return Err(AggregateError::NoEvents);
        }
        let mut count = |width_ms: u64| -> Result<(Decay, Estimate), AggregateError> {
            let decay = Decay::window(width_ms).map_err(|_| AggregateError::NoEvents)?;
            let number = count_of(sketches, QueryPoint { now_ms, decay: &decay })?;
            Ok((decay, number))
        };
        let (mut too_short, mut enough) = (0, self.parameters().horizon_ms);
        while enough - too_short > 1 {
            let middle = too_short + (enough - too_short) / 2;
            if count(middle)?.1.value >= events as f64 { enough = middle } else { too_short = middle }
        }
        count(enough)
    }
}
