//! Reproducible random streams.

use ebb_sketch::aggregate::robust::Element;
use ebb_sketch::random::Random;

use super::oracle::element;

/// The rounds of a randomised test: `EBB_CASES` (default 1) times its usual number.
pub fn cases(usual: usize) -> usize {
    let times = std::env::var("EBB_CASES").ok().and_then(|text| text.parse::<usize>().ok()).unwrap_or(1);
    usual * times
}

pub struct Shape {
    pub count: usize,
    pub max_weight: u32,
    /// Times lie in 0..span.
    pub span: u64,
}

/// Distinct ids, in random order of time.
pub fn distinct(random: &mut Random, shape: &Shape) -> Vec<Element> {
    let mut draw = |_| {
        let id = u128::from(random.next_u64()) << 56 | u128::from(random.next_u64());
        let weight = 1 + random.below(u64::from(shape.max_weight)) as u32;
        element(random.below(12), weight, random.below(shape.span) as i64, id)
    };
    (0..shape.count).map(&mut draw).collect()
}

/// The elements in random order, each one to three times.
pub fn redelivered(random: &mut Random, elements: &[Element]) -> Vec<Element> {
    let mut out: Vec<Element> =
        elements.iter().flat_map(|element| vec![*element; 1 + random.below(3) as usize]).collect();
    shuffle(random, &mut out);
    out
}

fn shuffle(random: &mut Random, elements: &mut [Element]) {
    for index in (1..elements.len()).rev() {
        elements.swap(index, random.below(index as u64 + 1) as usize);
    }
}
