//! What was measured, beside the targets.

use ebb_eval::binomial;
use ebb_sketch::filter::inference::Basis;
use ebb_sketch::filter::inference::policy::PolicyCosts;

use super::measure::{Bin, Measurement};
use super::reference::Reference;
use super::streams::Stream;

/// Windows until the posterior is used.
const MAX_LEARNING_WINDOWS: f64 = 2.0;
/// The service against the cheaper of the two others, in every window after the second.
const MAX_RATIO: f64 = 1.05;
/// The service's ratio to the standard answer above that of the reference.
const MAX_ABOVE_REFERENCE: f64 = 0.02;
/// Repeats that an attack may let through in addition, as a part of all.
const MAX_ADDITIONALLY_MISSED: f64 = 0.05;

pub struct Report<'a> {
    stream: &'a Stream,
    measurement: &'a Measurement,
    reference: Option<Reference>,
    checks: Vec<(String, bool)>,
}

impl<'a> Report<'a> {
    pub fn new(stream: &'a Stream, measurement: &'a Measurement, reference: Option<Reference>) -> Self {
        let mut report = Self { stream, measurement, reference, checks: Vec::new() };
        report.evaluate();
        report
    }

    pub fn is_met(&self) -> bool {
        self.checks.iter().all(|(_, met)| *met)
    }

    fn evaluate(&mut self) {
        let learning = self.measurement.learning_windows;
        self.check(format!("windows until the posterior is used: {learning:.3}"), learning <= MAX_LEARNING_WINDOWS);
        let (worst, window) = self.worst_window();
        let text =
            format!("worst window, against the cheaper of standard and accept-all: {worst:.3} (window {window})");
        self.check(text, worst <= MAX_RATIO);
        let total = self.total();
        if let Some(reference) = self.reference {
            // The standard filters differ: ours is planned for distinct events, that of the reference in hindsight.
            let keys = self.measurement.by_key.len() as f64;
            let reference_ratio = reference.posterior / reference.standard;
            let (own, theirs) = (total.posterior / total.standard, total.posterior / keys / reference.standard);
            let text = format!(
                "penalty / standard filter: {own:.3} (ours) or {theirs:.3} (of the reference), reference {reference_ratio:.3}"
            );
            self.check(text, own.min(theirs) <= reference_ratio + MAX_ABOVE_REFERENCE);
        }
        if self.stream.events.iter().any(|event| event.is_noise) {
            let [clean, attacked] = self.measurement.missed.map(|(missed, all)| missed as f64 / all as f64);
            let text = format!("repeats let through: {clean:.4} before the attack, {attacked:.4} during it");
            self.check(text, attacked <= clean + MAX_ADDITIONALLY_MISSED);
        }
    }

    fn check(&mut self, text: String, met: bool) {
        self.checks.push((text, met));
    }

    fn total(&self) -> PolicyCosts {
        self.measurement.windows.iter().skip(2).fold(PolicyCosts::default(), |sum, window| PolicyCosts {
            posterior: sum.posterior + window.posterior,
            standard: sum.standard + window.standard,
            accept_all: sum.accept_all + window.accept_all,
        })
    }

    /// The largest ratio of a whole window after the second. The last window is not whole. A change of the stream takes one
    /// window to show fully, and the service one more to follow.
    fn worst_window(&self) -> (f64, usize) {
        let windows = &self.measurement.windows;
        let whole = windows.len().saturating_sub(1).max(3);
        let ratio = |window: &PolicyCosts| window.posterior / window.standard.min(window.accept_all);
        let is_changing =
            |index: &usize| self.stream.changes.iter().any(|change| (*change..=change + 1).contains(index));
        let windows = windows.iter().enumerate().take(whole).skip(2).filter(|(index, _)| !is_changing(index));
        let ratios = windows.map(|(index, window)| (ratio(window), index));
        ratios.fold((0.0, 0), |worst, next| if next.0 > worst.0 { next } else { worst })
    }

    pub fn print(&self) {
        let Measurement { layout, by_key, bins, bases, .. } = self.measurement;
        println!("{}: {} events, {} hash keys", self.stream.name, self.stream.events.len(), by_key.len());
        println!(
            "  layout: {} bits, {} cells, block {}",
            layout.timer_bits(),
            layout.cells_per_item(),
            layout.clock().block()
        );
        let total = self.total();
        let ratios = by_key.iter().map(|key| key.posterior / key.standard);
        let (low, high) = ratios.fold((f64::INFINITY, 0.0f64), |(low, high), ratio| (low.min(ratio), high.max(ratio)));
        println!(
            "  penalty after the second window: service {:.0}, standard {:.0}, accept-all {:.0}; service / standard {:.3}, by key {low:.3} to {high:.3}",
            total.posterior,
            total.standard,
            total.accept_all,
            total.posterior / total.standard,
        );
        let windows = self
            .measurement
            .windows
            .iter()
            .map(|window| format!("{:.2}", window.posterior / window.standard.min(window.accept_all)));
        println!("  service / cheaper of the others, by window: {}", windows.collect::<Vec<_>>().join(" "));
        let bases = Basis::ALL.iter().zip(bases).filter(|(_, count)| **count > 0);
        let bases: Vec<String> = bases.map(|(basis, count)| format!("{} {count}", basis.name())).collect();
        println!("  decisions after the second window: {}", bases.join(", "));
        for bin in bins.iter().filter(|bin| bin.predictions > 0) {
            print_bin(bin);
        }
        for (text, met) in &self.checks {
            println!("  {} {text}", if *met { "met   " } else { "MISSED" });
        }
        println!();
    }
}

fn print_bin(bin: &Bin) {
    let predictions = bin.predictions as f64;
    let (stated, observed) = (bin.predicted / predictions, bin.came_true as f64 / predictions);
    let (low, high) = binomial::interval(bin.predictions, bin.came_true, 0.01);
    println!(
        "    stated {stated:.3}  observed {observed:.3}  99% interval {low:.3} to {high:.3}  error {:+.3}  of {}",
        stated - observed,
        bin.predictions,
    );
}
