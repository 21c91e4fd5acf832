//! How a filter that forgets at random forgets: by class, from its limiting law.

use super::stable_view::{ClassScale, StableViewSpec};
use crate::event_spec::ImportanceClasses;
use ebb_sketch::filter::planning::stationary::{InitialCell, StationaryDistribution, ValueShares};
use ebb_sketch::filter::stable_posterior::classes::ClassCounts;

/// How fast items are forgotten in the steady state.
#[derive(Debug, Clone, PartialEq)]
pub struct Forgetting {
    /// The age, in events, at which half of the most important items are forgotten; `None` if other items keep them found.
    pub half_forgotten: Option<u64>,
    /// The share of new items that the filter's own answer takes for duplicates, if all lines were equally full.
    pub false_duplicates: f64,
    /// The share of cells in use.
    pub fill: f64,
    /// The classes, least important first.
    pub classes: Vec<ClassForgetting>,
}

/// How fast the items of one class are forgotten.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassForgetting {
    /// The cell value of the class.
    pub value: u8,
    /// The share of events in this class.
    pub share: f64,
    /// The age, in events, at which half of its items are forgotten.
    pub half_forgotten: Option<u64>,
    /// The share of repeats after a whole window that are missed, where the window is known in events.
    pub missed: Option<f64>,
}

impl Forgetting {
    /// The share of repeats after a whole window that are missed, over all classes.
    pub fn missed(&self) -> Option<f64> {
        self.classes.iter().map(|class| Some(class.share * class.missed?)).sum()
    }
}

impl StableViewSpec {
    /// The mix of classes to plan with: the given one, or else the counted one, or an even one.
    pub fn planned_values(&self, counted: Option<&ClassCounts>) -> ValueShares {
        match (self.mix, counted.and_then(ClassCounts::observed)) {
            (Some(mix), _) => mix.values(self.filter.max_value()),
            (None, Some(counted)) => counted,
            (None, None) => ValueShares::uniform(self.filter.max_value()),
        }
    }

    /// The name of the class whose cells are raised to `value`: the configured names of that value, or the value itself.
    pub fn class_name(&self, value: u8, classes: Option<&ImportanceClasses>) -> String {
        let (rule, max_value) = (self.filter.rule(), self.filter.max_value());
        let raised = |importance: f64| match self.scale {
            ClassScale::Linear(scale) => rule.raised_value(scale.value(importance), max_value),
            ClassScale::Percentiles => 0,
        };
        let named = classes
            .into_iter()
            .flat_map(|classes| classes.iter().chain(classes.other().map(|importance| ("*", importance))));
        let names: Vec<&str> =
            named.filter(|(_, importance)| raised(*importance) == value).map(|(name, _)| name).collect();
        if names.is_empty() { format!("{value} of {max_value}") } else { names.join(", ") }
    }

    /// The forgetting of the filter: with the given mix of classes, or else with the counted one, or with an even one.
    /// `None` if the filter has no steady state.
    pub fn forgetting(&self, counted: Option<&ClassCounts>) -> Option<Forgetting> {
        let max_value = self.filter.max_value();
        let values = self.planned_values(counted);
        let law = StationaryDistribution::new(&self.filter, &values)?;
        let half_forgotten = law.half_forgotten();
        let half = |value: u8| half_forgotten.get(usize::from(value).saturating_sub(1)).copied().flatten();
        let raised = values.under(self.filter.rule(), max_value);
        let classes = (1u8..).zip(raised.shares()).filter(|(_, share)| **share > 0.0);
        let class = |(value, share): (u8, &f64)| ClassForgetting {
            value,
            share: *share,
            half_forgotten: half(value),
            missed: self.window_events.map(|age| law.miss_probability(value, age, InitialCell::Stationary)),
        };
        Some(Forgetting {
            half_forgotten: half(law.top_value()),
            false_duplicates: law.false_duplicate_rate(),
            fill: 1.0 - law.zero_share(),
            classes: classes.map(class).collect(),
        })
    }
}
