//! Decisions against the exact memory, counted.

use std::collections::BTreeMap;

use serde::Serialize;

use super::oracle::Truth;
use ebb_core::{Answer, Basis, Penalties, Verdict};

/// Bins of stated chances, as wide as each other.
const CHANCES: usize = 10;
/// Bins of ages in a window, and windows that are looked at.
const AGES: u64 = 8;
const WINDOWS: u64 = 2;

/// Right and wrong answers, against an exact memory with the same window. An event that is called late is neither.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Mistakes {
    /// Events that are first within the window, and those of them called duplicates.
    pub firsts: u64,
    pub false_duplicates: u64,
    /// Of those: last accepted less than one block of the filter before the window began.
    pub at_the_edge: u64,
    /// Events that repeat one of the window, and those of them called unique.
    pub repeats: u64,
    pub missed_duplicates: u64,
    /// Of those: accepted by the service itself within the window, so that its own memory ought to hold them.
    pub forgotten: u64,
    /// Called late: neither right nor wrong.
    pub late_firsts: u64,
    pub late_repeats: u64,
}

/// What wrong answers cost: by the service, by the same filter without penalties, by no filter at all.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Penalty {
    /// Whether the configuration says what mistakes cost; without that each costs 1.
    pub configured: bool,
    pub service: f64,
    pub standard_filter: f64,
    pub no_filter: f64,
    /// Shares of what the others cost.
    pub saved_against_standard: Option<f64>,
    pub saved_against_none: Option<f64>,
}

/// Chances that were stated, and how often they came true.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct ChanceBin {
    pub from: f64,
    pub below: f64,
    pub stated: u64,
    pub mean_stated: f64,
    pub came_true: f64,
}

/// Events by how long ago the service last accepted their item, in windows.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct AgeBin {
    pub from: f64,
    /// Absent: that old or older.
    pub below: Option<f64>,
    pub events: u64,
    pub called_duplicate: u64,
}

/// The promises of a timing filter's own answers, which penalties did not move.
#[derive(Debug, Clone, Default, Serialize)]
pub struct OwnAnswers {
    /// Accepted within the window and yet called unique: must be 0.
    pub denied: u64,
    /// Never accepted, or longer ago than window and block, and those of them called duplicates.
    pub strangers: u64,
    pub taken_for_seen: u64,
    /// How many of those the filter itself expected.
    pub expected: f64,
}

/// See the module.
#[derive(Debug)]
pub struct Tally {
    pub mistakes: Mistakes,
    pub standard: Mistakes,
    pub penalty: Penalty,
    pub own: OwnAnswers,
    pub bases: BTreeMap<&'static str, u64>,
    chances: [(u64, f64, u64); CHANCES],
    ages: Vec<AgeBin>,
    never: AgeBin,
    /// One block of the filter.
    edge: u64,
    /// Strangers since the filter was last asked how often it errs.
    unasked: u64,
    rate: f64,
}

/// One decided event.
#[derive(Debug, Clone, Copy)]
pub struct Decided<'a> {
    pub truth: Truth,
    pub answer: &'a Answer,
    /// What the same filter without penalties answered.
    pub standard: Verdict,
    pub penalties: Option<Penalties>,
}

impl Mistakes {
    fn add(&mut self, truth: &Truth, verdict: Verdict, edge: u64) {
        let repeat = truth.is_repeat();
        let late = verdict == Verdict::Late;
        *if repeat { &mut self.repeats } else { &mut self.firsts } += 1;
        if late {
            *if repeat { &mut self.late_repeats } else { &mut self.late_firsts } += 1;
        }
        if is_false_duplicate(truth, verdict) {
            self.false_duplicates += 1;
            let seen = [truth.exact_age, truth.told_age].into_iter().flatten();
            self.at_the_edge += u64::from(seen.min().is_some_and(|age| age < truth.window.saturating_add(edge)));
        }
        if is_missed_duplicate(truth, verdict) {
            self.missed_duplicates += 1;
            self.forgotten += u64::from(truth.is_held());
        }
    }
}

fn is_false_duplicate(truth: &Truth, verdict: Verdict) -> bool {
    verdict == Verdict::Duplicate && !truth.is_repeat()
}

fn is_missed_duplicate(truth: &Truth, verdict: Verdict) -> bool {
    verdict == Verdict::Unique && truth.is_repeat()
}

impl Tally {
    /// `edge`: one block of the filter, in the unit of the window.
    pub fn new(edge: u64) -> Self {
        let part = |index: u64| index as f64 / AGES as f64;
        let age = |index| AgeBin { from: part(index), below: Some(part(index + 1)), ..AgeBin::default() };
        let mut ages: Vec<AgeBin> = (0..AGES * WINDOWS).map(age).collect();
        ages.push(AgeBin { from: WINDOWS as f64, ..AgeBin::default() });
        Self {
            mistakes: Mistakes::default(),
            standard: Mistakes::default(),
            penalty: Penalty::default(),
            own: OwnAnswers::default(),
            bases: BTreeMap::new(),
            chances: [(0, 0.0, 0); CHANCES],
            ages,
            never: AgeBin::default(),
            edge,
            unasked: 0,
            rate: 0.0,
        }
    }

    pub fn add(&mut self, decided: &Decided<'_>) {
        let Decided { truth, answer, standard, .. } = decided;
        *self.bases.entry(answer.basis.name()).or_default() += 1;
        self.mistakes.add(truth, answer.verdict, self.edge);
        self.standard.add(truth, *standard, self.edge);
        self.add_penalty(decided);
        self.add_age(truth, answer.verdict);
        if let Some(belief) = answer.belief {
            let bin = ((belief.inside * CHANCES as f64) as usize).min(CHANCES - 1);
            let (stated, sum, came_true) = &mut self.chances[bin];
            *stated += 1;
            *sum += belief.inside;
            *came_true += u64::from(truth.is_held());
        }
        if answer.basis != Basis::Posterior {
            self.add_own(truth, answer.verdict);
        }
    }

    fn add_penalty(&mut self, decided: &Decided<'_>) {
        let Decided { truth, answer, standard, penalties } = decided;
        if answer.verdict == Verdict::Late {
            return;
        }
        self.penalty.configured |= penalties.is_some();
        let (wrong, missed) = penalties.map_or((1.0, 1.0), |given| (given.false_duplicate(), given.missed_duplicate()));
        let cost = |verdict: Verdict| match (is_false_duplicate(truth, verdict), is_missed_duplicate(truth, verdict)) {
            (true, _) => wrong,
            (_, true) => missed,
            _ => 0.0,
        };
        self.penalty.service += cost(answer.verdict);
        self.penalty.standard_filter += cost(*standard);
        self.penalty.no_filter += cost(Verdict::Unique);
    }

    fn add_age(&mut self, truth: &Truth, verdict: Verdict) {
        let bin = match truth.told_age {
            None => &mut self.never,
            Some(age) => {
                let place = (age as f64 / truth.window as f64 * AGES as f64) as usize;
                let last = self.ages.len() - 1;
                &mut self.ages[place.min(last)]
            }
        };
        bin.events += 1;
        bin.called_duplicate += u64::from(verdict == Verdict::Duplicate);
    }

    fn add_own(&mut self, truth: &Truth, verdict: Verdict) {
        self.own.denied += u64::from(truth.is_held() && verdict == Verdict::Unique);
        if truth.told_age.is_none_or(|age| age >= truth.window.saturating_add(self.edge)) {
            self.own.strangers += 1;
            self.unasked += 1;
            self.own.taken_for_seen += u64::from(verdict == Verdict::Duplicate);
        }
    }

    /// How often the filter says that it takes a stranger for one it has seen, now. It moves slowly: of two readings the
    /// higher one counts for what came between.
    pub fn take_rate(&mut self, rate: f64) {
        self.own.expected += self.unasked as f64 * self.rate.max(rate);
        (self.unasked, self.rate) = (0, rate);
    }

    /// The bins of stated chances that were used.
    pub fn calibration(&self) -> Vec<ChanceBin> {
        let bin = |(place, (stated, sum, came_true)): (usize, &(u64, f64, u64))| ChanceBin {
            from: place as f64 / CHANCES as f64,
            below: (place + 1) as f64 / CHANCES as f64,
            stated: *stated,
            mean_stated: sum / *stated as f64,
            came_true: *came_true as f64 / *stated as f64,
        };
        self.chances.iter().enumerate().map(bin).filter(|bin| bin.stated > 0).collect()
    }

    /// The bins of ages, and the events whose item was never accepted before.
    pub fn ages(&self) -> (Vec<AgeBin>, AgeBin) {
        (self.ages.clone(), self.never)
    }

    /// What is cheaper by how much.
    pub fn penalty(&self) -> Penalty {
        let saved = |other: f64| (other > 0.0).then(|| 1.0 - self.penalty.service / other);
        Penalty {
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

    fn truth(exact_age: Option<u64>, told_age: Option<u64>) -> Truth {
        Truth { exact_age, told_age, window: 100 }
    }

    fn answer(verdict: Verdict, chance: Option<f64>) -> Answer {
        Answer {
            verdict,
            basis: if chance.is_some() { Basis::Posterior } else { Basis::Standard },
            belief: chance.map(|inside| Belief { inside, outside: 1.0 - inside }),
            decision: None,
            age: None,
            frequency: None,
        }
    }

    fn add(tally: &mut Tally, truth: Truth, answer: &Answer, standard: Verdict) {
        let penalties = Penalties::new(3.0, 0.5).ok();
        tally.add(&Decided { truth, answer, standard, penalties });
    }

    #[test]
    fn every_kind_of_answer_is_counted_where_it_belongs() {
        let mut tally = Tally::new(10);
        let (unique, duplicate) = (Verdict::Unique, Verdict::Duplicate);
        add(&mut tally, truth(None, None), &answer(unique, None), unique);
        add(&mut tally, truth(None, None), &answer(duplicate, None), duplicate);
        add(&mut tally, truth(Some(104), Some(104)), &answer(duplicate, None), duplicate);
        add(&mut tally, truth(Some(50), Some(50)), &answer(unique, None), unique);
        add(&mut tally, truth(Some(50), None), &answer(unique, Some(0.25)), duplicate);
        add(&mut tally, truth(Some(50), Some(50)), &answer(Verdict::Late, None), unique);
        let Mistakes { firsts, false_duplicates, at_the_edge, repeats, missed_duplicates, forgotten, .. } =
            tally.mistakes;
        assert_eq!((firsts, false_duplicates, at_the_edge), (3, 2, 1));
        assert_eq!((repeats, missed_duplicates, forgotten, tally.mistakes.late_repeats), (3, 2, 1, 1));
        assert_eq!((tally.standard.missed_duplicates, tally.own.denied), (2, 1));
        assert_eq!((tally.own.strangers, tally.own.taken_for_seen), (2, 1));
        let penalty = tally.penalty();
        assert_eq!((penalty.service, penalty.standard_filter, penalty.no_filter), (7.0, 6.5, 1.0));
        assert_eq!(penalty.saved_against_none, Some(-6.0));
    }

    #[test]
    fn chances_are_held_against_the_services_own_past() {
        let mut tally = Tally::new(10);
        for (chance, told) in [(0.62, Some(5)), (0.68, None), (1.0, Some(5))] {
            add(&mut tally, truth(Some(5), told), &answer(Verdict::Duplicate, Some(chance)), Verdict::Duplicate);
        }
        let bins = tally.calibration();
        assert_eq!(bins.len(), 2);
        assert_eq!((bins[0].stated, bins[0].came_true, bins[1].came_true), (2, 0.5, 1.0));
        assert!((bins[0].mean_stated - 0.65).abs() < 1e-12 && bins[0].from == 0.6);
    }

    #[test]
    fn ages_are_sorted_in_parts_of_the_window() {
        let mut tally = Tally::new(10);
        for told in [Some(0), Some(99), Some(100), Some(199), Some(200), Some(90_000), None] {
            add(&mut tally, truth(told, told), &answer(Verdict::Duplicate, None), Verdict::Duplicate);
        }
        let (ages, never) = tally.ages();
        let used: Vec<usize> = (0..ages.len()).filter(|place| ages[*place].events > 0).collect();
        assert_eq!((used, never.events), (vec![0, 7, 8, 15, 16], 1));
        assert_eq!(ages[16].events, 2);
    }

    #[test]
    fn what_the_filter_expects_is_the_higher_of_two_readings() {
        let mut tally = Tally::new(10);
        (0..10).for_each(|_| add(&mut tally, truth(None, None), &answer(Verdict::Unique, None), Verdict::Unique));
        tally.take_rate(0.1);
        (0..10).for_each(|_| add(&mut tally, truth(None, None), &answer(Verdict::Unique, None), Verdict::Unique));
        tally.take_rate(0.05);
        assert!((tally.own.expected - 2.0).abs() < 1e-12);
    }
}
