//! From the keys of `stable` and the importance filters to their parameters.

use super::importance::{ClassesConfig, OTHER_CLASS};
use super::{DedupConfig, FilterKind, FilterSizing};
use ebb_sketch::filter::parameter::ParameterError;
use ebb_sketch::filter::planning::stable_sizing::{
    ClassMix, FixedParameters, StableTarget, size_stable, tune_to_missed,
};
use ebb_sketch::filter::planning::tuning::tune_decrements;
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::stable::StableSpec;
use ebb_sketch::filter::structure::stable::importance::ImportanceRule;

/// Why the keys give no filter.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct StableError {
    /// The key to change.
    pub key: &'static str,
    pub message: String,
}

impl StableError {
    fn at(key: &'static str) -> impl Fn(ParameterError) -> Self {
        move |error| Self { key, message: error.to_string() }
    }
}

impl FilterKind {
    /// How importance affects the counters, for a largest value; `None` if the filter has no counters.
    fn raise_rule(self) -> Option<fn(u8) -> ImportanceRule> {
        match self {
            Self::Timing | Self::Classic => None,
            Self::Stable => Some(|_| ImportanceRule::Stable),
            Self::Importance2c => Some(ImportanceRule::two_class),
            Self::ImportanceMc => Some(|_| ImportanceRule::MultiClass),
            Self::ImportanceH => Some(|_| ImportanceRule::Harmonic),
        }
    }
}

impl DedupConfig {
    /// The filter whose counters are decremented at random.
    pub fn stable_filter(&self) -> Result<StableSpec, StableError> {
        let rule = self
            .filter
            .raise_rule()
            .ok_or_else(|| StableError { key: "filter", message: "is not one that forgets at random".into() })?;
        let max_value = self.bits.map(|bits| ((1u16 << bits) - 1) as u8);
        let mix = self.planned_mix()?;
        let memory = match self.sizing() {
            FilterSizing::Memory(memory) => memory.0,
            FilterSizing::Error { error, .. } => {
                let fixed = FixedParameters { hashes: self.cells.map(|cells| cells as u8), max_value };
                let (missed, age) = (self.missed.unwrap_or(super::defaults::MISSED), self.stated_age()?);
                let target = StableTarget { false_duplicates: error, missed, age };
                return size_stable(&target, rule, &mix, fixed).map_err(StableError::at("missed"));
            }
        };
        let top = max_value.unwrap_or(super::defaults::MAX_COUNTER);
        let cells = self.cells.unwrap_or(super::defaults::CELLS) as u8;
        let layout = CellLayout::in_memory(memory).map_err(StableError::at("memory"))?;
        let spec = StableSpec::new(layout, cells, 1, top, rule(top)).map_err(StableError::at("memory"))?;
        let values = mix.values(top);
        match (self.decrements, self.missed) {
            (Some(decrements), _) => spec.with_decrements(decrements as u32).map_err(StableError::at("decrements")),
            (None, Some(missed)) => {
                tune_to_missed(&spec, &values, missed, self.stated_age()?).map_err(StableError::at("missed"))
            }
            (None, None) => tune_decrements(&spec, &values, self.tuning_error()).map_err(StableError::at("memory")),
        }
    }

    /// The age that `missed` refers to, in events.
    fn stated_age(&self) -> Result<u64, StableError> {
        let message = "requires the number of events within the window; add rate: (events per second), or set window to a \
                       number of events";
        self.expected_events().ok_or_else(|| StableError { key: "missed", message: message.into() })
    }

    /// The mix of the classes: as configured; otherwise all classes are taken to be equally frequent.
    pub fn planned_mix(&self) -> Result<ClassMix, StableError> {
        if let Some(mix) = self.class_mix()? {
            return Ok(mix);
        }
        match &self.importance_classes {
            ClassesConfig::Numbers | ClassesConfig::Percentiles => Ok(ClassMix::EVEN),
            ClassesConfig::Table(classes) => {
                let even: Vec<_> = classes.iter().map(|(_, importance)| (self.relative(*importance), 1.0)).collect();
                ClassMix::new(&even).map_err(StableError::at("importance_classes"))
            }
        }
    }

    /// The configured mix of the classes.
    pub fn class_mix(&self) -> Result<Option<ClassMix>, StableError> {
        let Some(mix) = &self.importance_mix else { return Ok(None) };
        let error = |message: String| StableError { key: "importance_mix", message };
        let class = |(name, share): &(String, f64)| {
            let importance = match &self.importance_classes {
                ClassesConfig::Table(classes) => {
                    let listed = || classes.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
                    let found = classes.iter().find(|(class, _)| class == name).map(|(_, importance)| *importance);
                    found.ok_or_else(|| error(format!("{name:?} is not one of importance_classes: {}", listed())))?
                }
                ClassesConfig::Numbers => name
                    .parse()
                    .ok()
                    .filter(|importance: &f64| *importance >= 0.0 && importance.is_finite())
                    .ok_or_else(|| error(format!("{name:?} is not an importance; expected a number of at least 0")))?,
                ClassesConfig::Percentiles => {
                    return Err(error("does not apply to percentiles, which are equally frequent; remove it".into()));
                }
            };
            Ok((self.relative(importance), *share))
        };
        let classes = mix.iter().map(class).collect::<Result<Vec<_>, _>>()?;
        ClassMix::new(&classes).map(Some).map_err(StableError::at("importance_mix"))
    }

    /// An importance as a fraction of the largest.
    fn relative(&self, importance: f64) -> f64 {
        (importance / self.max_importance()).min(1.0)
    }

    /// The importance that has the largest cell value.
    pub fn max_importance(&self) -> f64 {
        let listed = match &self.importance_classes {
            ClassesConfig::Table(classes) => classes.iter().map(|(_, importance)| *importance).reduce(f64::max),
            ClassesConfig::Numbers | ClassesConfig::Percentiles => None,
        };
        self.importance_max.or(listed).unwrap_or(super::defaults::IMPORTANCE_MAX)
    }

    /// The classes that events name, and the importance of all other ones.
    pub fn named_classes(&self) -> Option<ebb_core::ImportanceClasses> {
        let ClassesConfig::Table(classes) = &self.importance_classes else { return None };
        let other = classes.iter().find(|(name, _)| name == OTHER_CLASS).map(|(_, importance)| *importance);
        let named = classes.iter().filter(|(name, _)| name != OTHER_CLASS).cloned();
        Some(ebb_core::ImportanceClasses::new(named, other))
    }
}
