//! One scenario: a stage, a feed, some instances, and what was done to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ebb_core::Plan;
use ebb_sketch::random::Random;

use super::Tally;
use crate::audit::Audit;
use crate::check::{Findings, check};
use crate::feed::{Feed, FeedSpec};
use crate::instance::Instance;
use crate::stage::{GROUP, INPUT, Stage, StageSpec, VERDICTS, output};

const ORDERLY: Duration = Duration::from_secs(60);

/// What is played.
#[derive(Debug, Clone)]
pub struct PlaySpec {
    pub stage: StageSpec,
    pub instances: usize,
    /// At least so many; more while the scenario goes on.
    pub records: u64,
    /// `None`: everything is in the log before the first fault.
    pub per_second: Option<u64>,
    /// Lines under `kafka:` of every instance's configuration; `{instance}` stands for its name.
    pub kafka: &'static str,
    /// Variables of every instance.
    pub variables: Vec<(&'static str, String)>,
}

/// Members that leave when they stop, and are missed soon when they die.
pub const DYNAMIC: &str =
    "  properties: {session.timeout.ms: 3000, heartbeat.interval.ms: 500, reconnect.backoff.max.ms: 500}";
/// Members that keep their partitions over a quick restart.
pub const STATIC: &str = "  instance: {instance}
  properties: {session.timeout.ms: 6000, heartbeat.interval.ms: 500, reconnect.backoff.max.ms: 500}";

impl PlaySpec {
    pub fn new(name: &'static str, records: u64) -> Self {
        Self {
            stage: StageSpec::new(name),
            instances: 1,
            records,
            per_second: None,
            kafka: STATIC,
            variables: Vec::new(),
        }
    }
}

/// See the module.
pub struct Play {
    // First: it ends before the broker does.
    feed: Option<Feed>,
    pub stage: Stage,
    pub instances: Vec<Instance>,
    pub random: Random,
    pub plan: Arc<Plan>,
    pub audit: Audit,
    /// What was done, by name.
    pub done: BTreeMap<&'static str, u64>,
    variables: Vec<(&'static str, String)>,
    records: u64,
    name: &'static str,
    pub begun: Instant,
}

impl Play {
    pub fn begin(spec: &PlaySpec) -> Self {
        let begun = Instant::now();
        let stage = Stage::new(&spec.stage);
        let plan = stage.plan();
        let instance = |number: usize| Instance::new(&stage, &format!("ebb-{number}"), spec.kafka);
        let instances = (0..spec.instances).map(instance).collect();
        let feed = Feed::start(&stage, FeedSpec { per_second: spec.per_second, ..FeedSpec::new(spec.records) });
        let feed = match spec.per_second {
            None => {
                feed.finish();
                None
            }
            Some(_) => Some(feed),
        };
        Self {
            instances,
            random: Random::new(20_261_116),
            plan,
            audit: Audit::default(),
            done: BTreeMap::new(),
            variables: spec.variables.clone(),
            feed,
            records: spec.records,
            name: spec.stage.name,
            begun,
            stage,
        }
    }

    pub fn note(&mut self, what: &'static str) {
        *self.done.entry(what).or_default() += 1;
    }

    pub fn count(&self, what: &str) -> u64 {
        self.done.get(what).copied().unwrap_or(0)
    }

    /// Starts an instance, with a variable more.
    pub fn start_with(&mut self, number: usize, more: &[(&str, &str)]) {
        let mut variables: Vec<(&str, &str)> = self.variables.iter().map(|(name, value)| (*name, &**value)).collect();
        variables.extend_from_slice(more);
        self.instances[number].start(&variables);
    }

    pub fn start(&mut self, number: usize) {
        self.start_with(number, &[]);
    }

    pub fn start_all(&mut self) {
        (0..self.instances.len()).for_each(|number| self.start(number));
    }

    /// kill -9 of an instance, and now and then a look at what it has stored.
    pub fn kill(&mut self, number: usize) {
        if self.instances[number].kill() {
            self.note("kills");
            if self.count("kills").is_multiple_of(5) {
                let name = self.instances[number].name.clone();
                self.audit.take(&self.stage, &self.plan, &name);
            }
        }
    }

    /// kill -9 or SIGTERM of the broker, a while without it, and its return on the same port.
    pub fn restart_broker(&mut self, away: Duration) {
        let is_orderly = self.random.below(2) == 0;
        let node = &mut self.stage.cluster.nodes()[0];
        if is_orderly {
            node.terminate(Duration::from_secs(30));
        } else {
            node.kill();
        }
        thread::sleep(away);
        self.stage.cluster.nodes()[0].start();
        self.stage.cluster.settle();
        self.note("broker restarts");
    }

    /// How often an instance gave up what it had not committed.
    pub fn times_gone_back(&self) -> u64 {
        let times = |one: &Instance| one.log_text().matches("going back to what is committed").count() as u64;
        self.instances.iter().map(times).sum()
    }

    /// Waits for something to become true of the play.
    #[track_caller]
    pub fn wait_until(&mut self, what: &str, most: Duration, is_so: impl Fn(&Play) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < most, "not after {most:?}: {what}\n{}", self.instances[0].log_tail());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// A moment between two bounds.
    pub fn pause(&mut self, least_ms: u64, most_ms: u64) {
        thread::sleep(Duration::from_millis(least_ms + self.random.below(most_ms - least_ms)));
    }

    /// What the group has committed of the whole input.
    pub fn committed(&self) -> u64 {
        self.stage.cluster.admin().committed(GROUP, INPUT).into_iter().flatten().sum::<i64>() as u64
    }

    /// Waits until this much is committed.
    #[track_caller]
    pub fn wait_committed(&mut self, least: u64, most: Duration) {
        let begun = Instant::now();
        loop {
            let committed = self.committed();
            if committed >= least {
                return;
            }
            if begun.elapsed() > most {
                let tails: Vec<String> =
                    self.instances.iter().map(|one| format!("{}:\n{}", one.name, one.log_tail())).collect();
                panic!("{committed} of {least} committed after {most:?}\n{}", tails.join("\n"));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Everything is fed, processed by whoever is still there, and all instances are told to stop.
    #[track_caller]
    pub fn settle(&mut self, most: Duration) {
        if let Some(feed) = self.feed.take() {
            self.records = feed.finish();
        }
        self.instances.iter_mut().for_each(Instance::thaw);
        self.start(0);
        self.wait_committed(self.records, most);
        for number in 0..self.instances.len() {
            if self.instances[number].is_running() {
                let name = self.instances[number].name.clone();
                assert!(self.instances[number].terminate(ORDERLY), "{name} did not stop when it was told to");
            }
        }
        self.wait_closed();
    }

    /// A transaction that a killed instance left is given up by the broker after its timeout.
    fn wait_closed(&self) {
        let (admin, begun) = (self.stage.cluster.admin(), Instant::now());
        for topic in VERDICTS.map(output) {
            for partition in 0..self.stage.partitions as i32 {
                while admin.stable_end(&topic, partition) != admin.watermarks(&topic, partition).1 {
                    assert!(begun.elapsed() < ORDERLY, "{topic}/{partition}: a transaction stays open");
                    thread::sleep(Duration::from_millis(200));
                }
            }
        }
    }

    /// Settles, and looks at everything. Prints what was done and found; panics with what is wrong.
    #[track_caller]
    pub fn end(mut self, most: Duration) {
        self.settle(most);
        let found = self.look();
        let names: Vec<String> = self.instances.iter().map(|instance| instance.name.clone()).collect();
        names.iter().for_each(|name| self.audit.take(&self.stage, &self.plan, name));
        let differing = self.audit.differing(&self.stage, &self.plan);
        Tally::of(self.name)
            .found(&found, self.stage.delivery)
            .with("states", self.audit.states() as u64)
            .with("states differing", differing.len() as u64)
            .done(&self)
            .tell();
        found.assert_clean(self.records);
        assert!(differing.is_empty(), "states differ from an uninterrupted fold:\n{}", differing.join("\n"));
        assert!(self.audit.states() > 0, "no state was compared");
    }

    pub fn look(&self) -> Findings {
        check(&self.stage)
    }
}
