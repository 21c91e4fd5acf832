//! Runs of all families, divided between the cores.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use ebb_core::{AggregateQuestion, KeyScope, QueryTime, Shard};
use ebb_eval::binomial;
use ebb_sketch::aggregate::answer::Guarantee;
use ebb_sketch::decay::Decay;
use ebb_sketch::random::{Random, mix};

use crate::probes::{Outcome, judge, probes};
use crate::setup::{SETUPS, Setup, plan};
use crate::stream::{Distribution, events};
use crate::truth::Truth;

/// One in this many runs is made with a deterministic method: its bounds either hold or do not.
const DETERMINISTIC_SHARE: u64 = 40;
/// Events of a run, so that samples of every fill and several levels answer.
const EVENTS: std::ops::Range<u64> = 300..4_000;
/// The share that top items need. Above the error of every sketch, with a few exceptions of `integral`.
const TOP_PHI: f64 = 0.3;

/// What distinguishes a family.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Family {
    pub method: &'static str,
    /// The configured decay, if the method has one.
    pub configured: &'static str,
    pub distribution: &'static str,
    pub decay: &'static str,
    pub statistic: String,
}

/// The answers of one family.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub probabilistic: u64,
    pub probabilistic_failures: u64,
    pub certain: u64,
    pub certain_failures: u64,
    /// The largest stated probability of failure.
    pub delta: f64,
    /// Questions that the method refuses, and answers that state nothing.
    pub unanswered: u64,
}

impl Tally {
    fn add(&mut self, outcome: Option<Outcome>) {
        match outcome.map(|outcome| (outcome.guarantee, u64::from(!outcome.holds))) {
            None => self.unanswered += 1,
            Some((Guarantee::Probabilistic { delta, .. }, failed)) => {
                self.probabilistic += 1;
                self.probabilistic_failures += failed;
                self.delta = self.delta.max(delta);
            }
            Some((Guarantee::Exact | Guarantee::Deterministic { .. }, failed)) => {
                self.certain += 1;
                self.certain_failures += failed;
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.probabilistic += other.probabilistic;
        self.probabilistic_failures += other.probabilistic_failures;
        self.certain += other.certain;
        self.certain_failures += other.certain_failures;
        self.delta = self.delta.max(other.delta);
        self.unanswered += other.unanswered;
    }

    /// The probability of at least as many failures if the stated delta is true; 0 if a certain bound has failed.
    pub fn p_value(&self) -> f64 {
        match self.certain_failures {
            0 => binomial::upper_tail(self.probabilistic, self.probabilistic_failures, self.delta),
            _ => 0.0,
        }
    }
}

/// All families of the selected methods.
pub fn check_all(runs: u64, is_selected: impl Fn(&str) -> bool) -> BTreeMap<Family, Tally> {
    let jobs: Vec<(&Setup, Distribution)> = SETUPS
        .iter()
        .filter(|setup| is_selected(setup.method.name()))
        .flat_map(|setup| Distribution::ALL.map(|distribution| (setup, distribution)))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = BTreeMap::new();
        while let Some((setup, distribution)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let runs = if setup.is_sampled() { runs } else { (runs / DETERMINISTIC_SHARE).max(2) };
            (0..runs).for_each(|number| run(setup, *distribution, number, &mut found));
        }
        found
    };
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let parts: Vec<BTreeMap<Family, Tally>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker ends")).collect()
    });
    let mut all: BTreeMap<Family, Tally> = BTreeMap::new();
    for (family, tally) in parts.into_iter().flatten() {
        all.entry(family).or_default().merge(tally);
    }
    all
}

/// One stream, with every question under every decay.
fn run(setup: &Setup, distribution: Distribution, number: u64, found: &mut BTreeMap<Family, Tally>) {
    let mut random = Random::new(mix(number) ^ mix(distribution as u64 + 77));
    let parameters = setup.parameters(distribution, random.next_u64());
    let count = EVENTS.start + random.below(EVENTS.end - EVENTS.start);
    let events = events(distribution, count, &mut random);
    let mut shard = Shard::new(plan(parameters.clone()), 0).expect("a shard");
    for (offset, event) in events.iter().enumerate() {
        shard.fold(offset as u64, event.time_ms.unwrap_or_default(), Ok(event));
    }
    for text in setup.questions {
        let decay: Decay = text.parse().expect("a decay");
        let truth = Truth::new(&parameters, &events, &decay);
        for probe in probes(&truth, TOP_PHI) {
            let question = AggregateQuestion {
                aggregate: parameters.name.clone(),
                scope: KeyScope::Whole,
                decay: Some(decay.clone()),
                last: None,
                time: QueryTime::Newest,
                statistic: probe.statistic.clone(),
            };
            let outcome = shard.aggregate(&question).ok().and_then(|answer| judge(&probe, &answer.result, &truth));
            let family = Family {
                method: setup.method.name(),
                configured: setup.decay.unwrap_or(""),
                distribution: distribution.name(),
                decay: text,
                statistic: probe.name,
            };
            found.entry(family).or_default().add(outcome);
        }
    }
}
