//! Counts of right and wrong decisions.

use std::collections::BTreeMap;

use serde::Serialize;

use super::oracle::GroundTruth;
use ebb_core::{Answer, Basis, Penalties, Verdict};

/// Bins of stated probabilities, all of the same width.
const PROBABILITY_BINS: usize = 10;
/// Bins of ages in one window.
const BINS_PER_WINDOW: u64 = 8;
/// Windows that are divided into bins.
const WINDOWS: u64 = 2;

/// Decisions compared with an exact memory that has the same window. A late event is neither right nor wrong.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ErrorCounts {
    /// Events that are the first of their item within the window.
    pub firsts: u64,
    /// Those of them that were called duplicate.
    pub false_duplicates: u64,
    /// False duplicates last accepted less than one block of the filter before the window.
    pub at_the_edge: u64,
    /// Events that repeat an item of the window.
    pub repeats: u64,
    /// Those of them that were called unique.
    pub missed_duplicates: u64,
    /// Missed duplicates that the service itself had accepted within the window, so that its memory should contain them.
    pub forgotten: u64,
    /// Firsts that were called late.
    pub late_firsts: u64,
    /// Repeats that were called late.
    pub late_repeats: u64,
}

/// Cost of wrong decisions by the service, by the same filter without penalties, and without a filter.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PenaltyTotals {
    /// Whether penalties are configured; otherwise every wrong decision costs 1.
    pub configured: bool,
    /// Cost of the service's decisions.
    pub service: f64,
    /// Cost of the same filter without penalties.
    pub standard_filter: f64,
    /// Cost of calling every event unique.
    pub no_filter: f64,
    /// Saved share of the cost of the filter without penalties.
    pub saved_against_standard: Option<f64>,
    /// Saved share of the cost without a filter.
    pub saved_against_none: Option<f64>,
}

/// Stated probabilities of a repeat and the observed frequency.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct CalibrationBin {
    /// Lower end of the bin.
    pub from: f64,
    /// Upper end of the bin, exclusive.
    pub below: f64,
    /// Probabilities stated in the bin.
    pub stated: u64,
    /// Their mean.
    pub mean_stated: f64,
    /// Observed share of repeats.
    pub came_true: f64,
}

/// Events by the time since the service last accepted their item, in windows.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct AgeBin {
    /// Lower end of the bin.
    pub from: f64,
    /// Upper end of the bin, exclusive; `None` if it has no end.
    pub below: Option<f64>,
    /// Events in the bin.
    pub events: u64,
    /// Those of them that were called duplicate.
    pub called_duplicate: u64,
}

/// Guarantees of a timing filter, counted on decisions that penalties did not change.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StandardAnswers {
    /// Events accepted within the window that were called unique: must be 0.
    #[serde(rename = "denied")]
    pub false_negatives: u64,
    /// Events whose item was never accepted, or longer ago than window and block.
    #[serde(rename = "strangers")]
    pub unseen: u64,
    /// Those of them that were called duplicate.
    #[serde(rename = "taken_for_seen")]
    pub false_positives: u64,
    /// False positives that the filter's own estimate predicts.
    #[serde(rename = "expected")]
    pub expected_false_positives: f64,
}

/// The counts of one stream.
#[derive(Debug)]
pub struct DecisionTally {
    pub errors: ErrorCounts,
    /// Of the same filter without penalties.
    pub standard_errors: ErrorCounts,
    pub penalty: PenaltyTotals,
    /// Of the service, by importance class.
    pub classes: BTreeMap<u8, ErrorCounts>,
    pub standard_answers: StandardAnswers,
    pub bases: BTreeMap<&'static str, u64>,
    /// Count, sum and repeats of the probabilities stated in each bin.
    probabilities: [(u64, f64, u64); PROBABILITY_BINS],
    ages: Vec<AgeBin>,
    never_accepted: AgeBin,
    /// One block of the filter, in the unit of the window.
    block: u64,
    /// Unseen items since the filter's estimate was last read.
    unseen_since_rate: u64,
    false_positive_rate: f64,
}

/// One decision with the truth.
#[derive(Debug, Clone, Copy)]
pub struct DecisionSample<'a> {
    pub truth: GroundTruth,
    pub answer: &'a Answer,
    /// The verdict of the same filter without penalties.
    pub standard: Verdict,
    pub penalties: Option<Penalties>,
    /// The importance class, where the filter has classes.
    pub class: Option<u8>,
}

impl ErrorCounts {
    fn add(&mut self, truth: &GroundTruth, verdict: Verdict, block: u64) {
        let repeat = truth.is_repeat();
        let late = verdict == Verdict::Late;
        *if repeat { &mut self.repeats } else { &mut self.firsts } += 1;
        if late {
            *if repeat { &mut self.late_repeats } else { &mut self.late_firsts } += 1;
        }
        if is_false_duplicate(truth, verdict) {
            self.false_duplicates += 1;
            let seen = [truth.exact_age, truth.service_age].into_iter().flatten();
            self.at_the_edge += u64::from(seen.min().is_some_and(|age| age < truth.window.saturating_add(block)));
        }
        if is_missed_duplicate(truth, verdict) {
            self.missed_duplicates += 1;
            self.forgotten += u64::from(truth.is_in_service_memory());
        }
    }
}

fn is_false_duplicate(truth: &GroundTruth, verdict: Verdict) -> bool {
    verdict == Verdict::Duplicate && !truth.is_repeat()
}

fn is_missed_duplicate(truth: &GroundTruth, verdict: Verdict) -> bool {
    verdict == Verdict::Unique && truth.is_repeat()
}

impl DecisionTally {
    /// `block`: the resolution of the filter, in the unit of the window.
    pub fn new(block: u64) -> Self {
        let windows = |index: u64| index as f64 / BINS_PER_WINDOW as f64;
        let age = |index| AgeBin { from: windows(index), below: Some(windows(index + 1)), ..AgeBin::default() };
        let mut ages: Vec<AgeBin> = (0..BINS_PER_WINDOW * WINDOWS).map(age).collect();
        ages.push(AgeBin { from: WINDOWS as f64, ..AgeBin::default() });
        Self {
            errors: ErrorCounts::default(),
            standard_errors: ErrorCounts::default(),
            penalty: PenaltyTotals::default(),
            classes: BTreeMap::new(),
            standard_answers: StandardAnswers::default(),
            bases: BTreeMap::new(),
            probabilities: [(0, 0.0, 0); PROBABILITY_BINS],
            ages,
            never_accepted: AgeBin::default(),
            block,
            unseen_since_rate: 0,
            false_positive_rate: 0.0,
        }
    }

    pub fn add(&mut self, decided: &DecisionSample<'_>) {
        let DecisionSample { truth, answer, standard, .. } = decided;
        *self.bases.entry(answer.basis.name()).or_default() += 1;
        self.errors.add(truth, answer.verdict, self.block);
        if let Some(class) = decided.class {
            self.classes.entry(class).or_default().add(truth, answer.verdict, self.block);
        }
        self.standard_errors.add(truth, *standard, self.block);
        self.add_penalty(decided);
        self.add_age(truth, answer.verdict);
        if let Some(belief) = answer.belief {
            let bin = ((belief.inside * PROBABILITY_BINS as f64) as usize).min(PROBABILITY_BINS - 1);
            let (stated, sum, came_true) = &mut self.probabilities[bin];
            *stated += 1;
            *sum += belief.inside;
            *came_true += u64::from(truth.is_in_service_memory());
        }
        if matches!(answer.basis, Basis::Standard | Basis::Learning) {
            self.add_standard_answer(truth, answer.verdict);
        }
    }

    fn add_penalty(&mut self, decided: &DecisionSample<'_>) {
        let DecisionSample { truth, answer, standard, penalties, .. } = decided;
        if answer.verdict == Verdict::Late {
            return;
        }
        self.penalty.configured |= penalties.is_some();
        let (wrong, missed) =
            penalties.map_or((1.0, 1.0), |penalties| (penalties.false_duplicate(), penalties.missed_duplicate()));
        let cost = |verdict: Verdict| match (is_false_duplicate(truth, verdict), is_missed_duplicate(truth, verdict)) {
            (true, _) => wrong,
            (_, true) => missed,
            _ => 0.0,
        };
        self.penalty.service += cost(answer.verdict);
        self.penalty.standard_filter += cost(*standard);
        self.penalty.no_filter += cost(Verdict::Unique);
    }

    fn add_age(&mut self, truth: &GroundTruth, verdict: Verdict) {
        let bin = match truth.service_age {
            None => &mut self.never_accepted,
            Some(age) => {
                let index = (age as f64 / truth.window as f64 * BINS_PER_WINDOW as f64) as usize;
                let last = self.ages.len() - 1;
                &mut self.ages[index.min(last)]
            }
        };
        bin.events += 1;
        bin.called_duplicate += u64::from(verdict == Verdict::Duplicate);
    }

    fn add_standard_answer(&mut self, truth: &GroundTruth, verdict: Verdict) {
        self.standard_answers.false_negatives += u64::from(truth.is_in_service_memory() && verdict == Verdict::Unique);
        if truth.service_age.is_none_or(|age| age >= truth.window.saturating_add(self.block)) {
            self.standard_answers.unseen += 1;
            self.unseen_since_rate += 1;
            self.standard_answers.false_positives += u64::from(verdict == Verdict::Duplicate);
        }
    }

    /// Adds a reading of the filter's estimated false positive rate. The rate changes slowly, so the higher of two readings
    /// is used for the items between them.
    pub fn add_rate(&mut self, rate: f64) {
        self.standard_answers.expected_false_positives +=
            self.unseen_since_rate as f64 * self.false_positive_rate.max(rate);
        (self.unseen_since_rate, self.false_positive_rate) = (0, rate);
    }

    /// The non-empty bins of stated probabilities.
    pub fn calibration(&self) -> Vec<CalibrationBin> {
        let bin = |(index, (stated, sum, came_true)): (usize, &(u64, f64, u64))| CalibrationBin {
            from: index as f64 / PROBABILITY_BINS as f64,
            below: (index + 1) as f64 / PROBABILITY_BINS as f64,
            stated: *stated,
            mean_stated: sum / *stated as f64,
            came_true: *came_true as f64 / *stated as f64,
        };
        self.probabilities.iter().enumerate().map(bin).filter(|bin| bin.stated > 0).collect()
    }

    /// The bins of ages, and the bin of items that were never accepted before.
    pub fn ages(&self) -> (Vec<AgeBin>, AgeBin) {
        (self.ages.clone(), self.never_accepted)
    }

    /// The costs with the shares that the service saved.
    pub fn penalty(&self) -> PenaltyTotals {
        let saved = |other: f64| (other > 0.0).then(|| 1.0 - self.penalty.service / other);
        PenaltyTotals {
            saved_against_standard: saved(self.penalty.standard_filter),
            saved_against_none: saved(self.penalty.no_filter),
            ..self.penalty.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_sketch::filter::belief::Belief;

    fn truth(exact_age: Option<u64>, service_age: Option<u64>) -> GroundTruth {
        GroundTruth { exact_age, service_age, window: 100 }
    }

    fn answer(verdict: Verdict, probability: Option<f64>) -> Answer {
        Answer {
            verdict,
            is_overruled: false,
            basis: if probability.is_some() { Basis::Posterior } else { Basis::Standard },
            belief: probability.map(|inside| Belief { inside, outside: 1.0 - inside }),
            decision: None,
            age: None,
            frequency: None,
        }
    }

    fn add(tally: &mut DecisionTally, truth: GroundTruth, answer: &Answer, standard: Verdict) {
        let penalties = Penalties::new(3.0, 0.5).ok();
        tally.add(&DecisionSample { truth, answer, standard, penalties, class: Some(3) });
    }

    #[test]
    fn every_kind_of_decision_is_counted() {
        let mut tally = DecisionTally::new(10);
        let (unique, duplicate) = (Verdict::Unique, Verdict::Duplicate);
        add(&mut tally, truth(None, None), &answer(unique, None), unique);
        add(&mut tally, truth(None, None), &answer(duplicate, None), duplicate);
        add(&mut tally, truth(Some(104), Some(104)), &answer(duplicate, None), duplicate);
        add(&mut tally, truth(Some(50), Some(50)), &answer(unique, None), unique);
        add(&mut tally, truth(Some(50), None), &answer(unique, Some(0.25)), duplicate);
        add(&mut tally, truth(Some(50), Some(50)), &answer(Verdict::Late, None), unique);
        let ErrorCounts { firsts, false_duplicates, at_the_edge, repeats, missed_duplicates, forgotten, .. } =
            tally.errors;
        assert_eq!((firsts, false_duplicates, at_the_edge), (3, 2, 1));
        assert_eq!((tally.classes[&3].firsts, tally.classes[&3].missed_duplicates), (3, 2));
        assert_eq!((repeats, missed_duplicates, forgotten, tally.errors.late_repeats), (3, 2, 1, 1));
        assert_eq!((tally.standard_errors.missed_duplicates, tally.standard_answers.false_negatives), (2, 1));
        assert_eq!((tally.standard_answers.unseen, tally.standard_answers.false_positives), (2, 1));
        let penalty = tally.penalty();
        assert_eq!((penalty.service, penalty.standard_filter, penalty.no_filter), (7.0, 6.5, 1.0));
        assert_eq!(penalty.saved_against_none, Some(-6.0));
    }

    #[test]
    fn calibration_uses_the_history_of_the_service() {
        let mut tally = DecisionTally::new(10);
        for (probability, service) in [(0.62, Some(5)), (0.68, None), (1.0, Some(5))] {
            add(
                &mut tally,
                truth(Some(5), service),
                &answer(Verdict::Duplicate, Some(probability)),
                Verdict::Duplicate,
            );
        }
        let bins = tally.calibration();
        assert_eq!(bins.len(), 2);
        assert_eq!((bins[0].stated, bins[0].came_true, bins[1].came_true), (2, 0.5, 1.0));
        assert!((bins[0].mean_stated - 0.65).abs() < 1e-12 && bins[0].from == 0.6);
    }

    #[test]
    fn ages_are_binned_by_fractions_of_the_window() {
        let mut tally = DecisionTally::new(10);
        for age in [Some(0), Some(99), Some(100), Some(199), Some(200), Some(90_000), None] {
            add(&mut tally, truth(age, age), &answer(Verdict::Duplicate, None), Verdict::Duplicate);
        }
        let (ages, never) = tally.ages();
        let used: Vec<usize> = (0..ages.len()).filter(|index| ages[*index].events > 0).collect();
        assert_eq!((used, never.events), (vec![0, 7, 8, 15, 16], 1));
        assert_eq!(ages[16].events, 2);
    }

    #[test]
    fn expected_false_positives_use_the_higher_of_two_readings() {
        let mut tally = DecisionTally::new(10);
        (0..10).for_each(|_| add(&mut tally, truth(None, None), &answer(Verdict::Unique, None), Verdict::Unique));
        tally.add_rate(0.1);
        (0..10).for_each(|_| add(&mut tally, truth(None, None), &answer(Verdict::Unique, None), Verdict::Unique));
        tally.add_rate(0.05);
        assert!((tally.standard_answers.expected_false_positives - 2.0).abs() < 1e-12);
    }
}
