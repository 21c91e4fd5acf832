//! A dedup view over a plain Bloom filter, with posteriors where a share is known.

use super::filter::{NO_READING, plain_answer};
use ebb_sketch::filter::belief::ArrivalShare;
use ebb_sketch::filter::inference::{Answer, Basis, Question, Seen};
use ebb_sketch::filter::structure::classic::ClassicFilter;

/// A plain Bloom filter, with posteriors where a share is known.
#[derive(Debug, Clone)]
pub(super) struct ClassicView {
    pub(super) filter: ClassicFilter,
    pub(super) share: Option<ArrivalShare>,
    pub(super) seen: Seen,
}

impl ClassicView {
    pub(super) fn observe(&mut self, question: &Question) -> Answer {
        let answer = self.ask(question);
        if self.seen == Seen::Last || !answer.duplicate {
            self.filter.insert(question.item);
        }
        answer
    }

    pub(super) fn ask(&self, question: &Question) -> Answer {
        match (question.penalties, question.share.or(self.share)) {
            (Some(penalties), Some(share)) => {
                let belief = self.filter.belief(question.item, share);
                let decision = penalties.decide(&belief);
                let basis = Basis::Posterior;
                let (duplicate, decision, belief) = (decision.duplicate, Some(decision), Some(belief));
                let standard = self.filter.contains(question.item);
                Answer { duplicate, basis, decision, belief, reading: NO_READING, standard }
            }
            _ => plain_answer(self.filter.contains(question.item)),
        }
    }

    pub(super) fn basis(&self) -> Basis {
        if self.share.is_some() { Basis::Posterior } else { Basis::Standard }
    }
}
