//! Queries of a stream: decisions, counts and aggregates.
//!
//! If other instances may own partitions, an answer covers the partitions of this instance and says which those are. A
//! partition that moves away while it is queried is not among them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;

use super::messages::{
    AggregateQueryError, Decision, Detail, Message, QueryError, QueryKind, ShardAnswers, ShardQuery,
};
use super::stream::Stream;
use ebb_core::{
    AggregateAnswer, AggregateQuestion, AsOf, ItemCount, KeyScope, LogDigest, NextOffset, PartialAggregate, Question,
    QuestionError, Subject, Verdict,
};
use ebb_sketch::hash::Fingerprint;

/// How far the log must be folded before an answer is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AtLeast {
    #[default]
    Anywhere,
    /// This offset, in each partition that is queried.
    Offset(u64),
    /// These offsets, by partition.
    Offsets(BTreeMap<u32, u64>),
}

impl AtLeast {
    /// Offset n is folded once the next offset is n + 1.
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

/// Answers to a list of questions, in order.
#[derive(Debug)]
pub struct DecisionBatch {
    pub answers: Vec<(Result<Decision, QuestionError>, AsOf)>,
    /// The partitions that answered.
    pub answered: Vec<u32>,
}

/// Decayed counts of a list of items; none if the stream keeps no counts.
#[derive(Debug)]
pub struct CountBatch {
    pub counts: Vec<Option<ItemCount>>,
    /// Position of each partition that answered.
    pub as_of: Vec<AsOf>,
}

/// The answer from merged exports.
#[derive(Debug)]
pub struct MergedAnswer {
    pub answer: AggregateAnswer,
    /// For each entry of its `as_of`: the log, and its number of partitions.
    pub logs: Vec<(LogDigest, u32)>,
}

/// A query of a partition, the indexes of its questions, and where its answer arrives.
type PendingQuery<G, T> = (usize, G, QueryKind, oneshot::Receiver<T>);

impl Stream {
    /// The queried partitions that this instance owns.
    pub(super) fn owned_partitions(&self) -> impl Iterator<Item = usize> {
        let queried = (0..self.routes.len()).filter(|partition| self.only.is_none_or(|only| only == *partition));
        queried.filter(|partition| self.is_owned(*partition))
    }

    /// Refuses offsets of partitions that cannot be waited for here.
    fn check(&self, at_least: &AtLeast) -> Result<(), QueryError> {
        let AtLeast::Offsets(offsets) = at_least else { return Ok(()) };
        for partition in offsets.keys().map(|partition| *partition as usize) {
            if partition >= self.routes.len() {
                return Err(QueryError::NoSuchPartition { partitions: self.routes.len() });
            }
            if !self.is_owned(partition) {
                return Err(QueryError::NotOwned);
            }
        }
        Ok(())
    }

    async fn send(&self, partition: usize, kind: QueryKind, at_least: &AtLeast) -> Result<(), QueryError> {
        let route = &self.routes[partition];
        let query = ShardQuery { slot: route.slot, at_least: at_least.of(partition), received: Instant::now(), kind };
        route.worker.send(Message::Query(query)).await.map_err(|_| QueryError::Stopping)
    }

    /// The answer of a partition; none if it moved away meanwhile.
    async fn answer_of<T>(&self, partition: usize, reply: oneshot::Receiver<T>) -> Result<Option<T>, QueryError> {
        match reply.await {
            Ok(answer) => Ok(Some(answer)),
            Err(_) if self.is_shared() && !self.is_owned(partition) => Ok(None),
            Err(_) => Err(QueryError::Stopping),
        }
    }

    /// Sends all queries, then collects their answers. A partition that moved away meanwhile has none.
    async fn gather<G, T>(
        &self,
        queries: Vec<PendingQuery<G, T>>,
        at_least: &AtLeast,
    ) -> Result<Vec<(usize, G, T)>, QueryError> {
        let mut replies = Vec::with_capacity(queries.len());
        for (partition, indexes, kind, reply) in queries {
            self.send(partition, kind, at_least).await?;
            replies.push((partition, indexes, reply));
        }
        let mut answers = Vec::with_capacity(replies.len());
        for (partition, indexes, reply) in replies {
            if let Some(answer) = self.answer_of(partition, reply).await? {
                answers.push((partition, indexes, answer));
            }
        }
        Ok(answers)
    }

    /// Answers questions in order, once the shards have folded up to `at_least`.
    pub async fn ask(
        &self,
        questions: Vec<Question>,
        detail: Detail,
        at_least: &AtLeast,
    ) -> Result<DecisionBatch, QueryError> {
        self.check(at_least)?;
        match self.single_partition(&questions) {
            Some(partition) => self.ask_one(partition, questions, detail, at_least).await,
            None => self.ask_several(questions, detail, at_least).await,
        }
    }

    /// The partition that all questions go to, if it is one. Most questions come alone and need no grouping.
    fn single_partition(&self, questions: &[Question]) -> Option<usize> {
        match questions {
            [] => None,
            [question] if !self.is_shared() && self.only.is_none() => Some(self.partition_of(question.subject.route)),
            _ => self.only_partition(),
        }
    }

    async fn ask_one(
        &self,
        partition: usize,
        questions: Vec<Question>,
        detail: Detail,
        at_least: &AtLeast,
    ) -> Result<DecisionBatch, QueryError> {
        if !self.is_owned(partition) {
            return Err(QueryError::NotOwned);
        }
        let (reply, answered) = oneshot::channel();
        self.send(partition, QueryKind::Decide { questions, detail, reply }, at_least).await?;
        let ShardAnswers { answers, as_of } = self.answer_of(partition, answered).await?.ok_or(QueryError::NotOwned)?;
        let answers = answers.into_iter().map(|answer| (answer, as_of)).collect();
        Ok(DecisionBatch { answers, answered: vec![partition as u32] })
    }

    async fn ask_several(
        &self,
        questions: Vec<Question>,
        detail: Detail,
        at_least: &AtLeast,
    ) -> Result<DecisionBatch, QueryError> {
        let count = questions.len();
        let groups = self.group_by_partition(questions, |question| question.subject.route);
        let queries = groups.into_iter().map(|(partition, (indexes, questions))| {
            let (reply, answered) = oneshot::channel();
            (partition, indexes, QueryKind::Decide { questions, detail, reply }, answered)
        });
        let gathered = self.gather(queries.collect(), at_least).await?;
        let mut all = vec![None; count];
        let mut answered = Vec::new();
        for (partition, indexes, ShardAnswers { answers, as_of }) in gathered {
            answered.push(partition as u32);
            for (index, one) in indexes.into_iter().zip(answers) {
                let found: &mut Option<(_, AsOf)> = &mut all[index];
                if found.as_ref().is_none_or(|(other, _)| rank(&one) > rank(other)) {
                    *found = Some((one, as_of));
                }
            }
        }
        let all: Option<Vec<_>> = all.into_iter().collect();
        Ok(DecisionBatch { answers: all.ok_or(QueryError::NotOwned)?, answered })
    }

    /// Decayed counts of items, added up over the partitions.
    pub async fn count(&self, subjects: Vec<Subject>, at_least: &AtLeast) -> Result<CountBatch, QueryError> {
        self.check(at_least)?;
        let mut counts: Vec<Option<ItemCount>> = vec![None; subjects.len()];
        let mut known = vec![false; subjects.len()];
        let groups = self.group_by_partition(subjects, |subject| subject.route);
        let queries = groups.into_iter().map(|(partition, (indexes, subjects))| {
            let (reply, counted) = oneshot::channel();
            (partition, indexes, QueryKind::Count { subjects, reply }, counted)
        });
        let mut all_as_of = Vec::new();
        for (_, indexes, ShardAnswers { answers, as_of }) in self.gather(queries.collect(), at_least).await? {
            all_as_of.push(as_of);
            for (index, one) in indexes.into_iter().zip(answers) {
                known[index] = true;
                counts[index] = match (counts[index], one) {
                    (Some(one), Some(other)) => Some(one.plus(other)),
                    (one, other) => one.or(other),
                };
            }
        }
        if known.contains(&false) {
            return Err(QueryError::NotOwned);
        }
        Ok(CountBatch { counts, as_of: all_as_of })
    }

    /// The partition that everything goes to, if there is only one.
    fn only_partition(&self) -> Option<usize> {
        self.only.or((self.routes.len() == 1).then_some(0))
    }

    /// Groups by the partitions that may know the item. Producers of a topic choose the partition, so that every partition
    /// of this instance is queried unless one is named.
    fn group_by_partition<T: Clone>(
        &self,
        all: Vec<T>,
        route: impl Fn(&T) -> Fingerprint,
    ) -> BTreeMap<usize, (Vec<usize>, Vec<T>)> {
        if let Some(only) = self.only_partition() {
            let indexes = (0..all.len()).collect();
            return if self.is_owned(only) { BTreeMap::from([(only, (indexes, all))]) } else { BTreeMap::new() };
        }
        let mut groups: BTreeMap<usize, (Vec<usize>, Vec<T>)> = BTreeMap::new();
        let mut add = |partition, index, one| {
            let (indexes, ones) = groups.entry(partition).or_default();
            indexes.push(index);
            ones.push(one);
        };
        if self.is_shared() {
            for partition in self.owned_partitions() {
                all.iter().enumerate().for_each(|(index, one)| add(partition, index, one.clone()));
            }
            return groups;
        }
        for (index, one) in all.into_iter().enumerate() {
            let partition = self.partition_of(route(&one));
            if self.is_owned(partition) {
                add(partition, index, one);
            }
        }
        groups
    }

    /// Merges an aggregate over the partitions of this instance, each as of its own position.
    pub async fn aggregate(
        &self,
        question: AggregateQuestion,
        at_least: &AtLeast,
    ) -> Result<AggregateAnswer, AggregateQueryError> {
        let index = self.plan().aggregate(&question.aggregate)?.0;
        let question = Arc::new(question);
        let partials = self.partials(&question, at_least).await?;
        let plan = self.plan().clone();
        // Merging large sketches takes long enough to hold up other requests.
        in_background(move || Ok(plan.aggregates[index].answer(&question, partials)?)).await
    }

    /// Everything an aggregate keeps, to be merged elsewhere.
    pub async fn export(
        &self,
        aggregate: &str,
        scope: KeyScope,
        at_least: &AtLeast,
    ) -> Result<Vec<u8>, AggregateQueryError> {
        let question = Arc::new(AggregateQuestion::for_export(aggregate, scope));
        self.plan().aggregate(aggregate)?;
        let partials = self.partials(&question, at_least).await?;
        let (plan, log) = (self.plan().clone(), (self.log(), self.partitions() as u32));
        in_background(move || Ok(plan.export(&question.aggregate, scope, log, partials)?)).await
    }

    /// Answers from merged exports. This stream's own events are included only if its export is among them.
    pub async fn merge(
        &self,
        question: AggregateQuestion,
        exports: impl AsRef<[u8]> + Send + 'static,
    ) -> Result<MergedAnswer, AggregateQueryError> {
        let plan = self.plan().clone();
        in_background(move || {
            let (_, spec) = plan.aggregate(&question.aggregate)?;
            let merged = plan.merge_exports(&question.aggregate, exports.as_ref())?;
            Ok(MergedAnswer { answer: spec.answer(&question, merged.partials)?, logs: merged.logs })
        })
        .await
    }

    /// Merges exports into one export.
    pub async fn combine(
        &self,
        aggregate: &str,
        exports: impl AsRef<[u8]> + Send + 'static,
    ) -> Result<Vec<u8>, AggregateQueryError> {
        let (plan, aggregate) = (self.plan().clone(), aggregate.to_owned());
        in_background(move || Ok(plan.combine_exports(&aggregate, exports.as_ref())?)).await
    }

    async fn partials(
        &self,
        question: &Arc<AggregateQuestion>,
        at_least: &AtLeast,
    ) -> Result<Vec<PartialAggregate>, AggregateQueryError> {
        self.check(at_least)?;
        let queries = self.owned_partitions().map(|partition| {
            let (reply, part) = oneshot::channel();
            (partition, (), QueryKind::Aggregate { question: question.clone(), reply }, part)
        });
        let gathered = self.gather(queries.collect(), at_least).await?;
        if gathered.is_empty() {
            return Err(QueryError::NotOwned.into());
        }
        Ok(gathered.into_iter().map(|(_, (), part)| part).collect::<Result<_, _>>()?)
    }
}

async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AggregateQueryError> + Send + 'static,
) -> Result<T, AggregateQueryError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| QueryError::Stopping)?
}

/// Rank of an answer among those of several partitions: the one that has seen the item wins.
fn rank(answer: &Result<Decision, QuestionError>) -> u8 {
    match answer.as_ref().map(|decided| decided.answer.verdict) {
        Err(_) => 3,
        Ok(Verdict::Duplicate) => 2,
        Ok(Verdict::Late) => 1,
        Ok(Verdict::Unique | Verdict::Rejected(_)) => 0,
    }
}
