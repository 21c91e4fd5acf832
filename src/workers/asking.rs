//! What can be asked of a stream: decisions, counts, aggregates, figures, checkpoints.
//!
//! Where partitions can be another instance's, an answer speaks of those that are here and says which; one that leaves
//! while it is asked is not among them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::message::{
    AggregateAskError, Answered, Ask, AskError, Decided, Depth, Inquiry, Message, PartitionStatus, Saved, Stored,
};
use super::stream::Stream;
use ebb_core::{
    AggregateAnswer, AggregateQuestion, AsOf, KeyScope, LogDigest, NextOffset, PartialAggregate, Question,
    QuestionError, Subject, Verdict,
};
use ebb_sketch::filter::structure::frequency::DecayedCount;
use ebb_sketch::hash::Fingerprint;

/// How far the log must be folded before an answer is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AtLeast {
    #[default]
    Anywhere,
    /// This offset, in each partition that is asked.
    Offset(u64),
    /// These offsets, by partition.
    Offsets(BTreeMap<u32, u64>),
}

impl AtLeast {
    /// Who wrote offset n wants it folded: the position behind it.
    fn of(&self, partition: usize) -> NextOffset {
        let offset = match self {
            Self::Anywhere => None,
            Self::Offset(offset) => Some(*offset),
            Self::Offsets(offsets) => {
                u32::try_from(partition).ok().and_then(|partition| offsets.get(&partition)).copied()
            }
        };
        NextOffset(offset.map_or(0, |offset| offset.saturating_add(1)))
    }
}

/// Where the answer to each question of a list stands.
#[derive(Debug)]
pub struct Answers {
    pub answers: Vec<(Result<Decided, QuestionError>, AsOf)>,
    /// The partitions that were asked.
    pub answered: Vec<u32>,
}

/// Decayed counts of a list of items, none where the stream keeps none.
#[derive(Debug)]
pub struct Counted {
    pub counts: Vec<Option<DecayedCount>>,
    /// Of each partition that was asked.
    pub as_of: Vec<AsOf>,
}

/// What exports were made into.
#[derive(Debug)]
pub struct MergedAnswer {
    pub answer: AggregateAnswer,
    /// Of each entry of its `as_of`: the log, and how many partitions that has.
    pub logs: Vec<(LogDigest, u32)>,
}

/// A partition and its newest checkpoint.
#[derive(Debug, Clone, Copy)]
pub struct Checkpointed {
    pub partition: u32,
    /// None where there is nothing to store.
    pub stored: Option<Stored>,
}

/// How long to wait before looking again whether a checkpoint is stored.
const LOOK_AGAIN: std::ops::Range<Duration> = Duration::from_millis(2)..Duration::from_millis(200);

/// An inquiry to a partition, what it is about, and where its answer comes.
type Asked<G, T> = (usize, G, Inquiry, oneshot::Receiver<T>);

impl Stream {
    /// The partitions that are meant and here.
    fn here(&self) -> impl Iterator<Item = usize> {
        let meant = (0..self.shards.len()).filter(|partition| self.only.is_none_or(|only| only == *partition));
        meant.filter(|partition| self.is_here(*partition))
    }

    /// What is waited for must be able to come.
    fn check(&self, at_least: &AtLeast) -> Result<(), AskError> {
        let AtLeast::Offsets(offsets) = at_least else { return Ok(()) };
        for partition in offsets.keys().map(|partition| *partition as usize) {
            if partition >= self.shards.len() {
                return Err(AskError::NoPartition { partitions: self.shards.len() });
            }
            if !self.is_here(partition) {
                return Err(AskError::Elsewhere);
            }
        }
        Ok(())
    }

    async fn send(&self, partition: usize, inquiry: Inquiry, at_least: &AtLeast) -> Result<(), AskError> {
        let route = &self.shards[partition];
        let ask = Ask { shard: route.shard, at_least: at_least.of(partition), asked: Instant::now(), inquiry };
        route.worker.send(Message::Ask(ask)).await.map_err(|_| AskError::Stopping)
    }

    /// What a partition answered; nothing when it left meanwhile.
    async fn answer_of<T>(&self, partition: usize, reply: oneshot::Receiver<T>) -> Result<Option<T>, AskError> {
        match reply.await {
            Ok(answer) => Ok(Some(answer)),
            Err(_) if self.is_shared() && !self.is_here(partition) => Ok(None),
            Err(_) => Err(AskError::Stopping),
        }
    }

    /// Sends all inquiries, then collects their answers. A partition that left meanwhile has none.
    async fn gather<G, T>(&self, asked: Vec<Asked<G, T>>, at_least: &AtLeast) -> Result<Vec<(usize, G, T)>, AskError> {
        let mut replies = Vec::with_capacity(asked.len());
        for (partition, about, inquiry, reply) in asked {
            self.send(partition, inquiry, at_least).await?;
            replies.push((partition, about, reply));
        }
        let mut answers = Vec::with_capacity(replies.len());
        for (partition, about, reply) in replies {
            if let Some(answer) = self.answer_of(partition, reply).await? {
                answers.push((partition, about, answer));
            }
        }
        Ok(answers)
    }

    /// Answers questions in order, once the shards have folded up to `at_least`.
    pub async fn ask(&self, questions: Vec<Question>, depth: Depth, at_least: &AtLeast) -> Result<Answers, AskError> {
        self.check(at_least)?;
        match self.only_home(&questions) {
            Some(home) => self.ask_one(home, questions, depth, at_least).await,
            None => self.ask_several(questions, depth, at_least).await,
        }
    }

    /// The partition that all questions go to. Most are asked alone: they need not be sorted by partition.
    fn only_home(&self, questions: &[Question]) -> Option<usize> {
        match questions {
            [] => None,
            [question] if !self.is_shared() && self.only.is_none() => Some(self.partition_of(question.subject.route)),
            _ => self.destination(),
        }
    }

    async fn ask_one(
        &self,
        home: usize,
        questions: Vec<Question>,
        depth: Depth,
        at_least: &AtLeast,
    ) -> Result<Answers, AskError> {
        if !self.is_here(home) {
            return Err(AskError::Elsewhere);
        }
        let (reply, answered) = oneshot::channel();
        self.send(home, Inquiry::Decide { questions, depth, reply }, at_least).await?;
        let Answered { answers, as_of } = self.answer_of(home, answered).await?.ok_or(AskError::Elsewhere)?;
        let answers = answers.into_iter().map(|answer| (answer, as_of)).collect();
        Ok(Answers { answers, answered: vec![home as u32] })
    }

    async fn ask_several(
        &self,
        questions: Vec<Question>,
        depth: Depth,
        at_least: &AtLeast,
    ) -> Result<Answers, AskError> {
        let count = questions.len();
        let groups = self.grouped_by_home(questions, |question| question.subject.route);
        let asked = groups.into_iter().map(|(partition, (places, questions))| {
            let (reply, answered) = oneshot::channel();
            (partition, places, Inquiry::Decide { questions, depth, reply }, answered)
        });
        let gathered = self.gather(asked.collect(), at_least).await?;
        let mut all = vec![None; count];
        let mut answered = Vec::new();
        for (partition, places, Answered { answers, as_of }) in gathered {
            answered.push(partition as u32);
            for (place, one) in places.into_iter().zip(answers) {
                let found: &mut Option<(_, AsOf)> = &mut all[place];
                if found.as_ref().is_none_or(|(other, _)| weight(&one) > weight(other)) {
                    *found = Some((one, as_of));
                }
            }
        }
        let all: Option<Vec<_>> = all.into_iter().collect();
        Ok(Answers { answers: all.ok_or(AskError::Elsewhere)?, answered })
    }

    /// How often items came of late. What several partitions have counted is added up.
    pub async fn count(&self, subjects: Vec<Subject>, at_least: &AtLeast) -> Result<Counted, AskError> {
        self.check(at_least)?;
        let mut counts: Vec<Option<DecayedCount>> = vec![None; subjects.len()];
        let mut known = vec![false; subjects.len()];
        let groups = self.grouped_by_home(subjects, |subject| subject.route);
        let asked = groups.into_iter().map(|(partition, (places, subjects))| {
            let (reply, counted) = oneshot::channel();
            (partition, places, Inquiry::Count { subjects, reply }, counted)
        });
        let mut all_as_of = Vec::new();
        for (_, places, Answered { answers, as_of }) in self.gather(asked.collect(), at_least).await? {
            all_as_of.push(as_of);
            for (place, one) in places.into_iter().zip(answers) {
                known[place] = true;
                counts[place] = match (counts[place], one) {
                    (Some(a), Some(b)) => {
                        Some(DecayedCount { value: a.value + b.value, lower_bound: a.lower_bound || b.lower_bound })
                    }
                    (one, other) => one.or(other),
                };
            }
        }
        if known.contains(&false) {
            return Err(AskError::Elsewhere);
        }
        Ok(Counted { counts, as_of: all_as_of })
    }

    /// The partition that everything goes to, where there is no choice.
    fn destination(&self) -> Option<usize> {
        self.only.or((self.shards.len() == 1).then_some(0))
    }

    /// Where each is asked for. In a topic its writers choose the partition: unless one is named, all that are here.
    fn grouped_by_home<T: Clone>(
        &self,
        all: Vec<T>,
        route: impl Fn(&T) -> Fingerprint,
    ) -> BTreeMap<usize, (Vec<usize>, Vec<T>)> {
        if let Some(only) = self.destination() {
            let places = (0..all.len()).collect();
            return if self.is_here(only) { BTreeMap::from([(only, (places, all))]) } else { BTreeMap::new() };
        }
        let mut groups: BTreeMap<usize, (Vec<usize>, Vec<T>)> = BTreeMap::new();
        let mut add = |partition, place, one| {
            let (places, ones) = groups.entry(partition).or_default();
            places.push(place);
            ones.push(one);
        };
        if self.is_shared() {
            for partition in self.here() {
                all.iter().enumerate().for_each(|(place, one)| add(partition, place, one.clone()));
            }
            return groups;
        }
        for (place, one) in all.into_iter().enumerate() {
            let home = self.partition_of(route(&one));
            if self.is_here(home) {
                add(home, place, one);
            }
        }
        groups
    }

    /// Asks an aggregate of all shards that are here together, each as of where it stands.
    pub async fn aggregate(
        &self,
        question: AggregateQuestion,
        at_least: &AtLeast,
    ) -> Result<AggregateAnswer, AggregateAskError> {
        let place = self.plan().aggregate(&question.aggregate)?.0;
        let question = Arc::new(question);
        let parts = self.parts(&question, at_least).await?;
        let plan = self.plan().clone();
        // Merging large sketches takes long enough to hold up other requests.
        in_background(move || Ok(plan.aggregates[place].answer(&question, parts)?)).await
    }

    /// All that an aggregate keeps of a part, to be merged elsewhere.
    pub async fn export(
        &self,
        aggregate: &str,
        scope: KeyScope,
        at_least: &AtLeast,
    ) -> Result<Vec<u8>, AggregateAskError> {
        let question = Arc::new(AggregateQuestion::for_export(aggregate, scope));
        self.plan().aggregate(aggregate)?;
        let parts = self.parts(&question, at_least).await?;
        let (plan, log) = (self.plan().clone(), (self.log(), self.partitions() as u32));
        in_background(move || Ok(plan.export(&question.aggregate, scope, log, parts)?)).await
    }

    /// Asks what exports hold together. This stream's own events are among them only if its export is.
    pub async fn merge(
        &self,
        question: AggregateQuestion,
        exports: impl AsRef<[u8]> + Send + 'static,
    ) -> Result<MergedAnswer, AggregateAskError> {
        let plan = self.plan().clone();
        in_background(move || {
            let (_, spec) = plan.aggregate(&question.aggregate)?;
            let merged = plan.merge_exports(&question.aggregate, exports.as_ref())?;
            Ok(MergedAnswer { answer: spec.answer(&question, merged.partials)?, logs: merged.logs })
        })
        .await
    }

    async fn parts(
        &self,
        question: &Arc<AggregateQuestion>,
        at_least: &AtLeast,
    ) -> Result<Vec<PartialAggregate>, AggregateAskError> {
        self.check(at_least)?;
        let asked = self.here().map(|partition| {
            let (reply, part) = oneshot::channel();
            (partition, (), Inquiry::Aggregate { question: question.clone(), reply }, part)
        });
        let gathered = self.gather(asked.collect(), at_least).await?;
        if gathered.is_empty() {
            return Err(AskError::Elsewhere.into());
        }
        Ok(gathered.into_iter().map(|(_, (), part)| part).collect::<Result<_, _>>()?)
    }

    /// The shards in figures, by partition.
    pub async fn status(&self) -> Result<Vec<PartitionStatus>, AskError> {
        let told = self.each(|shard, reply| Message::Status { shard, reply }, self.here().collect()).await?;
        Ok(told.into_iter().map(|(_, status)| status).collect())
    }

    /// Stores every shard that is here as it is now, or later; returns when all are stored.
    pub async fn save(&self) -> Result<Vec<Checkpointed>, AskError> {
        let mut wanted: BTreeMap<usize, Option<NextOffset>> = BTreeMap::new();
        let mut missing: BTreeSet<usize> = self.here().collect();
        let mut all = BTreeMap::new();
        let mut pause = LOOK_AGAIN.start;
        loop {
            let asked = missing.iter().copied().collect();
            let told = self.each(|shard, reply| Message::Save { shard, reply }, asked).await?;
            missing.retain(|partition| told.iter().any(|(here, _)| here == partition));
            for (partition, Saved { next, stored }) in told {
                let wanted = *wanted.entry(partition).or_insert(next);
                if wanted <= stored.map(|stored| stored.next) {
                    missing.remove(&partition);
                }
                all.insert(partition, Checkpointed { partition: partition as u32, stored });
            }
            if missing.is_empty() {
                return Ok(all.into_values().collect());
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LOOK_AGAIN.end);
        }
    }

    /// Sends each of these partitions a message and collects the replies.
    async fn each<T>(
        &self,
        message: impl Fn(usize, oneshot::Sender<T>) -> Message,
        partitions: Vec<usize>,
    ) -> Result<Vec<(usize, T)>, AskError> {
        let mut replies = Vec::new();
        for partition in partitions {
            let (reply, told) = oneshot::channel();
            let route = &self.shards[partition];
            route.worker.send(message(route.shard, reply)).await.map_err(|_| AskError::Stopping)?;
            replies.push((partition, told));
        }
        let mut all = Vec::new();
        for (partition, told) in replies {
            match told.await {
                Ok(told) => all.push((partition, told)),
                Err(_) if self.is_shared() && !self.is_here(partition) => {}
                Err(_) => return Err(AskError::Stopping),
            }
        }
        Ok(all)
    }
}

async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AggregateAskError> + Send + 'static,
) -> Result<T, AggregateAskError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| AskError::Stopping)?
}

/// Which of two partitions' answers about an item counts: the one that has seen it.
fn weight(answer: &Result<Decided, QuestionError>) -> u8 {
    match answer.as_ref().map(|decided| decided.answer.verdict) {
        Err(_) => 3,
        Ok(Verdict::Duplicate) => 2,
        Ok(Verdict::Late) => 1,
        Ok(Verdict::Unique | Verdict::Rejected(_)) => 0,
    }
}
