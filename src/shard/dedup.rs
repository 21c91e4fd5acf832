//! The dedup view: was this item seen within the window?

use super::event::Verdict;
use super::question::{AgeRange, Answer, QuestionError, Span};
use crate::codec::CodecError;
use crate::filter::timing::{Drive, Reading, TimingError, TimingFilter, TimingSpec};
use crate::hash::Fingerprint;

/// From which sighting the window is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// From the accepted one: an item that keeps coming is unique once a window.
    First,
    /// From the latest one: an item that keeps coming stays a duplicate.
    Last,
}

/// What a dedup view is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DedupSpec {
    pub filter: TimingSpec,
    pub seen: Seen,
}

impl DedupSpec {
    /// The window that counts when a question names none, and the longest it may name.
    pub fn window(&self) -> Span {
        match self.filter.drive() {
            Drive::Time { window_ms, .. } => Span::Milliseconds(window_ms),
            Drive::Count { window, .. } => Span::Events(window),
        }
    }

    /// The window of a question in the unit of the configured one.
    pub fn window_of(&self, asked: Option<Span>) -> Result<u64, QuestionError> {
        let most = self.window();
        let asked = asked.unwrap_or(most);
        match (asked, most) {
            (Span::Milliseconds(0) | Span::Events(0), _) => Err(QuestionError::EmptyWindow),
            (Span::Milliseconds(w), Span::Milliseconds(m)) | (Span::Events(w), Span::Events(m)) if w <= m => Ok(w),
            (Span::Milliseconds(_), Span::Milliseconds(_)) | (Span::Events(_), Span::Events(_)) => {
                Err(QuestionError::WindowTooLong { asked, most })
            }
            _ => Err(QuestionError::WindowKind { asked, most }),
        }
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Dedup {
    spec: DedupSpec,
    filter: TimingFilter,
}

impl Dedup {
    pub(super) fn new(spec: DedupSpec) -> Result<Self, TimingError> {
        Ok(Self { spec, filter: TimingFilter::new(spec.filter)? })
    }

    pub(super) fn filter(&self) -> &TimingFilter {
        &self.filter
    }

    /// Decides about an event of time `time_ms` and remembers it. The clock has been moved to the event first.
    pub(super) fn observe(&mut self, item: Fingerprint, time_ms: i64) -> Answer {
        let window = self.filter.spec().drive().window();
        let answer = self.decide(item, time_ms, window);
        if self.spec.seen == Seen::Last || answer.verdict != Verdict::Duplicate {
            self.filter.insert(item, time_ms);
        }
        self.filter.arrive(time_ms);
        answer
    }

    /// Decides without remembering. `window` is in the unit of the configured one and not above it.
    pub(super) fn decide(&self, item: Fingerprint, time_ms: i64, window: u64) -> Answer {
        let reading = self.filter.look(item);
        let verdict = if self.filter.standard(&reading, time_ms, window) {
            Verdict::Duplicate
        } else if self.is_late(time_ms) {
            Verdict::Late
        } else {
            Verdict::Unique
        };
        Answer { verdict, age: self.age_range(&reading) }
    }

    pub(super) fn advance(&mut self, clock_ms: i64) {
        self.filter.advance(clock_ms);
    }

    pub(super) fn touch(&self, item: Fingerprint) {
        self.filter.touch(item);
    }

    /// Part of the window before such an event is already forgotten: not finding it proves nothing.
    fn is_late(&self, time_ms: i64) -> bool {
        match (self.filter.spec().drive(), self.filter.now()) {
            (Drive::Time { lateness_ms, .. }, Some(now)) => now.saturating_sub_unsigned(lateness_ms) > time_ms,
            _ => false,
        }
    }

    /// The ages of the block in which the item's oldest timer was written.
    fn age_range(&self, reading: &Reading) -> Option<AgeRange> {
        let drive = self.filter.spec().drive();
        let (age, now) = (i64::from(reading.age?), self.filter.now()?);
        let length = i64::try_from(drive.block()).ok()?;
        let start = (now.div_euclid(length).saturating_sub(age)).saturating_mul(length);
        let least = now.saturating_sub(start.saturating_add(length)).saturating_add(1).max(0) as u64;
        let below = now.saturating_sub(start).saturating_add(1).max(0) as u64;
        Some(match drive {
            Drive::Time { .. } => AgeRange { least: Span::Milliseconds(least), below: Span::Milliseconds(below) },
            Drive::Count { .. } => AgeRange { least: Span::Events(least), below: Span::Events(below) },
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        self.filter.encode()
    }

    pub(super) fn decode(spec: DedupSpec, bytes: &[u8]) -> Result<Self, CodecError> {
        Ok(Self { spec, filter: TimingFilter::decode(spec.filter, bytes)? })
    }
}
