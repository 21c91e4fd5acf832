//! Top labels under a decay, with bounds.

use super::super::answer::{Estimate, Guarantee, TopMode};
use super::super::spacesaving::SpaceSaving;
use super::QuestionError;
use super::totals::{Bracket, Factor, Standing, achieved};

/// One frequent label and its share of the decayed weight, with bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopLabel {
    pub label: u128,
    pub share: f64,
    pub lower: f64,
    pub upper: f64,
}

/// The frequent labels, largest share first, equal shares by label.
#[derive(Debug, Clone, PartialEq)]
pub struct TopLabels {
    pub items: Vec<TopLabel>,
    /// What the shares are shares of.
    pub total: Estimate,
    pub mode: TopMode,
    pub guarantee: Guarantee,
}

/// How the decayed weight is spread over the labels, at one time and under one decay.
#[derive(Debug, Clone, PartialEq)]
pub struct Labels {
    /// Beyond what every label may weigh unseen; by label, each once, after [`finish`](Self::finish).
    seen: Vec<(u128, Bracket)>,
    unseen: Bracket,
    total: Bracket,
    standing: Standing,
}

impl Labels {
    pub(crate) fn new() -> Self {
        let standing = Standing { epsilon: Some(0.0), incomplete: false, cells: 0 };
        Self { seen: Vec::new(), unseen: Bracket::default(), total: Bracket::default(), standing }
    }

    pub(crate) fn add(&mut self, summary: &SpaceSaving, factor: Factor) {
        self.total.add(summary.weight(), factor);
        let floor = summary.floor();
        self.unseen.value += floor / 2.0 * factor.middle;
        self.unseen.upper += floor * factor.upper;
        self.seen.extend(summary.followed().into_iter().map(|counter| {
            let value = (counter.seen + (counter.error - floor) / 2.0) * factor.middle;
            let upper = (counter.seen + counter.error - floor) * factor.upper;
            (counter.label, Bracket { lower: counter.seen * factor.lower, value, upper })
        }));
    }

    pub(crate) fn add_one(&mut self, label: u128, weight: f64, factor: Factor) {
        self.total.add(weight, factor);
        let mut bracket = Bracket::default();
        bracket.add(weight, factor);
        self.seen.push((label, bracket));
    }

    pub(crate) fn finish(mut self, standing: Standing) -> Self {
        self.seen.sort_by_key(|(label, _)| *label);
        self.seen.dedup_by(|next, first| {
            let same = next.0 == first.0;
            if same {
                first.1.join(next.1);
            }
            same
        });
        self.standing = standing;
        self
    }

    /// The spread of both, as if one structure had seen everything.
    pub fn join(mut self, other: Self) -> Self {
        self.seen.extend(other.seen);
        self.unseen.join(other.unseen);
        self.total.join(other.total);
        let standing = self.standing.join(other.standing);
        self.finish(standing)
    }

    /// Bounds of the decayed weight of one label.
    pub fn weight_of(&self, label: u128) -> Bracket {
        match self.seen.binary_search_by_key(&label, |(l, _)| *l) {
            Ok(place) => self.bounds(self.seen[place].1),
            Err(_) => self.unseen,
        }
    }

    fn bounds(&self, seen: Bracket) -> Bracket {
        Bracket {
            lower: seen.lower,
            value: seen.value + self.unseen.value,
            upper: (seen.upper + self.unseen.upper).max(seen.lower),
        }
    }

    /// The decayed weight of everything.
    pub fn total(&self) -> Estimate {
        let bracket = self.total;
        Estimate {
            value: bracket.value,
            lower: bracket.lower,
            upper: bracket.upper,
            guarantee: self.standing.guarantee(achieved(bracket)),
            incomplete: self.standing.incomplete,
            evidence: self.standing.evidence(),
        }
    }

    /// The labels that hold at least `phi` of the decayed weight. `phi` must be above the error.
    pub fn top(&self, phi: f64, mode: TopMode) -> Result<TopLabels, QuestionError> {
        let hidden = if self.total.lower > 0.0 { self.unseen.upper / self.total.lower } else { 0.0 };
        let least = hidden.max(self.standing.epsilon.unwrap_or(0.0));
        if !(phi > least && phi <= 1.0) {
            return Err(QuestionError::PhiTooSmall { phi, least });
        }
        let total = self.total;
        let mut items: Vec<TopLabel> = Vec::new();
        for (label, seen) in self.seen.iter().filter(|_| total.value > 0.0) {
            let weight = self.bounds(*seen);
            let lower = weight.lower / total.upper;
            let upper = if total.lower > 0.0 { (weight.upper / total.lower).min(1.0) } else { 1.0 };
            let listed = match mode {
                TopMode::NoFalsePositives => lower >= phi,
                TopMode::NoFalseNegatives => upper >= phi,
            };
            if listed {
                let share = (weight.value / total.value).max(lower).min(upper);
                items.push(TopLabel { label: *label, share, lower, upper });
            }
        }
        items.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.label.cmp(&b.label)));
        Ok(TopLabels { items, total: self.total(), mode, guarantee: self.standing.guarantee(hidden) })
    }
}
