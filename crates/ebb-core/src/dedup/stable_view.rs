//! A dedup view over a stable or importance-aware filter: every observation renews the item's cells.
//!
//! Without penalties the filter's own answer is the verdict. With them the posterior decides
//! ([`StablePosterior`]); what it learns is part of the state, but not of the plan's identity, so that penalties can be
//! added and removed without losing what the filter remembers.

use super::Lookup;
use super::filter::{NO_READING, plain_answer};
use crate::question::Span;
use ebb_sketch::codec::{CodecError, Kind, Reader, Writer};
use ebb_sketch::filter::inference::{Answer, Basis, Question};
use ebb_sketch::filter::parameter::ParameterError;
use ebb_sketch::filter::planning::stable_sizing::ClassMix;
use ebb_sketch::filter::stable_posterior::classes::ClassCounts;
use ebb_sketch::filter::stable_posterior::likelihood::CellEvidence;
use ebb_sketch::filter::stable_posterior::{SharePriorSpec, StablePosterior, StablePosteriorSpec};
use ebb_sketch::filter::structure::stable::importance::{ImportanceRule, ImportanceScale};
use ebb_sketch::filter::structure::stable::percentiles::PercentileScale;
use ebb_sketch::filter::structure::stable::{StableFilter, StableSpec};
use ebb_sketch::random::Random;

const KIND: Kind = *b"stbv";
const VERSION: u16 = 1;
/// The kind of a filter's own block, which is the whole state where nothing is learned.
const FILTER_KIND: &[u8] = b"fade";

/// How the importance of an event becomes a cell value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ClassScale {
    /// In proportion to the importance.
    Linear(ImportanceScale),
    /// By its percentile among recent events.
    Percentiles,
}

impl ClassScale {
    pub(super) fn write_identity(self, max_value: u8, writer: &mut Writer) {
        match self {
            Self::Linear(scale) => scale.encode(writer),
            // No linear scale has this largest importance.
            Self::Percentiles => {
                writer.f64(f64::INFINITY);
                writer.u8(max_value);
            }
        }
    }
}

/// A filter that forgets at random, and what is inferred from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StableViewSpec {
    /// Memory and rate of forgetting.
    pub filter: StableSpec,
    /// Maps importance to cell values.
    pub scale: ClassScale,
    /// The window that repeats are counted in; the filter forgets at random before and after it.
    pub window: Option<Span>,
    /// The window as a number of events, where it is known.
    pub window_events: Option<u64>,
    /// The mix of the classes; learned if absent.
    pub mix: Option<ClassMix>,
    /// The prior of the posterior; without it the filter's own answers stand. Requires `window_events`.
    pub prior: Option<SharePriorSpec>,
}

impl StableViewSpec {
    /// A filter without window and posterior.
    pub fn new(filter: StableSpec, scale: ClassScale) -> Self {
        Self { filter, scale, window: None, window_events: None, mix: None, prior: None }
    }

    fn posterior(&self) -> Option<StablePosteriorSpec> {
        Some(StablePosteriorSpec { window: self.window_events?, prior: self.prior?, mix: self.mix })
    }
}

/// The state of the view.
#[derive(Debug, Clone)]
pub(super) struct StableView {
    spec: StableViewSpec,
    pub(super) filter: StableFilter,
    classes: ClassCounts,
    percentiles: Option<PercentileScale>,
    posterior: Option<StablePosterior>,
}

impl StableView {
    pub(super) fn new(spec: StableViewSpec) -> Result<Self, ParameterError> {
        let posterior = spec.posterior().map(|posterior| StablePosterior::new(posterior, &spec.filter));
        Ok(Self {
            filter: StableFilter::new(spec.filter),
            classes: ClassCounts::new(spec.filter.max_value()),
            percentiles: match spec.scale {
                ClassScale::Linear(_) => None,
                ClassScale::Percentiles => Some(PercentileScale::new(spec.filter.max_value())),
            },
            posterior: posterior.transpose()?,
            spec,
        })
    }

    /// The value to which an event of this importance raises its cells.
    pub(super) fn raised_value(&self, importance: f64) -> u8 {
        self.spec.filter.rule().raised_value(self.value(importance), self.spec.filter.max_value())
    }

    /// The cell value of an importance.
    fn value(&self, importance: f64) -> u8 {
        match (self.spec.scale, &self.percentiles) {
            (ClassScale::Linear(scale), _) => scale.value(importance),
            (ClassScale::Percentiles, Some(scale)) => scale.value(importance),
            (ClassScale::Percentiles, None) => self.spec.filter.max_value(),
        }
    }

    pub(super) fn observe(&mut self, lookup: &Lookup<'_>, question: &Question, draws: &mut Random) -> Answer {
        let max_value = self.spec.filter.max_value();
        let value = lookup.importance.map_or(max_value, |importance| self.value(importance));
        if let (Some(scale), Some(importance)) = (&mut self.percentiles, lookup.importance) {
            scale.observe(importance);
        }
        if self.has_classes() || self.posterior.is_some() {
            self.classes.add(value);
        }
        if self.posterior.is_none() {
            return plain_answer(self.filter.observe(lookup.item, value, draws));
        }
        let answer = self.ask(lookup, question);
        self.filter.observe(lookup.item, value, draws);
        if let Some(posterior) = &mut self.posterior {
            posterior.learn(lookup.item);
            posterior.renew(&self.filter, &self.classes);
        }
        answer
    }

    pub(super) fn ask(&self, lookup: &Lookup<'_>, question: &Question) -> Answer {
        let (Some(posterior), Some(penalties)) = (&self.posterior, question.penalties) else {
            return plain_answer(self.filter.contains(lookup.item));
        };
        let evidence = CellEvidence::new(&self.filter, lookup.item);
        if !posterior.is_ready() && question.share.is_none() {
            return Answer { basis: Basis::Learning, ..plain_answer(evidence.reading().is_duplicate()) };
        }
        let value = lookup.importance.map(|importance| self.value(importance));
        // Without an importance rule all items have the same class.
        let value = if self.has_classes() { value } else { Some(self.spec.filter.max_value()) };
        let belief = posterior.belief(&evidence, value, question.share);
        let decision = penalties.decide(&belief);
        let duplicate = decision.duplicate;
        let (decision, belief, standard) = (Some(decision), Some(belief), evidence.reading().is_duplicate());
        Answer { duplicate, basis: Basis::Posterior, decision, belief, reading: NO_READING, standard }
    }

    pub(super) fn basis(&self) -> Basis {
        match &self.posterior {
            None => Basis::Standard,
            Some(posterior) if posterior.is_ready() => Basis::Posterior,
            Some(_) => Basis::Learning,
        }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.spec.filter.cell_bytes() as u64 + self.posterior.as_ref().map_or(0, StablePosterior::memory_bytes)
    }

    fn has_classes(&self) -> bool {
        self.spec.filter.rule() != ImportanceRule::Stable
    }

    /// The classes counted so far; `None` if the filter has one class only.
    pub(super) fn classes(&self) -> Option<&ClassCounts> {
        Some(&self.classes).filter(|_| self.has_classes())
    }

    /// The filter alone if nothing else was learned.
    pub(super) fn encode(&self) -> Vec<u8> {
        let filter = self.filter.encode();
        if !self.has_classes() && self.posterior.is_none() && self.percentiles.is_none() {
            return filter;
        }
        let mut writer = Writer::new(KIND, VERSION);
        writer.bytes(&filter);
        self.classes.encode(&mut writer);
        for part in [
            self.percentiles.as_ref().map(PercentileScale::encode),
            self.posterior.as_ref().map(StablePosterior::encode),
        ] {
            writer.bytes(&part.unwrap_or_default());
        }
        writer.seal()
    }

    /// Reads what [`StableView::encode`] wrote, or a filter alone: then nothing is learned yet.
    pub(super) fn decode(spec: StableViewSpec, bytes: &[u8]) -> Result<Self, CodecError> {
        let new = Self::new(spec).map_err(|error| CodecError::invalid("stable filter", error.to_string()))?;
        let mut view = new;
        let is_learned = match bytes.starts_with(FILTER_KIND) {
            true => {
                view.filter = StableFilter::decode(bytes)?;
                false
            }
            false => view.decode_parts(bytes)?,
        };
        if *view.filter.spec() != spec.filter {
            return Err(CodecError::invalid("stable filter", "its shape differs from the configured one"));
        }
        if let Some(posterior) = view.posterior.as_mut().filter(|_| !is_learned) {
            posterior.renew_now(&view.filter, &view.classes);
        }
        Ok(view)
    }

    /// Returns whether the bytes contain what the posterior learned: penalties may have been added or removed since.
    fn decode_parts(&mut self, bytes: &[u8]) -> Result<bool, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        self.filter = StableFilter::decode(reader.bytes()?)?;
        self.classes = ClassCounts::decode(self.spec.filter.max_value(), &mut reader)?;
        let (percentiles, posterior) = (reader.bytes()?, reader.bytes()?);
        if self.percentiles.is_some() {
            self.percentiles = Some(PercentileScale::decode(self.spec.filter.max_value(), percentiles)?);
        }
        if let Some(spec) = self.spec.posterior().filter(|_| !posterior.is_empty()) {
            self.posterior = Some(StablePosterior::decode(spec, &self.spec.filter, posterior)?);
        }
        reader.finish()?;
        Ok(!posterior.is_empty())
    }
}
