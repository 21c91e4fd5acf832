//! A scenario: a testbed, a feed, some instances, and counts of the injected faults.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ebb_core::Plan;
use ebb_sketch::random::Random;

use super::ScenarioSummary;
use crate::audit::CheckpointAudit;
use crate::feed::{Feed, FeedSpec};
use crate::instance::Instance;
use crate::log_lines::RESUMED_FROM_COMMITTED;
use crate::testbed::{TestBed, TestBedSpec, VERDICTS, output_topic};
use crate::wait::wait_until;

const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The scenario to start.
#[derive(Debug, Clone)]
pub struct ScenarioSpec {
    pub testbed: TestBedSpec,
    pub instances: usize,
    /// The minimum; a paced feed continues while the scenario runs.
    pub records: u64,
    /// `None`: all records are written before the first fault.
    pub per_second: Option<u64>,
    /// Lines under `kafka:` in every instance's configuration; `{instance}` is replaced by its name.
    pub kafka: &'static str,
    /// Environment variables of every instance.
    pub variables: Vec<(&'static str, String)>,
}

/// Members that leave the group when they stop and time out soon after a kill.
pub const DYNAMIC_MEMBERS: &str =
    "  properties: {session.timeout.ms: 3000, heartbeat.interval.ms: 500, reconnect.backoff.max.ms: 500}";
/// Members that keep their partitions over a quick restart.
const STATIC_MEMBERS: &str = "  instance: {instance}
  properties: {session.timeout.ms: 6000, heartbeat.interval.ms: 500, reconnect.backoff.max.ms: 500}";

impl ScenarioSpec {
    pub fn new(name: &'static str, records: u64) -> Self {
        Self {
            testbed: TestBedSpec::new(name),
            instances: 1,
            records,
            per_second: None,
            kafka: STATIC_MEMBERS,
            variables: Vec::new(),
        }
    }
}

/// A running scenario.
pub struct Scenario {
    // Declared first: the feed stops before the broker.
    feed: Option<Feed>,
    pub testbed: TestBed,
    pub instances: Vec<Instance>,
    pub random: Random,
    pub plan: Arc<Plan>,
    pub audit: CheckpointAudit,
    /// Counts of injected faults and other events by name.
    pub events: BTreeMap<&'static str, u64>,
    variables: Vec<(&'static str, String)>,
    records: u64,
    name: &'static str,
    pub begun: Instant,
}

impl Scenario {
    /// Starts the cluster and the feed, but no instance.
    pub fn start(spec: &ScenarioSpec) -> Self {
        let begun = Instant::now();
        let testbed = TestBed::new(&spec.testbed);
        let plan = testbed.plan();
        let instance = |number: usize| Instance::new(&testbed, &format!("ebb-{number}"), spec.kafka);
        let instances = (0..spec.instances).map(instance).collect();
        let feed = Feed::start(&testbed, FeedSpec { per_second: spec.per_second, ..FeedSpec::new(spec.records) });
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
            audit: CheckpointAudit::default(),
            events: BTreeMap::new(),
            variables: spec.variables.clone(),
            feed,
            records: spec.records,
            name: spec.testbed.name,
            begun,
            testbed,
        }
    }

    pub fn count_event(&mut self, name: &'static str) {
        self.count_events(name, 1);
    }

    pub fn count_events(&mut self, name: &'static str, count: u64) {
        *self.events.entry(name).or_default() += count;
    }

    pub fn event_count(&self, name: &str) -> u64 {
        self.events.get(name).copied().unwrap_or(0)
    }

    /// Starts an instance with additional environment variables.
    pub fn start_instance_with(&mut self, number: usize, extra: &[(&str, &str)]) {
        let mut variables: Vec<(&str, &str)> = self.variables.iter().map(|(name, value)| (*name, &**value)).collect();
        variables.extend_from_slice(extra);
        self.instances[number].start(&variables);
    }

    pub fn start_instance(&mut self, number: usize) {
        self.start_instance_with(number, &[]);
    }

    /// Starts every instance that does not run.
    pub fn start_all(&mut self) {
        (0..self.instances.len()).for_each(|number| self.start_instance(number));
    }

    /// Kills an instance with SIGKILL, and audits its store after every fifth kill.
    pub fn kill_instance(&mut self, number: usize) {
        if self.instances[number].kill() {
            self.count_event("kills");
            if self.event_count("kills").is_multiple_of(5) {
                self.collect_checkpoints(number);
            }
        }
    }

    pub fn collect_checkpoints(&mut self, number: usize) {
        self.audit.collect(&self.testbed, &self.plan, &self.instances[number].name);
    }

    /// Stops the broker with SIGKILL or SIGTERM and restarts it on the same port after `downtime`.
    pub fn restart_broker(&mut self, downtime: Duration) {
        let is_graceful = self.random.below(2) == 0;
        let node = &mut self.testbed.cluster.nodes()[0];
        if is_graceful {
            node.terminate(Duration::from_secs(30));
        } else {
            node.kill();
        }
        thread::sleep(downtime);
        self.testbed.cluster.nodes()[0].start();
        self.testbed.cluster.wait_until_ready();
        self.count_event("broker restarts");
    }

    /// How often an instance discarded uncommitted work.
    pub fn rollbacks(&self) -> u64 {
        self.instances.iter().map(|instance| instance.log_count(RESUMED_FROM_COMMITTED) as u64).sum()
    }

    #[track_caller]
    pub fn wait_until(&mut self, expectation: &str, timeout: Duration, condition: impl Fn(&Scenario) -> bool) {
        let begun = Instant::now();
        while !condition(self) {
            assert!(
                begun.elapsed() < timeout,
                "{expectation}: not within {timeout:?}\n{}",
                self.instances[0].log_tail()
            );
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Sleeps for a random time between two bounds.
    pub fn pause(&mut self, min_ms: u64, max_ms: u64) {
        thread::sleep(Duration::from_millis(min_ms + self.random.below(max_ms - min_ms)));
    }

    pub fn committed(&self) -> u64 {
        self.testbed.committed()
    }

    /// Waits until the group has committed `target` records.
    #[track_caller]
    pub fn wait_until_committed(&mut self, target: u64, timeout: Duration) {
        let begun = Instant::now();
        loop {
            let committed = self.committed();
            if committed >= target {
                return;
            }
            if begun.elapsed() > timeout {
                let tails: Vec<String> =
                    self.instances.iter().map(|one| format!("{}:\n{}", one.name, one.log_tail())).collect();
                panic!("{committed} of {target} committed after {timeout:?}\n{}", tails.join("\n"));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits until `count` more records are committed.
    #[track_caller]
    pub fn wait_for_progress(&mut self, count: u64, timeout: Duration) {
        let target = self.committed() + count;
        self.wait_until_committed(target, timeout);
    }

    /// Finishes the feed, waits until everything is committed and stops all instances.
    #[track_caller]
    fn drain_and_stop(&mut self, timeout: Duration) {
        if let Some(feed) = self.feed.take() {
            self.records = feed.finish();
        }
        self.instances.iter_mut().for_each(Instance::thaw);
        self.start_instance(0);
        self.wait_until_committed(self.records, timeout);
        for instance in &mut self.instances {
            if instance.is_running() {
                assert!(instance.terminate(SHUTDOWN_TIMEOUT), "{} did not stop on SIGTERM", instance.name);
            }
        }
        self.wait_until_transactions_end();
    }

    /// The broker aborts the transaction of a killed instance after the transaction timeout.
    fn wait_until_transactions_end(&self) {
        let admin = self.testbed.cluster.admin();
        for topic in VERDICTS.map(output_topic) {
            for partition in 0..self.testbed.partitions as i32 {
                wait_until(&format!("no open transaction in {topic}/{partition}"), SHUTDOWN_TIMEOUT, || {
                    admin.last_stable_offset(&topic, partition) == admin.watermarks(&topic, partition).1
                });
            }
        }
    }

    /// Drains the scenario, checks outputs and checkpoints, and prints the summary; panics if anything is wrong.
    #[track_caller]
    pub fn finish(mut self, timeout: Duration) {
        self.drain_and_stop(timeout);
        let findings = self.testbed.check();
        (0..self.instances.len()).for_each(|number| self.collect_checkpoints(number));
        let mismatches = self.audit.mismatches(&self.testbed, &self.plan);
        ScenarioSummary::new(self.name)
            .with_findings(&findings, self.testbed.delivery)
            .with("checkpoints", self.audit.count() as u64)
            .with("checkpoint mismatches", mismatches.len() as u64)
            .with_events(&self)
            .publish();
        findings.assert_clean(self.records);
        assert!(mismatches.is_empty(), "checkpoints differ from an uninterrupted fold:\n{}", mismatches.join("\n"));
        assert!(self.audit.count() > 0, "no checkpoint was compared");
    }
}
