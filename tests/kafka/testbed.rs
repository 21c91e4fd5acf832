//! The environment of a scenario: a cluster, the topics and configuration of one stream, and a directory of files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ebb::config::Config;
use ebb_core::Plan;
use ebb_sketch::hash::HashKey;

use crate::broker::{Cluster, ClusterSpec, free_ports, tools};
use crate::checker::{CheckerSpec, Findings, run_checker};
use crate::proxy::Proxy;
use crate::wait::wait_until;

pub const INPUT: &str = "clicks";
pub const GROUP: &str = "ebb";
pub const VERDICTS: [&str; 4] = ["unique", "duplicate", "late", "rejected"];
const HASH_KEY: u128 = 0x0123_4567_89AB_CDEF_FEDC_BA98_7654_3210;

/// Short against the event time of a scenario, so that items expire and occur again.
pub const WINDOW_MS: u64 = 120_000;
pub const LATENESS_MS: u64 = 15_000;
/// A 4-bit timer distinguishes 12 blocks; one more is reserved for the sweep.
pub const BLOCK_MS: u64 = (WINDOW_MS + LATENESS_MS).div_ceil(12);
/// For about 30,000 items per window and partition, which fill a ninth of the filter.
pub const FALSE_RATE: f64 = 0.000_5;

/// The delivery guarantee of the outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    ExactlyOnce,
    AtLeastOnce,
}

impl Delivery {
    /// The name in the configuration of service and checker.
    pub fn name(self) -> &'static str {
        match self {
            Delivery::ExactlyOnce => "exactly-once",
            Delivery::AtLeastOnce => "at-least-once",
        }
    }
}

/// A running cluster with the topics of one stream.
pub struct TestBed {
    pub cluster: Cluster,
    /// Between the service and the broker, if requested; the test itself connects to the broker directly.
    pub proxy: Option<Proxy>,
    pub partitions: usize,
    pub delivery: Delivery,
    pub directory: PathBuf,
}

/// The environment to create.
#[derive(Debug, Clone)]
pub struct TestBedSpec {
    pub name: &'static str,
    pub partitions: usize,
    pub nodes: usize,
    pub with_proxy: bool,
    pub delivery: Delivery,
    /// Additional properties of every broker.
    pub properties: Vec<(&'static str, String)>,
}

impl TestBedSpec {
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            partitions: 4,
            nodes: 1,
            with_proxy: false,
            delivery: Delivery::ExactlyOnce,
            properties: Vec::new(),
        }
    }
}

impl TestBed {
    pub fn new(spec: &TestBedSpec) -> Self {
        let proxy = spec.with_proxy.then(|| Proxy::listen(free_ports(1)[0]));
        let advertised: Vec<u16> = proxy.iter().map(Proxy::port).collect();
        let properties: Vec<_> = spec.properties.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let cluster_spec = ClusterSpec {
            nodes: spec.nodes,
            properties: &properties,
            advertised: &advertised,
            ..ClusterSpec::new(spec.name)
        };
        let cluster = Cluster::start_behind_proxies(&cluster_spec, |nodes| {
            proxy.iter().zip(nodes).for_each(|(proxy, node)| proxy.set_upstream(node.spec.port));
        });
        let directory = tools::root().join(spec.name).join("files");
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("create the scenario's directory");
        let key_file = directory.join("hash.key");
        fs::write(&key_file, format!("{HASH_KEY:032x}\n")).expect("write the hash key");
        fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600)).expect("protect the hash key");
        let testbed = Self { cluster, proxy, partitions: spec.partitions, delivery: spec.delivery, directory };
        testbed.create_topics();
        testbed
    }

    fn create_topics(&self) {
        let admin = self.cluster.admin();
        let unlimited = [("retention.ms", "-1")];
        admin.create_topic(INPUT, self.partitions, &unlimited);
        VERDICTS.iter().for_each(|verdict| admin.create_topic(&output_topic(verdict), self.partitions, &unlimited));
    }

    /// Bootstrap addresses of the service under test.
    pub fn brokers(&self) -> String {
        self.proxy.as_ref().map_or_else(|| self.cluster.brokers(), Proxy::brokers)
    }

    /// The configuration of one instance with `extra` lines under `kafka:`.
    pub fn configuration(&self, instance: &str, extra: &str) -> String {
        let (brokers, key) = (self.brokers(), self.directory.join("hash.key"));
        let outputs: Vec<String> =
            VERDICTS.iter().map(|verdict| format!("{verdict}: {}", output_topic(verdict))).collect();
        format!(
            "data_dir: {data}
hash_key_file: {key}
workers: 2
log: {{level: info}}
checkpoint: {{every: 300ms}}
kafka:
  brokers: {brokers}
  group: {GROUP}
  start: earliest
  commit_every: 50ms
{extra}
streams:
  clicks:
    topic: {INPUT}
    event: {{item: [ip, ad, user], key: campaign, time: ts, id: click_id, value: cost, importance: tier}}
    dedup: {{window: {WINDOW_MS}ms, lateness: {LATENESS_MS}ms, memory: 512KiB}}
    delivery: {delivery}
    output: {{{outputs}}}
",
            data = self.directory.join(instance).display(),
            key = key.display(),
            delivery = self.delivery.name(),
            outputs = outputs.join(", "),
        )
    }

    /// The plan of the configured stream, to fold its log without the service.
    pub fn plan(&self) -> Arc<Plan> {
        let text = self.configuration("reference", "");
        let config = Config::parse(&text, [], ebb::kafka::properties::check).unwrap_or_else(|error| panic!("{error}"));
        let key = HashKey::new(HASH_KEY.to_be_bytes());
        ebb::app::plan(&config.streams["clicks"], &config.limits, &key).expect("a valid plan")
    }

    /// Checks everything that the topics contain now.
    pub fn check(&self) -> Findings {
        run_checker(&CheckerSpec {
            cluster: &self.cluster,
            group: GROUP,
            input: INPUT,
            delivery: self.delivery,
            file: self.file("checker.json"),
        })
    }

    /// The sum of the group's committed offsets in the input topic.
    pub fn committed(&self) -> u64 {
        self.cluster.admin().committed(GROUP, INPUT).into_iter().flatten().sum::<i64>() as u64
    }

    #[track_caller]
    pub fn wait_until_committed(&self, target: u64, timeout: Duration) {
        wait_until(&format!("{target} records are committed"), timeout, || self.committed() >= target);
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// The output topic of a verdict.
pub fn output_topic(verdict: &str) -> String {
    format!("{INPUT}.{verdict}")
}
