//! Shards of one aggregate with the events applied to them, and questions to all of them.

use std::sync::Arc;

use ebb_core::{
    AggregateAnswer, AggregateError, AggregateQuestion, Event, KeyScope, Plan, QueryTime, Shard, Statistic, Verdict,
};
use ebb_sketch::decay::Decay;
use ebb_sketch::random::Random;

use crate::fixture::{START_MS, event, key};

/// Events of 80 seconds, up to 30 seconds out of order, with skewed values and labels; one in eight is a redelivery.
pub fn events(count: usize, seed: u64) -> Vec<Event> {
    let mut random = Random::new(seed);
    let mut all: Vec<Event> = Vec::with_capacity(count);
    for index in 0..count as u64 {
        if index % 8 == 7 {
            let again = all[random.below(all.len() as u64) as usize].clone();
            all.push(again);
            continue;
        }
        let now_ms = START_MS + (index * 80_000 / count as u64) as i64;
        let late_ms = if random.below(4) == 0 { random.below(30_000) } else { random.below(2_000) } as i64;
        let (wide, many) = (1 + random.below(400), 1 + random.below(9));
        let steps = random.below(wide);
        let country = (random.unit() * random.unit() * 30.0) as u64;
        all.push(Event {
            value: Some(steps as f64 * 0.25),
            weight: Some((1 + random.below(4)) as f64),
            key: Some(key(random.below(many))),
            labels: vec![format!("country-{country}").into()],
            ..event(seed << 32 | index, now_ms - late_ms)
        });
    }
    all
}

/// A shard and the events applied to it, with their verdicts.
pub struct ShardFixture {
    pub shard: Shard,
    pub applied: Vec<(Event, Verdict)>,
}

impl ShardFixture {
    pub fn new(plan: &Arc<Plan>, partition: u32) -> Self {
        Self { shard: Shard::new(plan.clone(), partition).unwrap(), applied: Vec::new() }
    }

    pub fn fold(&mut self, event: &Event) {
        let offset = self.shard.next().0;
        let outcome = self.shard.fold(offset, event.time_ms.unwrap(), Ok(event));
        self.applied.push((event.clone(), outcome.verdict));
    }

    /// Replaces the shard by one restored from its snapshot.
    pub fn restart(&mut self) {
        let partition = self.shard.as_of().partition;
        self.shard = Shard::restore(self.shard.plan().clone(), partition, &self.shard.snapshot()).unwrap();
    }
}

pub fn question(scope: KeyScope, decay: Option<&str>, statistic: Statistic) -> AggregateQuestion {
    let decay: Option<Decay> = decay.map(|decay| decay.parse().unwrap());
    AggregateQuestion { aggregate: "spend".into(), scope, decay, last: None, time: QueryTime::Newest, statistic }
}

/// The answer of all shards together.
pub fn ask(shards: &[ShardFixture], question: &AggregateQuestion) -> Result<AggregateAnswer, AggregateError> {
    let parts: Result<Vec<_>, _> = shards.iter().map(|fixture| fixture.shard.partial_aggregate(question)).collect();
    shards[0].shard.plan().aggregates[0].answer(question, parts?)
}
