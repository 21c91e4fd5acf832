//! From the partial aggregates of all shards to one answer.
//!
//! Where the method merges, the partial aggregates become one sketch, as if one shard had seen all events. The sketches of
//! other methods are read one by one as of the same time, and the readings are added together with their bounds.

use std::collections::BTreeMap;

use super::method::{Measure, Method};
use super::partial::PartialAggregate;
use super::question::{
    AggregateAnswer, AggregateError, AggregateQuestion, AggregateResult, QuantileAnswer, Statistic, TopAnswer, TopName,
};
use super::sketch::{QueryPoint, SampledField, Sketch};
use super::spec::AggregateSpec;
use ebb_sketch::aggregate::QueryError;
use ebb_sketch::aggregate::answer::{Estimate, Guarantee, Quantile, TopMode};
use ebb_sketch::aggregate::predicate::{Field, Predicate};
use ebb_sketch::aggregate::reading::{CellLabels, CellTotals, CellValues};
use ebb_sketch::aggregate::robust::SampleReading;
use ebb_sketch::decay::Decay;

/// The sketches of all shards, and the time and decay of the question.
struct CombinedSketches<'a> {
    spec: &'a AggregateSpec,
    /// One where the method merges.
    sketches: Vec<Sketch>,
    moment: QueryPoint<'a>,
    texts: BTreeMap<u128, Box<str>>,
}

impl AggregateSpec {
    /// Answers a question from the partial aggregates of all shards.
    pub fn answer(
        &self,
        question: &AggregateQuestion,
        partials: Vec<PartialAggregate>,
    ) -> Result<AggregateAnswer, AggregateError> {
        let mut decay = question.decay.clone().unwrap_or_else(|| self.decay.clone());
        if self.parameters().method == Method::Integral && decay != self.decay {
            return Err(AggregateError::OtherDecay {
                requested: decay.to_string(),
                configured: self.decay.to_string(),
            });
        }
        let PartialAggregate { as_of, sketches, missed_ms, texts } = PartialAggregate::combine(partials)?;
        if sketches.is_empty() {
            return Err(AggregateError::NoSuchKey);
        }
        let newest_ms = as_of.iter().filter_map(|as_of| as_of.time_ms).max();
        let now_ms = question.time.resolve(newest_ms);
        self.check_past(now_ms, newest_ms)?;
        let mut sketches = sketches;
        let window = question.last.map(|events| self.window_of(events, &mut sketches, now_ms)).transpose()?;
        let (window, window_events) = window.unzip();
        decay = window.unwrap_or(decay);
        let missed = missed_ms.is_some_and(|missed_ms| self.reaches(&decay, now_ms, missed_ms));
        let mut combined =
            CombinedSketches { spec: self, sketches, moment: QueryPoint { now_ms, decay: &decay }, texts };
        let mut result = combined.read(&question.statistic)?;
        if missed {
            result.mark_incomplete();
        }
        let is_coarser = combined.sketches.iter().any(|sketch| sketch.coarseness() > 0);
        let (incomplete, degraded) = (result.is_incomplete(), is_coarser && !result.is_exact());
        Ok(AggregateAnswer { result, decay, window_events, time_ms: now_ms, incomplete, degraded, as_of })
    }

    /// Refuses times before the newest event where later events cannot be left out.
    fn check_past(&self, requested_ms: i64, newest_ms: Option<i64>) -> Result<(), AggregateError> {
        let what = match (self.parameters().method, self.parameters().of) {
            (_, Measure::Distinct(_)) => "distinct",
            (Method::Robust | Method::Cascade, _) => return Ok(()),
            (method, _) => method.name(),
        };
        match newest_ms.filter(|newest| requested_ms < *newest) {
            Some(newest_ms) => Err(AggregateError::Past { what, requested_ms, newest_ms }),
            None => Ok(()),
        }
    }

    /// Whether an event of `time_ms` would still have a weight in the answer.
    fn reaches(&self, decay: &Decay, now_ms: i64, time_ms: i64) -> bool {
        let age_ms = now_ms.saturating_sub(time_ms).max(0) as u64;
        let is_kept = !self.parameters().method.has_horizon() || age_ms < self.parameters().horizon_ms;
        is_kept && decay.weight(age_ms) > 0.0
    }
}

impl CombinedSketches<'_> {
    fn read(&mut self, statistic: &Statistic) -> Result<AggregateResult, AggregateError> {
        match (self.spec.parameters().of, statistic) {
            (Measure::Distinct(_), Statistic::Distinct) => {
                return Ok(AggregateResult::Number(Some(self.distinct()?)));
            }
            (Measure::Distinct(_), _) => {
                let (missing, hint) = ("events, only different values", "ask for distinct");
                return Err(AggregateError::NotKept { missing, hint });
            }
            (_, Statistic::Distinct) => {
                return Err(AggregateError::NotKept { missing: "different values", hint: "configure distinct: FIELD" });
            }
            (Measure::Count | Measure::Value | Measure::Weight | Measure::Number(_), _) => {}
        }
        self.read_events(statistic)
    }

    fn distinct(&self) -> Result<Estimate, QueryError> {
        let sketch = self.sketches.first().ok_or(QueryError::NotKept("sketch"))?;
        sketch.distinct(self.moment)
    }

    fn read_events(&mut self, statistic: &Statistic) -> Result<AggregateResult, AggregateError> {
        let sums_events = self.spec.parameters().of == Measure::Count;
        match statistic {
            Statistic::Count => Ok(AggregateResult::Number(Some(self.count()?))),
            Statistic::Sum if sums_events => Ok(AggregateResult::Number(Some(self.count()?))),
            Statistic::Sum => Ok(AggregateResult::Number(Some(self.sum()?))),
            Statistic::Mean => {
                self.require_values()?;
                let mean = match self.sample(SampledField::Main)? {
                    Some(answers) => answers.mean(),
                    None => self.totals()?.mean(),
                };
                Ok(AggregateResult::Number(mean.map(|mean| self.scaled(mean))))
            }
            Statistic::Quantiles(phis) => self.quantiles(phis),
            Statistic::Rank(value) => self.rank(*value),
            Statistic::Top { phi, mode } => self.top(*phi, *mode),
            Statistic::Share(predicate) => self.share(predicate),
            Statistic::Distinct => Ok(AggregateResult::Number(Some(self.distinct()?))),
        }
    }

    fn require_values(&self) -> Result<(), AggregateError> {
        if self.spec.keeps_values() {
            return Ok(());
        }
        Err(AggregateError::NotKept { missing: "values, only a count", hint: "configure of: value, or of: a field" })
    }

    fn sample(&mut self, side: SampledField) -> Result<Option<SampleReading>, AggregateError> {
        let moment = self.moment;
        Ok(self.sketches.first_mut().and_then(|sketch| sketch.sample(moment, side)).transpose()?)
    }

    fn totals(&self) -> Result<CellTotals, QueryError> {
        joined(&self.sketches, |sketch| sketch.totals(self.moment), CellTotals::merge)
    }

    fn values(&self) -> Result<CellValues, QueryError> {
        joined(&self.sketches, |sketch| sketch.values(self.moment), CellValues::merge)
    }

    fn labels(&self) -> Result<CellLabels, QueryError> {
        joined(&self.sketches, |sketch| sketch.labels(self.moment), CellLabels::merge)
    }

    fn count(&mut self) -> Result<Estimate, AggregateError> {
        Ok(count_of(&mut self.sketches, self.moment)?)
    }

    fn sum(&mut self) -> Result<Estimate, AggregateError> {
        let sum = match self.sample(SampledField::Main)? {
            Some(answers) => answers.value_sum(),
            None => self.totals()?.sum(),
        };
        Ok(self.scaled(sum))
    }

    /// Converts steps to units.
    fn scaled(&self, estimate: Estimate) -> Estimate {
        let step = self.spec.scale.step();
        let Estimate { value, lower, upper, .. } = estimate;
        Estimate { value: value * step, lower: lower * step, upper: upper * step, ..estimate }
    }

    fn quantiles(&mut self, phis: &[f64]) -> Result<AggregateResult, AggregateError> {
        self.require_values()?;
        let quantiles: Vec<Quantile> = match self.sample(SampledField::Main)? {
            Some(answers) => answers.quantiles(phis)?,
            None => {
                let values = self.values()?;
                let all: Result<Vec<_>, _> = phis.iter().map(|phi| values.quantile(*phi)).collect();
                all?.into_iter().flatten().collect()
            }
        };
        let scale = self.spec.scale;
        let to_units = |quantile: Quantile| QuantileAnswer {
            phi: quantile.phi,
            value: scale.value(quantile.value),
            lower: scale.value(quantile.lower),
            // A sample does not bound the largest values; the configuration does.
            upper: scale.value(quantile.upper.min(scale.max_steps())),
            guarantee: quantile.guarantee,
            incomplete: quantile.incomplete,
            evidence: quantile.evidence,
        };
        Ok(AggregateResult::Quantiles(quantiles.into_iter().map(to_units).collect()))
    }

    fn rank(&mut self, value: f64) -> Result<AggregateResult, AggregateError> {
        self.require_values()?;
        if value.is_nan() {
            return Err(AggregateError::Value(value));
        }
        let below = match self.spec.scale.steps_up_to(value) {
            Some(steps) => Predicate::value_at_most(steps),
            // No value is negative.
            None => Predicate::Any(Vec::new()),
        };
        self.share_of(&below)
    }

    fn share(&mut self, predicate: &Predicate<f64>) -> Result<AggregateResult, AggregateError> {
        self.require_values()?;
        // Where weights are measured, they are kept as values.
        let weight = if self.spec.parameters().of == Measure::Weight { Field::Value } else { Field::Weight };
        let predicate = self.spec.scale.predicate(predicate, weight);
        self.share_of(&predicate)
    }

    fn share_of(&mut self, predicate: &Predicate) -> Result<AggregateResult, AggregateError> {
        Ok(AggregateResult::Number(match self.sample(SampledField::Main)? {
            Some(answers) => answers.share(predicate),
            None => self.values()?.share(predicate)?,
        }))
    }

    fn top(&mut self, phi: f64, mode: TopMode) -> Result<AggregateResult, AggregateError> {
        let labelled = self.spec.parameters().top.is_some();
        if !labelled && !self.spec.keeps_values() {
            return Err(AggregateError::NotKept { missing: "labels", hint: "configure top: FIELD" });
        }
        let side = if labelled { SampledField::Labels } else { SampledField::Main };
        let item = |name: TopName, share, lower, upper| TopAnswer { name, share, lower, upper };
        let sampled = self.sample(side)?;
        if sampled.is_none() && labelled {
            let top = self.labels()?.top(phi, mode)?;
            let items = top.items.iter().map(|one| item(self.text(one.label), one.share, one.lower, one.upper));
            let (items, total, guarantee) = (merge_same_text(items.collect()), top.total, top.guarantee);
            return Ok(AggregateResult::Top { items, total, mode, guarantee });
        }
        let top = match sampled {
            Some(answers) => answers.top(phi, mode)?,
            None => self.values()?.frequent(phi, mode)?,
        };
        let name = |item: u64| match labelled {
            true => self.text(u128::from(item)),
            false => TopName::Value(self.spec.scale.value(item)),
        };
        let items = top.items.iter().map(|one| item(name(one.item), one.share, one.lower, one.upper)).collect();
        Ok(AggregateResult::Top { items: merge_same_text(items), total: top.total, mode, guarantee: top.guarantee })
    }

    fn text(&self, label: u128) -> TopName {
        self.texts.get(&label).map_or(TopName::Label(label), |text| TopName::Text(text.clone()))
    }
}

/// Reads all sketches and joins the readings.
fn joined<T>(
    sketches: &[Sketch],
    read: impl Fn(&Sketch) -> Result<T, QueryError>,
    join: impl Fn(T, T) -> T,
) -> Result<T, QueryError> {
    let mut readings = sketches.iter().map(read);
    let first = readings.next().unwrap_or(Err(QueryError::NotKept("sketch")))?;
    readings.try_fold(first, |all, next| Ok(join(all, next?)))
}

/// The weighted number of events.
pub(super) fn count_of(sketches: &mut [Sketch], at: QueryPoint<'_>) -> Result<Estimate, QueryError> {
    let sampled = sketches.first_mut().and_then(|sketch| sketch.sample(at, SampledField::Main)).transpose()?;
    match sampled {
        Some(answers) => Ok(answers.weight()),
        None => Ok(joined(sketches, |sketch| sketch.totals(at), CellTotals::merge)?.count()),
    }
}

/// Merges items of the same text: after a key rotation a text may have two labels.
fn merge_same_text(items: Vec<TopAnswer>) -> Vec<TopAnswer> {
    let mut all: Vec<TopAnswer> = Vec::with_capacity(items.len());
    for item in items {
        match all.iter_mut().find(|other| matches!(item.name, TopName::Text(_)) && other.name == item.name) {
            None => all.push(item),
            Some(other) => {
                other.share += item.share;
                other.lower += item.lower;
                other.upper = (other.upper + item.upper).min(1.0);
            }
        }
    }
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    all
}

impl AggregateResult {
    fn mark_incomplete(&mut self) {
        match self {
            Self::Number(number) => number.iter_mut().for_each(|number| number.incomplete = true),
            Self::Quantiles(quantiles) => quantiles.iter_mut().for_each(|quantile| quantile.incomplete = true),
            Self::Top { total, .. } => total.incomplete = true,
        }
    }

    /// Whether the true value is known.
    fn is_exact(&self) -> bool {
        let is_exact = |guarantee: &Guarantee| *guarantee == Guarantee::Exact;
        match self {
            Self::Number(number) => number.is_none_or(|number| is_exact(&number.guarantee)),
            Self::Quantiles(quantiles) => quantiles.iter().all(|quantile| is_exact(&quantile.guarantee)),
            Self::Top { guarantee, .. } => is_exact(guarantee),
        }
    }

    fn is_incomplete(&self) -> bool {
        match self {
            Self::Number(number) => number.is_some_and(|number| number.incomplete),
            Self::Quantiles(quantiles) => quantiles.iter().any(|quantile| quantile.incomplete),
            Self::Top { total, .. } => total.incomplete,
        }
    }
}
