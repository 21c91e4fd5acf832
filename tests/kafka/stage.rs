//! What every scenario plays on: a cluster, the topics of one stream, its configuration, and the folder of its files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use ebb::config::Config;
use ebb_core::Plan;
use ebb_sketch::hash::HashKey;

use crate::broker::{Cluster, ClusterSpec, free_ports, tools};
use crate::proxy::Proxy;

pub const INPUT: &str = "clicks";
pub const VERDICTS: [&str; 4] = ["unique", "duplicate", "late", "rejected"];
const HASH_KEY: u128 = 0x0123_4567_89AB_CDEF_FEDC_BA98_7654_3210;

/// The window is short against the event time that a scenario plays, so that items are forgotten and seen again.
pub const WINDOW_MS: u64 = 120_000;
pub const LATENESS_MS: u64 = 15_000;
/// Timers of 4 bits tell 12 blocks apart, and one is left to the sweep.
pub const BLOCK_MS: u64 = (WINDOW_MS + LATENESS_MS).div_ceil(12);
/// A window holds some 30,000 items a partition, whose timers fill a ninth of the filter.
pub const FALSE_RATE: f64 = 0.000_5;

/// What readers of the outputs may rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    ExactlyOnce,
    AtLeastOnce,
}

impl Delivery {
    /// As the configuration and the checker write it.
    pub fn name(self) -> &'static str {
        match self {
            Delivery::ExactlyOnce => "exactly-once",
            Delivery::AtLeastOnce => "at-least-once",
        }
    }
}

/// See the module.
pub struct Stage {
    pub cluster: Cluster,
    /// Between the service and the broker, where a scenario asked for one; the harness itself goes past it.
    pub proxy: Option<Proxy>,
    pub partitions: usize,
    pub delivery: Delivery,
    pub folder: PathBuf,
}

/// What a stage is made of.
#[derive(Debug, Clone)]
pub struct StageSpec {
    pub name: &'static str,
    pub partitions: usize,
    pub nodes: usize,
    pub with_proxy: bool,
    pub delivery: Delivery,
    /// Further properties of every broker.
    pub properties: Vec<(&'static str, String)>,
}

impl StageSpec {
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

impl Stage {
    pub fn new(spec: &StageSpec) -> Self {
        let proxy = spec.with_proxy.then(|| Proxy::listen(free_ports(1)[0]));
        let advertised: Vec<u16> = proxy.iter().map(Proxy::port).collect();
        let properties: Vec<_> = spec.properties.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let cluster_spec = ClusterSpec {
            nodes: spec.nodes,
            properties: &properties,
            advertised: &advertised,
            ..ClusterSpec::new(spec.name)
        };
        let cluster = Cluster::announced(&cluster_spec, |nodes| {
            proxy.iter().zip(nodes).for_each(|(proxy, node)| proxy.point_at(node.place.port));
        });
        let folder = tools::root().join(spec.name).join("files");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for the scenario");
        fs::write(folder.join("hash.key"), format!("{HASH_KEY:032x}\n")).expect("a hash key");
        fs::set_permissions(folder.join("hash.key"), fs::Permissions::from_mode(0o600)).expect("a secret");
        let stage = Self { cluster, proxy, partitions: spec.partitions, delivery: spec.delivery, folder };
        stage.create_topics();
        stage
    }

    fn create_topics(&self) {
        let admin = self.cluster.admin();
        let for_ever = [("retention.ms", "-1")];
        admin.create_topic(INPUT, self.partitions, &for_ever);
        VERDICTS.iter().for_each(|verdict| admin.create_topic(&output(verdict), self.partitions, &for_ever));
    }

    /// Where the service under test begins.
    pub fn brokers(&self) -> String {
        self.proxy.as_ref().map_or_else(|| self.cluster.brokers(), Proxy::brokers)
    }

    /// The configuration of one instance; `extra` lines go under `kafka:`.
    pub fn configuration(&self, instance: &str, extra: &str) -> String {
        let (brokers, key) = (self.brokers(), self.folder.join("hash.key"));
        let outputs: Vec<String> = VERDICTS.iter().map(|verdict| format!("{verdict}: {}", output(verdict))).collect();
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
            data = self.folder.join(instance).display(),
            key = key.display(),
            delivery = self.delivery.name(),
            outputs = outputs.join(", "),
        )
    }

    /// What the configured shards compute: for whoever folds the same log without the service.
    pub fn plan(&self) -> Arc<Plan> {
        let text = self.configuration("reference", "");
        let config = Config::parse(&text, [], ebb::kafka::properties::check).unwrap_or_else(|error| panic!("{error}"));
        let key = HashKey::new(HASH_KEY.to_be_bytes());
        ebb::app::plan(&config.streams["clicks"], &config.limits, &key).expect("a plan")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

pub const GROUP: &str = "ebb";

/// The topic of a verdict.
pub fn output(verdict: &str) -> String {
    format!("{INPUT}.{verdict}")
}
