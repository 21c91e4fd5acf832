//! The posterior against a simulated stream whose truth is known.

use super::*;
use crate::filter::inference::decision::Penalties;
use crate::filter::structure::layout::CellLayout;
use crate::filter::structure::stable::importance::ImportanceRule;
use crate::hash::Fingerprint;
use crate::random::{Random, mix};

const WINDOW: u64 = 1_000;

fn item(x: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(x)) << 64 | u128::from(mix(!x)))
}

fn value_of(x: u64) -> u8 {
    [2, 4, 7][(mix(x ^ 0xC1A5) % 3) as usize]
}

/// One arrival: the item, and whether it was seen within the window.
struct Arrival {
    item: u64,
    age: Option<u64>,
}

/// A share `repeats` of the arrivals repeats an item of an age of up to two windows.
fn stream(arrivals: u64, repeats: f64, seed: u64) -> Vec<Arrival> {
    let mut random = Random::new(seed);
    let mut log: Vec<Arrival> = Vec::new();
    let mut last_seen = std::collections::BTreeMap::new();
    for at in 0..arrivals {
        let repeated = at > 0 && random.unit() < repeats;
        let item = match repeated {
            true => log[(at - 1 - random.below(at.min(2 * WINDOW))) as usize].item,
            false => seed << 40 | at,
        };
        let age = last_seen.insert(item, at).map(|before| at - before - 1);
        log.push(Arrival { item, age });
    }
    log
}

struct Figures {
    /// Sum of stated probabilities, repeats and answers, by tenths of the probability.
    bins: [(f64, f64, f64); 10],
    service: f64,
    standard: f64,
    accept_all: f64,
}

fn run(spec: StableSpec, prior: SharePriorSpec, penalties: (f64, f64)) -> Figures {
    let (mut filter, penalties) = (StableFilter::new(spec), Penalties::new(penalties.0, penalties.1).unwrap());
    let parameters = StablePosteriorSpec { window: WINDOW, prior, mix: None };
    let mut posterior = StablePosterior::new(parameters, &spec).unwrap();
    let mut classes = ClassCounts::new(spec.max_value());
    let mut figures = Figures { bins: [(0.0, 0.0, 0.0); 10], service: 0.0, standard: 0.0, accept_all: 0.0 };
    for (offset, arrival) in (0..).zip(stream(30 * WINDOW, 0.3, 5)) {
        let (evidence, value) = (CellEvidence::new(&filter, item(arrival.item)), value_of(arrival.item));
        let inside = arrival.age.is_some_and(|age| age < WINDOW);
        if offset >= 2 * WINDOW {
            let belief = posterior.belief(&evidence, Some(value), None);
            assert!((belief.inside + belief.outside - 1.0).abs() < 1e-9);
            let bin = &mut figures.bins[((belief.inside * 10.0) as usize).min(9)];
            *bin = (bin.0 + belief.inside, bin.1 + f64::from(u8::from(inside)), bin.2 + 1.0);
            let cost = |duplicate: bool| match (duplicate, inside) {
                (true, false) => penalties.false_duplicate(),
                (false, true) => penalties.missed_duplicate(),
                _ => 0.0,
            };
            figures.service += cost(penalties.decide(&belief).duplicate);
            figures.standard += cost(evidence.reading().is_duplicate());
            figures.accept_all += cost(false);
        }
        posterior.learn(item(arrival.item));
        classes.add(value);
        filter.observe(item(arrival.item), value, &mut Random::for_record(3, 0, offset));
        posterior.renew(&filter, &classes);
    }
    figures
}

fn spec(layout: CellLayout, rule: ImportanceRule) -> StableSpec {
    StableSpec::new(layout, 4, 30, 7, rule).unwrap()
}

#[test]
fn stated_probabilities_come_true_with_a_learned_prior() {
    for rule in
        [ImportanceRule::Stable, ImportanceRule::two_class(7), ImportanceRule::MultiClass, ImportanceRule::Harmonic]
    {
        for layout in [CellLayout::Spread(12_800), CellLayout::Lines(100)] {
            let figures = run(spec(layout, rule), SharePriorSpec::Learned, (1.0, 1.0));
            for (stated, true_repeats, answers) in figures.bins.iter().filter(|bin| bin.2 >= 400.0) {
                let (stated, observed) = (stated / answers, true_repeats / answers);
                println!("{rule:?} {layout:?}: stated {stated:.3}, observed {observed:.3}, {answers} answers");
                assert!((stated - observed).abs() < 0.1, "{rule:?} {layout:?}: {stated} {observed} of {answers}");
            }
        }
    }
}

#[test]
fn decisions_cost_no_more_than_the_cheaper_alternative() {
    for rule in [ImportanceRule::Stable, ImportanceRule::MultiClass] {
        for penalties in [(1.0, 1.0), (5.0, 1.0), (1.0, 5.0), (1.0, 0.05)] {
            let figures = run(spec(CellLayout::Lines(100), rule), SharePriorSpec::Learned, penalties);
            let Figures { service, standard, accept_all, .. } = figures;
            println!(
                "{rule:?} {penalties:?}: posterior {service:.0}, standard {standard:.0}, accept all {accept_all:.0}"
            );
            assert!(
                service <= 1.05 * standard.min(accept_all),
                "{rule:?} {penalties:?}: {service} {standard} {accept_all}"
            );
        }
    }
}

#[test]
fn an_item_seen_within_the_window_is_believed_more_than_an_unseen_one_with_a_constant_prior() {
    let spec = spec(CellLayout::Lines(100), ImportanceRule::Stable);
    let mut filter = StableFilter::new(spec);
    (0..5_000).for_each(|x| _ = filter.observe(item(x), 7, &mut Random::for_record(1, 0, x)));
    let prior = SharePriorSpec::Constant(ArrivalShare::new(1e-4).unwrap());
    let mut posterior =
        StablePosterior::new(StablePosteriorSpec { window: WINDOW, prior, mix: Some(ClassMix::EVEN) }, &spec).unwrap();
    posterior.arrivals = 5_000;
    posterior.renew(&filter, &ClassCounts::new(7));
    assert!(posterior.is_ready() && posterior.repeats().is_none());
    let mean = |items: std::ops::Range<u64>| {
        let count = (items.end - items.start) as f64;
        items.map(|x| posterior.belief(&CellEvidence::new(&filter, item(x)), Some(7), None).inside).sum::<f64>() / count
    };
    let (recent, never) = (mean(4_800..5_000), mean(1_000_000..1_000_200));
    assert!(recent > 0.5 && never < 0.1, "{recent} {never}");
    // A larger share makes a repeat more probable.
    let evidence = CellEvidence::new(&filter, item(4_500));
    let at = |share| posterior.belief(&evidence, None, Some(ArrivalShare::new(share).unwrap())).inside;
    assert!(at(1e-6) < at(1e-4) && at(1e-4) < at(1e-2));
}

#[test]
fn a_decoded_posterior_continues_alike() {
    let spec = spec(CellLayout::Lines(20), ImportanceRule::MultiClass);
    let parameters = StablePosteriorSpec { window: 100, prior: SharePriorSpec::Learned, mix: None };
    let (mut filter, mut whole) = (StableFilter::new(spec), StablePosterior::new(parameters, &spec).unwrap());
    let (mut restored, mut classes) = (whole.clone(), ClassCounts::new(7));
    for (offset, arrival) in (0..).zip(stream(900, 0.4, 2)) {
        if offset % 150 == 77 {
            restored = StablePosterior::decode(parameters, &spec, &restored.encode()).unwrap();
        }
        let (evidence, value) = (CellEvidence::new(&filter, item(arrival.item)), value_of(arrival.item));
        assert_eq!(whole.belief(&evidence, None, None), restored.belief(&evidence, None, None));
        filter.observe(item(arrival.item), value, &mut Random::for_record(1, 0, offset));
        classes.add(value);
        for posterior in [&mut whole, &mut restored] {
            posterior.learn(item(arrival.item));
            posterior.renew(&filter, &classes);
        }
    }
    assert_eq!(whole.encode(), restored.encode());
    let other = StablePosteriorSpec { window: 90, ..parameters };
    assert!(!StablePosterior::decode(other, &spec, &whole.encode()).unwrap().is_ready(), "another window starts anew");
    let wider = StableSpec::new(CellLayout::Lines(20), 4, 30, 3, ImportanceRule::MultiClass).unwrap();
    assert!(StablePosterior::decode(parameters, &wider, &whole.encode()).is_err());
}

#[test]
fn invalid_parameters_are_rejected() {
    let new = |window, max_value| {
        let spec = StableSpec::new(CellLayout::Lines(4), 4, 5, max_value, ImportanceRule::Stable).unwrap();
        StablePosterior::new(StablePosteriorSpec { window, prior: SharePriorSpec::Learned, mix: None }, &spec)
    };
    assert!(new(0, 7).is_err() && new(10, 63).is_err() && new(10, 31).is_ok());
}
