//! Shards with one aggregate, and a stream of events for them.

use std::sync::Arc;

use ebb_core::{
    AggregateAnswer, AggregateError, AggregateParameters, AggregateQuestion, AggregateSpec, DedupSpec, Event,
    EventSpec, FilterSpec, KeyScope, Measure, Method, Plan, Reader, Seen, Selection, Shard, Statistic, Verdict,
    Weighting,
};
use ebb_sketch::decay::Decay;
use ebb_sketch::filter::timing::TimingSpec;
use ebb_sketch::hash::{Fingerprint, HashKey};
use ebb_sketch::random::{Random, mix};

pub const START_MS: i64 = 1_700_000_000_000;

/// An aggregate of values in steps of a quarter, by weight, for windows up to two minutes.
pub fn parameters(method: Method, decay: Option<&str>) -> AggregateParameters {
    AggregateParameters {
        name: "spend".into(),
        of: Measure::Value,
        over: Selection::All,
        method,
        epsilon: 0.1,
        delta: 0.05,
        decay: decay.map(|decay| decay.parse().unwrap()),
        horizon_ms: 120_000,
        keys: None,
        top: Some(0),
        step: 0.25,
        max: 1_000.0,
        weights: Weighting::ByEvent,
        seed: 7,
    }
}

pub fn plan(parameters: AggregateParameters) -> Arc<Plan> {
    let path = |path: &str| Some(path.parse().unwrap());
    let event = EventSpec {
        key: path("campaign"),
        value: path("cost"),
        weight: path("n"),
        labels: vec!["country".parse().unwrap()],
        ..EventSpec::of_item(vec!["item".parse().unwrap()])
    };
    let reader = Arc::new(Reader::new(event, HashKey::new([3; 16])).unwrap());
    let filter = TimingSpec::time(60_000, 60_000, 256 << 10).unwrap();
    Arc::new(Plan {
        reader,
        max_skew_ms: u64::MAX,
        dedup: DedupSpec::new(FilterSpec::learning(filter, 64).unwrap(), Seen::First),
        frequency: None,
        aggregates: vec![AggregateSpec::new(parameters).unwrap()],
    })
}

pub fn event(item: u64, time_ms: i64) -> Event {
    Event {
        item: Fingerprint(u128::from(mix(item)) << 64 | u128::from(mix(!item))),
        key: Some(key(0)),
        time_ms: Some(time_ms),
        id: Some(Fingerprint(u128::from(mix(item ^ 0xABCD)) << 64 | u128::from(item))),
        value: Some(1.0),
        weight: Some(1.0),
        importance: None,
        numbers: Default::default(),
        labels: vec!["x".into()],
        previous_key: None,
        route: Fingerprint(0),
    }
}

pub fn key(key: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(key ^ 0x5EED)) << 64 | u128::from(key))
}

/// Events of 80 seconds, up to 30 seconds out of order; skewed values and labels; one in eight delivered again.
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

/// A shard, and the events it took with their verdicts.
pub struct Fed {
    pub shard: Shard,
    pub taken: Vec<(Event, Verdict)>,
}

impl Fed {
    pub fn new(plan: &Arc<Plan>, partition: u32) -> Self {
        Self { shard: Shard::new(plan.clone(), partition).unwrap(), taken: Vec::new() }
    }

    pub fn fold(&mut self, event: &Event) {
        let offset = self.shard.next().0;
        let outcome = self.shard.fold(offset, event.time_ms.unwrap(), Ok(event));
        self.taken.push((event.clone(), outcome.verdict));
    }

    /// Goes on from what a snapshot holds.
    pub fn restart(&mut self) {
        let partition = self.shard.as_of().partition;
        self.shard = Shard::restore(self.shard.plan().clone(), partition, &self.shard.snapshot()).unwrap();
    }
}

pub fn question(scope: KeyScope, decay: Option<&str>, statistic: Statistic) -> AggregateQuestion {
    let decay: Option<Decay> = decay.map(|decay| decay.parse().unwrap());
    AggregateQuestion { aggregate: "spend".into(), scope, decay, statistic }
}

/// All shards together.
pub fn ask(shards: &[Fed], question: &AggregateQuestion) -> Result<AggregateAnswer, AggregateError> {
    let parts: Result<Vec<_>, _> = shards.iter().map(|fed| fed.shard.partial_aggregate(question)).collect();
    shards[0].shard.plan().aggregates[0].answer(question, parts?)
}
