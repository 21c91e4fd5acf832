//! The configuration of a dedup view.

use super::filter::FilterSpec;
use super::isolation::IsolationSpec;
use super::penalty::{KeyRule, KeyRules, PenaltySpec};
use super::prior::{PriorStrata, ShareSource};
use crate::key_rotation::Retention;
use crate::question::{Question, QuestionError, Span};
use crate::verdict::Reason;
use ebb_sketch::codec::Writer;
use ebb_sketch::filter::inference::Seen;
use ebb_sketch::filter::inference::decision::Penalties;
use ebb_sketch::filter::structure::stable::StableSpec;
use ebb_sketch::filter::structure::timing::ClockSpec;
use ebb_sketch::hash::Fingerprint;

/// The configuration of a dedup view.
#[derive(Debug, Clone, PartialEq)]
pub struct DedupSpec {
    /// The filter that all keys share.
    pub filter: FilterSpec,
    /// Whether the window is measured from the first or the last sighting of an item.
    pub seen: Seen,
    /// The penalties of wrong answers; without them the filter's plain answer stands.
    pub penalty: Option<PenaltySpec>,
    /// The source of an item's share of all events; without it, or where it has no value, the filter's prior applies.
    pub share: Option<ShareSource>,
    /// The groups for which a learned prior is kept separately.
    pub strata: PriorStrata,
    /// Windows, penalties and priors of single keys.
    pub rules: KeyRules,
    /// Filters of their own for the heaviest keys.
    pub isolation: Option<IsolationSpec>,
}

impl DedupSpec {
    /// One filter for all keys, without penalties, rules and isolation.
    pub fn new(filter: FilterSpec, seen: Seen) -> Self {
        Self {
            filter,
            seen,
            penalty: None,
            share: None,
            strata: PriorStrata::default(),
            rules: KeyRules::default(),
            isolation: None,
        }
    }

    /// The configured window: the default and the maximum of rules and questions. Filters that forget at random have
    /// none.
    pub fn window(&self) -> Option<Span> {
        self.filter.timing().map(|spec| match spec.clock() {
            ClockSpec::Time { window_ms, .. } => Span::Milliseconds(window_ms),
            ClockSpec::Count { window, .. } => Span::Events(window),
        })
    }

    /// The sighting from which an item's age counts. Filters that forget at random renew an item with every event.
    pub fn renewal(&self) -> Seen {
        match self.filter {
            FilterSpec::Stable(_) => Seen::Last,
            FilterSpec::Timing { .. } | FilterSpec::Classic { .. } => self.seen,
        }
    }

    /// Refuses penalties of a question that the filter cannot weigh.
    pub(crate) fn check_penalties(&self, question: &Question) -> Result<(), QuestionError> {
        let has_prior = match &self.filter {
            FilterSpec::Timing { .. } => true,
            FilterSpec::Stable(spec) => spec.prior.is_some(),
            FilterSpec::Classic { share, .. } => share.is_some() || question.share.is_some(),
        };
        if question.penalties.is_some() && !has_prior { Err(QuestionError::NoPosterior) } else { Ok(()) }
    }

    /// How long after it was recorded an item may still be found.
    pub(crate) fn retention(&self) -> Retention {
        match &self.filter {
            FilterSpec::Timing { spec, .. } => match spec.clock() {
                ClockSpec::Time { window_ms, lateness_ms, tick_ms } => {
                    Retention::Milliseconds(window_ms.saturating_add(lateness_ms).saturating_add(tick_ms))
                }
                ClockSpec::Count { window, block } => Retention::Events(window.saturating_add(block)),
            },
            FilterSpec::Stable(spec) => Retention::Events(stable_retention(&spec.filter)),
            FilterSpec::Classic { .. } => Retention::Forever,
        }
    }

    /// The window of a question, in the unit of the configured one; `None` when the question has none.
    pub fn requested_window(&self, requested: Option<Span>) -> Result<Option<u64>, QuestionError> {
        let Some(requested) = requested else { return Ok(None) };
        let max = self.window().ok_or(QuestionError::NoWindow)?;
        match (requested, max) {
            (Span::Milliseconds(0) | Span::Events(0), _) => Err(QuestionError::EmptyWindow),
            (Span::Milliseconds(w), Span::Milliseconds(m)) | (Span::Events(w), Span::Events(m)) if w <= m => {
                Ok(Some(w))
            }
            (Span::Milliseconds(_), Span::Milliseconds(_)) | (Span::Events(_), Span::Events(_)) => {
                Err(QuestionError::WindowTooLong { requested, max })
            }
            (Span::Milliseconds(_), Span::Events(_)) | (Span::Events(_), Span::Milliseconds(_)) => {
                Err(QuestionError::WindowKind { requested, max })
            }
        }
    }

    /// The window of a key's events, in the unit of the configured one.
    pub fn key_window(&self, key: Option<Fingerprint>) -> Option<u64> {
        let window = self.rule(key).and_then(|rule| rule.window);
        self.filter.timing().map(|spec| window.unwrap_or(spec.clock().window()))
    }

    /// The penalties of an event with this key and these numbers, if any are configured and known.
    pub fn penalties(&self, key: Option<Fingerprint>, numbers: &[Option<f64>]) -> Option<Penalties> {
        self.penalty_spec(key)?.evaluate(numbers).ok().flatten()
    }

    /// The same view without penalties, so that the filter's plain answers stand.
    pub fn without_penalties(&self) -> Self {
        Self { penalty: None, rules: self.rules.without_penalties(), ..self.clone() }
    }

    /// Rejects an event whose costs are negative or not finite, or whose prior does not lie between 0 and 1.
    pub(crate) fn check_numbers(&self, key: Option<Fingerprint>, numbers: &[Option<f64>]) -> Result<(), Reason> {
        let costs = self.penalty_spec(key).map(|spec| spec.evaluate(numbers));
        let share = self.share_source(key).map(|source| source.evaluate(numbers, None));
        match (costs, share) {
            (Some(Err(_)), _) | (_, Some(Err(_))) => Err(Reason::Schema),
            (Some(Ok(_)) | None, Some(Ok(_)) | None) => Ok(()),
        }
    }

    /// The source of shares of the key's rule, or else of the view.
    pub(super) fn share_source(&self, key: Option<Fingerprint>) -> Option<&ShareSource> {
        self.rule(key).and_then(|rule| rule.share.as_ref()).or(self.share.as_ref())
    }

    /// The penalties of the key's rule, or else of the view.
    fn penalty_spec(&self, key: Option<Fingerprint>) -> Option<&PenaltySpec> {
        self.rule(key).and_then(|rule| rule.penalty.as_ref()).or(self.penalty.as_ref())
    }

    pub(super) fn rule(&self, key: Option<Fingerprint>) -> Option<&KeyRule> {
        key.and_then(|key| self.rules.get(key))
    }

    /// Writes what state depends on: shapes and modes, but not penalties.
    pub(crate) fn write_identity(&self, writer: &mut Writer) {
        self.filter.write_identity(writer);
        writer.u8(match (&self.filter, self.seen) {
            // Every event renews an item, whatever is configured.
            (FilterSpec::Stable(_), _) | (_, Seen::First) => 0,
            (_, Seen::Last) => 1,
        });
        match &self.isolation {
            None => writer.u8(0),
            Some(isolation) => {
                writer.u8(1);
                isolation.write_identity(writer);
            }
        }
    }
}

/// Number of events after which a filter that forgets at random has lost nearly everything. Each event decrements
/// `decrements` cells, so a cell at the top value is expected to reach zero after top × cells / decrements events.
fn stable_retention(spec: &StableSpec) -> u64 {
    const SAFETY_FACTOR: u64 = 4;
    let decrements = u64::from(spec.decrements().max(1));
    (u64::from(spec.max_value()) * SAFETY_FACTOR).saturating_mul(spec.hasher().cells().div_ceil(decrements))
}
