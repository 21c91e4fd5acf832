//! The method `robust`: sampling sketches over values, labels, or both, as a decayed aggregate.

use super::element::{Element, ElementId};
use super::reading::{SampleReading, SumReading};
use super::sketch::{SampleSketch, SampleSpec};
use super::window::{WindowSketch, WindowSpec};
use crate::aggregate::error::{MergeError, ObservationError, QueryError};
use crate::aggregate::observation::Observation;
use crate::aggregate::reading::{Labels, Totals, Values};
use crate::aggregate::sketch::{DecayedSketch, SpecEncoding};
use crate::codec::{CodecError, Reader, Writer};
use crate::decay::Decay;

/// Which fields of an observation are sampled. A sample keeps one number per element, so two fields need two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampledFields {
    /// Values: quantiles, shares and frequent values.
    Values,
    /// Labels: heavy labels.
    Labels,
    /// Both, at twice the memory.
    ValuesAndLabels,
}

/// The specification of a [`RobustSketch`].
#[derive(Debug, Clone, PartialEq)]
pub struct RobustSpec<P> {
    /// The specification of each sample.
    pub sample: P,
    /// Which fields are sampled.
    pub fields: SampledFields,
    /// Where sums and means of values come from.
    pub sums: SumSource,
}

/// Where sums and means of values come from.
#[derive(Debug, Clone, PartialEq)]
pub enum SumSource {
    /// A sample by amount, of a specification from [`WindowSpec::by_amount`], beside the sample of values: sums have the
    /// guarantee of weights, whatever the distribution of the values.
    Amounts(WindowSpec),
    /// The sample of values. The error of a mean is epsilon times the largest value, which is this.
    Values {
        /// The largest value that will be observed.
        max_value: u64,
    },
}

impl SumSource {
    /// The same source with a sample that is halved this many times more.
    pub fn coarsened(&self, halvings: u8) -> Self {
        match self {
            Self::Amounts(spec) => Self::Amounts(spec.coarsened(halvings)),
            Self::Values { max_value } => Self::Values { max_value: *max_value },
        }
    }
}

/// A duplicate- and order-insensitive decayed aggregate.
///
/// Labels are truncated to their lower 64 bits. Weights must be whole numbers.
///
/// ```
/// use ebb_sketch::aggregate::robust::{
///     Accuracy, ElementId, RobustSketch, RobustSpec, SampledFields, SumSource, WindowSpec,
/// };
/// use ebb_sketch::aggregate::{DecayedSketch, Observation};
/// use ebb_sketch::decay::Decay;
///
/// let accuracy = Accuracy::new(0.05, 0.01)?;
/// let sample = WindowSpec::new(accuracy, 1, 3_600_000, 7)?;
/// let sums = SumSource::Amounts(WindowSpec::by_amount(accuracy, 0, 3_600_000, 8)?);
/// let mut sketch = RobustSketch::from_spec(&RobustSpec { sample, fields: SampledFields::Values, sums });
/// for id in [1, 2, 2, 1] {
///     sketch.observe(ElementId::from_bits(id), &Observation { time_ms: 10, value: 5, label: 0, weight: 1.0 })?;
/// }
/// assert_eq!(sketch.totals(10, &Decay::window(1_000)?)?.sum().value, 10.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct RobustSketch<P: SampleSpec> {
    fields: SampledFields,
    /// Of values, or of labels if only labels are sampled.
    main: SampleSketch<P>,
    /// Of labels, if values are sampled too.
    labels: Option<SampleSketch<P>>,
    sums: SumSketch,
}

#[derive(Debug, Clone)]
enum SumSketch {
    Amounts(Box<WindowSketch>),
    Values { max_value: u64 },
}

impl SumSketch {
    fn new(source: &SumSource) -> Self {
        match source {
            SumSource::Amounts(spec) => Self::Amounts(Box::new(WindowSketch::new(spec))),
            SumSource::Values { max_value } => Self::Values { max_value: *max_value },
        }
    }

    fn amounts(&self) -> Option<&WindowSketch> {
        match self {
            Self::Amounts(amounts) => Some(amounts),
            Self::Values { .. } => None,
        }
    }

    fn amounts_mut(&mut self) -> Option<&mut WindowSketch> {
        match self {
            Self::Amounts(amounts) => Some(amounts),
            Self::Values { .. } => None,
        }
    }

    fn read(&self, now_ms: i64, decay: &Decay) -> Result<SumReading, QueryError> {
        match self {
            Self::Amounts(amounts) => Ok(SumReading::Amounts(Box::new(amounts.query(now_ms, decay)?))),
            Self::Values { max_value } => Ok(SumReading::Values { max_value: *max_value }),
        }
    }
}

impl<P: SampleSpec> RobustSketch<P> {
    /// Adds an observation whose weight times value is `amount`, which need not be a whole number. The value of the
    /// observation is what quantiles and shares are about.
    #[inline]
    pub fn observe_amount(
        &mut self,
        id: ElementId,
        observation: &Observation,
        amount: f64,
    ) -> Result<(), ObservationError> {
        let value = match self.fields {
            SampledFields::Labels => observation.label as u64,
            SampledFields::Values | SampledFields::ValuesAndLabels => observation.value,
        };
        let element = self.element(id, observation, value)?;
        // All samples accept the same times; what one of them rejects must not be in another.
        self.main.spec().check(&element)?;
        if let Some(amounts) = self.sums.amounts_mut().filter(|_| amount != 0.0) {
            amounts.insert(Element { value: amount.to_bits(), weight: 1, ..element })?;
        }
        self.main.insert(element)?;
        self.labels
            .as_mut()
            .map_or(Ok(()), |labels| labels.insert(Element { value: observation.label as u64, ..element }))
    }

    fn read_main(&self, now_ms: i64, decay: &Decay) -> Result<SampleReading, QueryError> {
        Ok(self.main.read(now_ms, decay)?.with_sums(self.sums.read(now_ms, decay)?))
    }

    /// The sample of labels, if labels are sampled.
    fn label_sample(&self) -> Option<&SampleSketch<P>> {
        match self.fields {
            SampledFields::Values => None,
            SampledFields::Labels => Some(&self.main),
            SampledFields::ValuesAndLabels => self.labels.as_ref(),
        }
    }

    fn samples(&self) -> impl Iterator<Item = &SampleSketch<P>> {
        [&self.main].into_iter().chain(&self.labels)
    }

    fn samples_mut(&mut self) -> impl Iterator<Item = &mut SampleSketch<P>> {
        [&mut self.main].into_iter().chain(&mut self.labels)
    }

    /// The element that a sample keeps; rejects weights that are not whole.
    #[inline]
    fn element(&self, id: ElementId, observation: &Observation, value: u64) -> Result<Element, ObservationError> {
        let weight = observation.weight as u32;
        if f64::from(weight) != observation.weight {
            let max = f64::from(self.main.spec().max_weight());
            return Err(ObservationError::Weight { weight: observation.weight, min: 1.0, max });
        }
        Ok(Element { time_ms: observation.time_ms, id, value, weight })
    }
}

impl<P: SampleSpec> DecayedSketch for RobustSketch<P> {
    type Spec = RobustSpec<P>;
    const MERGES: bool = true;

    fn from_spec(spec: &RobustSpec<P>) -> Self {
        let new = || SampleSketch::new(&spec.sample);
        let labels = (spec.fields == SampledFields::ValuesAndLabels).then(new);
        Self { fields: spec.fields, main: new(), labels, sums: SumSketch::new(&spec.sums) }
    }

    #[inline]
    fn observe(&mut self, id: ElementId, observation: &Observation) -> Result<(), ObservationError> {
        self.observe_amount(id, observation, observation.weight * observation.value as f64)
    }

    /// Compacts, too.
    fn advance(&mut self, now_ms: i64) {
        self.main.compact();
        if self.main.has_expired_at(now_ms) {
            // Fails only for times that no element can have.
            self.samples_mut().for_each(|sample| _ = sample.advance(now_ms));
        }
        if let Some(amounts) = self.sums.amounts_mut() {
            amounts.compact();
            if amounts.has_expired_at(now_ms) {
                _ = amounts.advance(now_ms);
            }
        }
        self.compact();
    }

    fn compact(&mut self) {
        self.samples_mut().for_each(SampleSketch::compact);
        self.sums.amounts_mut().into_iter().for_each(WindowSketch::compact);
    }

    fn merge(&mut self, other: Self) -> Result<(), MergeError> {
        if self.fields != other.fields {
            return Err(MergeError::Different("fields"));
        }
        // Checked first, so that nothing is merged if something else cannot be.
        self.main.check_same_spec(&other.main)?;
        match (self.sums.amounts_mut(), other.sums.amounts()) {
            (Some(amounts), Some(others)) => amounts.merge_lazily(others)?,
            (None, None) => {}
            _ => return Err(MergeError::Different("sources of sums")),
        }
        self.samples_mut().zip(other.samples()).try_for_each(|(sample, others)| sample.merge_lazily(others))
    }

    fn totals(&self, now_ms: i64, decay: &Decay) -> Result<Totals, QueryError> {
        self.read_main(now_ms, decay).map(Totals::Sample)
    }

    fn values(&self, now_ms: i64, decay: &Decay) -> Result<Values, QueryError> {
        if self.fields == SampledFields::Labels {
            return Err(QueryError::NotKept("values"));
        }
        self.main.read(now_ms, decay).map(Values::Sample)
    }

    fn labels(&self, now_ms: i64, decay: &Decay) -> Result<Labels, QueryError> {
        let sample = self.label_sample().ok_or(QueryError::NotKept("labels"))?;
        sample.read(now_ms, decay).map(Labels::Sample)
    }

    fn collect_labels(&self, into: &mut Vec<u128>) {
        into.extend(self.label_sample().into_iter().flat_map(SampleSketch::values).map(u128::from));
    }

    fn entry_count(&self) -> usize {
        let amounts = self.sums.amounts().map_or(0, WindowSketch::entry_count);
        amounts + self.samples().map(SampleSketch::entry_count).sum::<usize>()
    }

    fn memory_bytes(&self) -> usize {
        let amounts = self.sums.amounts().map_or(0, WindowSketch::memory_bytes);
        amounts + self.samples().map(SampleSketch::memory_bytes).sum::<usize>()
    }

    fn coarseness(&self) -> u8 {
        self.main.spec().coarseness()
    }

    fn coarsen(&mut self, coarseness: u8) {
        self.samples_mut().for_each(|sample| sample.coarsen(coarseness));
        self.sums.amounts_mut().into_iter().for_each(|amounts| amounts.coarsen(coarseness));
    }

    fn disable_cache(&mut self) {
        self.samples_mut().for_each(SampleSketch::disable_cache);
        self.sums.amounts_mut().into_iter().for_each(WindowSketch::disable_cache);
    }

    /// One block per sample.
    fn encode_into(&self, writer: &mut Writer, encoding: SpecEncoding) {
        self.samples().for_each(|sample| writer.bytes(&sample.encode_with(encoding)));
        self.sums.amounts().iter().for_each(|amounts| writer.bytes(&amounts.encode_with(encoding)));
    }

    fn decode_from(spec: &RobustSpec<P>, reader: &mut Reader<'_>, encoding: SpecEncoding) -> Result<Self, CodecError> {
        let mut sketch = Self::from_spec(spec);
        for sample in sketch.samples_mut() {
            *sample = SampleSketch::decode_with(&spec.sample, reader.bytes()?, encoding)?;
        }
        if let (SumSource::Amounts(spec), Some(amounts)) = (&spec.sums, sketch.sums.amounts_mut()) {
            *amounts = WindowSketch::decode_with(spec, reader.bytes()?, encoding)?;
        }
        Ok(sketch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::answer::{Guarantee, TopMode};
    use crate::aggregate::robust::Accuracy;

    fn spec(fields: SampledFields) -> RobustSpec<WindowSpec> {
        let accuracy = Accuracy::new(0.1, 0.01).unwrap();
        let sums = SumSource::Amounts(WindowSpec::by_amount(accuracy, 4, 1_000, 4).unwrap());
        RobustSpec { sample: WindowSpec::new(accuracy, 9, 1_000, 3).unwrap(), fields, sums }
    }

    fn observation(weight: f64) -> Observation {
        Observation { time_ms: 5, value: 7, label: 8, weight }
    }

    #[test]
    fn fractional_weight_is_rejected() {
        let mut sketch = RobustSketch::from_spec(&spec(SampledFields::Values));
        let error = sketch.observe(ElementId::from_bits(1), &observation(1.5)).unwrap_err();
        assert_eq!(error, ObservationError::Weight { weight: 1.5, min: 1.0, max: 9.0 });
        assert_eq!(sketch.entry_count(), 0);
    }

    #[test]
    fn fields_decide_which_readings_are_kept() {
        let window = Decay::window(100).unwrap();
        for (fields, values, labels) in [
            (SampledFields::Values, true, false),
            (SampledFields::Labels, false, true),
            (SampledFields::ValuesAndLabels, true, true),
        ] {
            let mut sketch = RobustSketch::from_spec(&spec(fields));
            sketch.observe(ElementId::from_bits(1), &observation(2.0)).unwrap();
            assert_eq!(sketch.totals(5, &window).unwrap().count().value, 2.0);
            assert_eq!(sketch.values(5, &window).map(|v| v.weight_of(7).value).ok(), values.then_some(2.0));
            let top = |labels: Labels| labels.top(0.5, TopMode::NoFalsePositives).unwrap().items[0].label;
            assert_eq!(sketch.labels(5, &window).map(top).ok(), labels.then_some(8));
        }
    }

    #[test]
    fn fractional_amounts_are_summed_without_rounding() {
        let mut sketch = RobustSketch::from_spec(&spec(SampledFields::Values));
        for (id, amount) in [(1, 0.3), (2, 7.25), (2, 7.25), (3, 0.0), (4, 0.0625)] {
            sketch.observe_amount(ElementId::from_bits(id), &observation(1.0), amount).unwrap();
        }
        let totals = sketch.totals(5, &Decay::window(100).unwrap()).unwrap();
        assert_eq!((totals.sum().value, totals.sum().guarantee), (0.3 + 7.25 + 0.0625, Guarantee::Exact));
        assert_eq!((totals.count().value, totals.mean().unwrap().value), (4.0, 7.6125 / 4.0));
    }

    #[test]
    fn rejected_amount_leaves_no_trace() {
        let mut sketch = RobustSketch::from_spec(&spec(SampledFields::ValuesAndLabels));
        for amount in [0.06, -1.0, f64::NAN, f64::INFINITY] {
            let error = sketch.observe_amount(ElementId::from_bits(1), &observation(1.0), amount).unwrap_err();
            assert!(matches!(error, ObservationError::Amount { min: 0.0625, .. }), "{error}");
        }
        assert!(sketch.observe_amount(ElementId::from_bits(1), &observation(99.0), 1.0).is_err());
        assert_eq!(sketch.entry_count(), 0);
    }

    #[test]
    fn merge_rejects_other_fields() {
        let mut sketch = RobustSketch::from_spec(&spec(SampledFields::Values));
        let other = RobustSketch::from_spec(&spec(SampledFields::Labels));
        assert_eq!(sketch.merge(other), Err(MergeError::Different("fields")));
    }
}
