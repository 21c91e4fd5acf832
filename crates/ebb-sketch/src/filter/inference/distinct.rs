//! D(j), the expected number of distinct items among j arrivals, and the papers' likelihoods built on it.
//!
//! The filter does not need these, because its own histogram is more precise ([`TimingFilter::likelihood`]). They exist so
//! that the papers' equations, printed and corrected, can be compared on the same streams. [`DistinctModel`] also serves
//! sizing, where no histogram exists yet.

use libm::{exp, expm1, log, log1p};
use thiserror::Error;

use crate::filter::structure::timing::{AgeLikelihood, AgeUnit, Reading, TimingFilter};

const EULER: f64 = 0.577_215_664_901_532_9;
/// Ranks of a Zipf distribution that are summed one by one; the rest is integrated.
const HEAD: u64 = 64;

/// A model of how items repeat.
///
/// ```
/// use ebb_sketch::filter::inference::distinct::DistinctModel;
///
/// let model = DistinctModel::uniform(1000).unwrap();
/// assert!((model.among(1000.0) - 632.3).abs() < 0.1); // 1 - 1/e of 1000 items
/// assert!(DistinctModel::zipf(1000).unwrap().among(1000.0) < 400.0);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DistinctModel(DistinctShape);

#[derive(Debug, Clone, PartialEq)]
enum DistinctShape {
    Uniform { items: f64 },
    Zipf { items: u64, harmonic: f64 },
    ZipfPrinted { items: f64, harmonic: f64 },
    Points(Vec<(f64, f64)>),
}

/// Why a model was rejected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DistinctError {
    /// No items.
    #[error("a model needs at least 1 item, not 0")]
    NoItems,
    /// Invalid measurements.
    #[error("points must be (arrivals >= 1, distinct > 0), finite, with rising arrivals, at least one of them above 1")]
    Points,
}

impl DistinctModel {
    /// All items are equally frequent.
    pub fn uniform(items: u64) -> Result<Self, DistinctError> {
        if items == 0 { Err(DistinctError::NoItems) } else { Ok(Self(DistinctShape::Uniform { items: items as f64 })) }
    }

    /// The frequency of rank x is proportional to 1/x; precise for every j.
    pub fn zipf(items: u64) -> Result<Self, DistinctError> {
        if items == 0 {
            Err(DistinctError::NoItems)
        } else {
            Ok(Self(DistinctShape::Zipf { items, harmonic: harmonic(items) }))
        }
    }

    /// The paper's approximation of [`DistinctModel::zipf`], which is only good far from both ends.
    pub fn zipf_printed(items: u64) -> Result<Self, DistinctError> {
        let model = |items| DistinctShape::ZipfPrinted { items: items as f64, harmonic: harmonic(items) };
        if items == 0 { Err(DistinctError::NoItems) } else { Ok(Self(model(items))) }
    }

    /// Log-log interpolation between measured (arrivals, distinct) points; the last segment is extrapolated.
    pub fn points(mut points: Vec<(f64, f64)>) -> Result<Self, DistinctError> {
        let rising = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let valid = points.iter().all(|&(j, d)| j >= 1.0 && d > 0.0 && j.is_finite() && d.is_finite());
        if !rising || !valid || points.last().is_none_or(|&(j, _)| j <= 1.0) {
            return Err(DistinctError::Points);
        }
        if points[0].0 > 1.0 {
            points.insert(0, (1.0, 1.0));
        }
        Ok(Self(DistinctShape::Points(points)))
    }

    /// D(arrivals).
    pub fn among(&self, arrivals: f64) -> f64 {
        if arrivals <= 0.0 {
            return 0.0;
        }
        match &self.0 {
            DistinctShape::Uniform { items } if *items == 1.0 => 1.0,
            DistinctShape::Uniform { items } => -items * expm1(arrivals * log1p(-1.0 / items)),
            DistinctShape::Zipf { items, harmonic } => zipf(*items, *harmonic, arrivals),
            DistinctShape::ZipfPrinted { items, harmonic } => {
                arrivals / harmonic * (1.0 - EULER + log(items * harmonic / arrivals))
            }
            DistinctShape::Points(points) => log_log(points, arrivals),
        }
    }

    /// D(from + length) - D(from): items whose last arrival has an age in that range. Avoids cancellation where the model allows.
    pub fn between(&self, from: f64, length: f64) -> f64 {
        match &self.0 {
            DistinctShape::Uniform { items } if *items > 1.0 => {
                let t = log1p(-1.0 / items);
                -items * exp(from * t) * expm1(length * t)
            }
            DistinctShape::Zipf { items, harmonic } => {
                let head: f64 = (1..=HEAD.min(*items)).map(|rank| last_seen(rank, *harmonic, from, length)).sum();
                head + zipf_tail(*items, *harmonic, from + length) - zipf_tail(*items, *harmonic, from)
            }
            DistinctShape::Uniform { .. } | DistinctShape::ZipfPrinted { .. } | DistinctShape::Points(_) => {
                self.among(from + length) - self.among(from)
            }
        }
    }
}

/// The two forms of the paper's likelihood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LikelihoodForm {
    /// As printed: counts all items of the block, including those that were seen again later.
    Printed,
    /// Corrected: counts only items whose last arrival lies in the block.
    Corrected,
}

/// The probability that `distinct` items with k cells each, among m cells, wrote all of `cells` given cells.
pub fn collision_probability(cells: u8, k: u8, m: u64, distinct: f64) -> f64 {
    let untouched = f64::from(k) * distinct * log1p(-1.0 / m as f64);
    if cells == 0 {
        return 1.0;
    }
    let log_touched = if untouched > -std::f64::consts::LN_2 { log(-expm1(untouched)) } else { log1p(-exp(untouched)) };
    exp(f64::from(cells) * log_touched)
}

/// The likelihood of a reading under a model of the stream.
pub fn model_likelihood(
    filter: &TimingFilter,
    reading: &Reading,
    model: &DistinctModel,
    form: LikelihoodForm,
) -> AgeLikelihood {
    let (from, length) = filter.age_range(reading, AgeUnit::Arrivals);
    if reading.age.is_none() {
        return AgeLikelihood { from, length, collision: 1.0 };
    }
    let items = match form {
        LikelihoodForm::Printed => model.among(length),
        LikelihoodForm::Corrected => model.between(from, length),
    };
    let spec = filter.spec();
    let collision = collision_probability(reading.oldest, spec.cells_per_item(), spec.cells(), items);
    AgeLikelihood { from, length, collision }
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

/// The probability that the item of this rank is among `length` arrivals and not among the `from` after them.
fn last_seen(rank: u64, harmonic: f64, from: f64, length: f64) -> f64 {
    let share = 1.0 / (harmonic * rank as f64);
    if share >= 1.0 {
        return if from > 0.0 { 0.0 } else { 1.0 };
    }
    let t = log1p(-share);
    -exp(from * t) * expm1(length * t)
}

/// Ranks beyond the head: an integral with Euler-Maclaurin correction terms.
fn zipf_tail(items: u64, harmonic: f64, arrivals: f64) -> f64 {
    if items <= HEAD || arrivals <= 0.0 {
        return 0.0;
    }
    let c = arrivals / harmonic;
    let value = |x: f64| -expm1(-c / x);
    let integral = |x: f64| x * value(x) + c * exponential_integral(c / x);
    let slope = |x: f64| -c / (x * x) * exp(-c / x);
    let (low, high) = (HEAD as f64, items as f64);
    // Second-order difference of (1-p)^j and exp(-jp), summed over the tail.
    let second = (exp(-c / high) - exp(-c / low)) / (2.0 * harmonic);
    let ends = 0.5 * (value(high) - value(low)) + (slope(high) - slope(low)) / 12.0;
    integral(high) - integral(low) + ends + second
}

/// E1(x) for x > 0: a series up to 1, a continued fraction beyond.
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
