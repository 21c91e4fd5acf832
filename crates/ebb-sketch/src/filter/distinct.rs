//! D(j): how many distinct items are expected among j arrivals, and the likelihoods the paper builds on it.
//!
//! The filter does not need these: its own histogram says more (see `timing`). They are here so that the paper's
//! equations, as printed and as corrected, can be compared on the same streams.

use libm::{exp, expm1, log, log1p};
use thiserror::Error;

const EULER: f64 = 0.577_215_664_901_532_9;
/// Ranks of a Zipf law that are summed one by one; the rest is integrated.
const HEAD: u64 = 64;

/// A model of how items repeat.
#[derive(Debug, Clone, PartialEq)]
pub struct Distinct(Model);

#[derive(Debug, Clone, PartialEq)]
enum Model {
    Uniform { items: f64 },
    Zipf { items: u64, harmonic: f64 },
    ZipfPrinted { items: f64, harmonic: f64 },
    Points(Vec<(f64, f64)>),
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DistinctError {
    #[error("a model needs at least 1 item, not 0")]
    NoItems,
    #[error("points must be (arrivals >= 1, distinct > 0), finite, with rising arrivals, at least one of them above 1")]
    Points,
}

impl Distinct {
    /// Every item is equally likely.
    pub fn uniform(items: u64) -> Result<Self, DistinctError> {
        if items == 0 { Err(DistinctError::NoItems) } else { Ok(Self(Model::Uniform { items: items as f64 })) }
    }

    /// The item of rank x has a share proportional to 1/x; holds for every j.
    pub fn zipf(items: u64) -> Result<Self, DistinctError> {
        if items == 0 {
            Err(DistinctError::NoItems)
        } else {
            Ok(Self(Model::Zipf { items, harmonic: harmonic(items) }))
        }
    }

    /// The paper's approximation of [`Distinct::zipf`], which only holds far from both ends.
    pub fn zipf_printed(items: u64) -> Result<Self, DistinctError> {
        let model = |items| Model::ZipfPrinted { items: items as f64, harmonic: harmonic(items) };
        if items == 0 { Err(DistinctError::NoItems) } else { Ok(Self(model(items))) }
    }

    /// Straight lines in log-log between measured (arrivals, distinct) points; the last line is drawn on.
    pub fn points(mut points: Vec<(f64, f64)>) -> Result<Self, DistinctError> {
        let rising = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let sound = points.iter().all(|&(j, d)| j >= 1.0 && d > 0.0 && j.is_finite() && d.is_finite());
        if !rising || !sound || points.last().is_none_or(|&(j, _)| j <= 1.0) {
            return Err(DistinctError::Points);
        }
        if points[0].0 > 1.0 {
            points.insert(0, (1.0, 1.0));
        }
        Ok(Self(Model::Points(points)))
    }

    /// D(arrivals).
    pub fn among(&self, arrivals: f64) -> f64 {
        if arrivals <= 0.0 {
            return 0.0;
        }
        match &self.0 {
            Model::Uniform { items } if *items == 1.0 => 1.0,
            Model::Uniform { items } => -items * expm1(arrivals * log1p(-1.0 / items)),
            Model::Zipf { items, harmonic } => zipf(*items, *harmonic, arrivals),
            Model::ZipfPrinted { items, harmonic } => {
                arrivals / harmonic * (1.0 - EULER + log(items * harmonic / arrivals))
            }
            Model::Points(points) => log_log(points, arrivals),
        }
    }

    /// D(from + length) - D(from): items whose last arrival lies there. Free of cancellation where the model allows.
    pub fn between(&self, from: f64, length: f64) -> f64 {
        match &self.0 {
            Model::Uniform { items } if *items > 1.0 => {
                let t = log1p(-1.0 / items);
                -items * exp(from * t) * expm1(length * t)
            }
            Model::Zipf { items, harmonic } => {
                let head: f64 = (1..=HEAD.min(*items)).map(|rank| last_seen(rank, *harmonic, from, length)).sum();
                head + zipf_tail(*items, *harmonic, from + length) - zipf_tail(*items, *harmonic, from)
            }
            _ => self.among(from + length) - self.among(from),
        }
    }
}

/// Which of the paper's likelihoods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As printed: all items of the block count, also those that came again later.
    Printed,
    /// Only items whose last arrival lies in the block can have left the timer at that age.
    Corrected,
}

/// Chance that `distinct` items with k cells each, among m cells, wrote all of `cells` given cells.
pub fn written_by_others(cells: u8, k: u8, m: u64, distinct: f64) -> f64 {
    let untouched = f64::from(k) * distinct * log1p(-1.0 / m as f64);
    if cells == 0 {
        return 1.0;
    }
    let log_touched = if untouched > -std::f64::consts::LN_2 { log(-expm1(untouched)) } else { log1p(-exp(untouched)) };
    exp(f64::from(cells) * log_touched)
}

fn harmonic(n: u64) -> f64 {
    if n < 64 {
        return (1..=n).map(|rank| 1.0 / rank as f64).sum();
    }
    let n = n as f64;
    log(n) + EULER + 1.0 / (2.0 * n) - 1.0 / (12.0 * n * n) + 1.0 / (120.0 * n * n * n * n)
}

/// The first ranks exactly, the rest as an integral.
fn zipf(items: u64, harmonic: f64, arrivals: f64) -> f64 {
    let head: f64 = (1..=HEAD.min(items)).map(|rank| last_seen(rank, harmonic, 0.0, arrivals)).sum();
    head + zipf_tail(items, harmonic, arrivals)
}

/// Chance that the item of this rank arrives among `length` arrivals and not among the `from` that follow them.
fn last_seen(rank: u64, harmonic: f64, from: f64, length: f64) -> f64 {
    let share = 1.0 / (harmonic * rank as f64);
    if share >= 1.0 {
        return if from > 0.0 { 0.0 } else { 1.0 };
    }
    let t = log1p(-share);
    -exp(from * t) * expm1(length * t)
}

/// Ranks beyond the head: an integral with the Euler-Maclaurin terms of its ends.
fn zipf_tail(items: u64, harmonic: f64, arrivals: f64) -> f64 {
    if items <= HEAD || arrivals <= 0.0 {
        return 0.0;
    }
    let c = arrivals / harmonic;
    let value = |x: f64| -expm1(-c / x);
    let integral = |x: f64| x * value(x) + c * exponential_integral(c / x);
    let slope = |x: f64| -c / (x * x) * exp(-c / x);
    let (low, high) = (HEAD as f64, items as f64);
    // (1-p)^j against exp(-jp): the second order, summed over the tail.
    let second = (exp(-c / high) - exp(-c / low)) / (2.0 * harmonic);
    let ends = 0.5 * (value(high) - value(low)) + (slope(high) - slope(low)) / 12.0;
    integral(high) - integral(low) + ends + second
}

/// E1(x) for x > 0: its series up to 1, a continued fraction beyond.
fn exponential_integral(x: f64) -> f64 {
    if x <= 1.0 {
        let (mut sum, mut term) = (-EULER - log(x), 1.0);
        for n in 1..64 {
            term *= -x / f64::from(n);
            let step = -term / f64::from(n);
            sum += step;
            if step.abs() < 1e-17 * sum.abs() {
                break;
            }
        }
        return sum;
    }
    let (mut b, mut c, mut d) = (x + 1.0, 1e300, 1.0 / (x + 1.0));
    let mut fraction = d;
    for i in 1..500 {
        let a = -f64::from(i * i);
        b += 2.0;
        d = 1.0 / (a * d + b);
        c = b + a / c;
        fraction *= c * d;
        if (c * d - 1.0).abs() < 1e-16 {
            break;
        }
    }
    fraction * exp(-x)
}

fn log_log(points: &[(f64, f64)], arrivals: f64) -> f64 {
    if arrivals < 1.0 {
        return arrivals;
    }
    let after = points.partition_point(|&(j, _)| j <= arrivals).clamp(1, points.len() - 1);
    let ((j1, d1), (j2, d2)) = (points[after - 1], points[after]);
    let power = log(d2 / d1) * log(arrivals / j1) / log(j2 / j1);
    (d1 * exp(power)).min(arrivals)
}
