//! A real Kafka cluster for one test: one or three KRaft nodes on free loopback ports, with data under
//! `target/kafka/<name>`.
//!
//! The cluster is ready when `start` returns. Nodes keep their port and data over kills and restarts. All nodes end when
//! the cluster is dropped, when the test panics and when the test process is killed. Only one cluster runs at a time per
//! target directory. `KAFKA_BROKERS` selects an existing cluster instead: tests that only use topics run on it, tests
//! that kill brokers are skipped.
#![allow(dead_code, reason = "tests and benchmarks use different parts")]

mod admin;
mod node;
pub mod process;
pub mod tools;

pub use admin::Admin;
pub use node::{Node, NodeSpec, copy_tree};

use std::fs::{self, File};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

const READY_TIMEOUT: Duration = Duration::from_secs(300);
/// How long to wait for the cluster of another test to end.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1_800);
/// 16 bytes in the URL-safe Base64 of Kafka's identifiers.
const CLUSTER_ID: &str = "ZWJiLXRlc3QtY2x1c3Rlcg";

/// The cluster to start.
#[derive(Debug, Clone)]
pub struct ClusterSpec<'a> {
    pub name: &'a str,
    pub nodes: usize,
    /// Additional properties of every node.
    pub properties: &'a [(&'a str, &'a str)],
    /// Advertised ports, one per node, where a proxy stands between clients and broker; empty: the nodes' own ports.
    pub advertised: &'a [u16],
}

impl<'a> ClusterSpec<'a> {
    pub fn new(name: &'a str) -> Self {
        Self { name, nodes: 1, properties: &[], advertised: &[] }
    }
}

/// A running cluster, owned by the test or external.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    external: Option<String>,
    // Declared last: the lock is released after the nodes have ended.
    _lock: Option<File>,
}

impl Cluster {
    /// One node with default properties, or the cluster that `KAFKA_BROKERS` names.
    pub fn start(name: &str) -> Self {
        match std::env::var("KAFKA_BROKERS") {
            Ok(brokers) if !brokers.is_empty() => {
                let cluster = Self { nodes: Vec::new(), external: Some(brokers), _lock: None };
                cluster.wait_for_external();
                cluster
            }
            _ => Self::start_own(&ClusterSpec::new(name)),
        }
    }

    /// A cluster whose brokers the test may kill, even if `KAFKA_BROKERS` is set.
    pub fn start_own(spec: &ClusterSpec) -> Self {
        Self::start_behind_proxies(spec, |_| {})
    }

    /// Like [`Cluster::start_own`]; `connect_proxies` gets the nodes before they start, so that proxies know their ports.
    pub fn start_behind_proxies(spec: &ClusterSpec, connect_proxies: impl FnOnce(&[Node])) -> Self {
        let lock = lock_cluster();
        let ports = free_ports(3 * spec.nodes);
        let voter = |node: usize| format!("{}@127.0.0.1:{}", node + 1, ports[3 * node + 1]);
        let voters = (0..spec.nodes).map(voter).collect::<Vec<_>>().join(",");
        let mut nodes: Vec<Node> = (0..spec.nodes)
            .map(|node| {
                let node_spec = NodeSpec {
                    number: node + 1,
                    port: ports[3 * node],
                    internal_port: ports[3 * node + 2],
                    controller_port: ports[3 * node + 1],
                    advertised_port: spec.advertised.get(node).copied().unwrap_or(ports[3 * node]),
                    directory: tools::root().join(spec.name).join((node + 1).to_string()),
                };
                Node::prepare(node_spec, &voters, spec.nodes, CLUSTER_ID, spec.properties)
            })
            .collect();
        connect_proxies(&nodes);
        nodes.iter_mut().for_each(Node::start);
        let mut cluster = Self { nodes, external: None, _lock: Some(lock) };
        cluster.wait_until_ready();
        cluster
    }

    /// Bootstrap addresses of the nodes themselves, bypassing any proxy.
    pub fn brokers(&self) -> String {
        let own =
            || self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.spec.port)).collect::<Vec<_>>().join(",");
        self.external.clone().unwrap_or_else(own)
    }

    pub fn admin(&self) -> Admin {
        Admin::new(&self.brokers())
    }

    pub fn nodes(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    /// Waits until every node has joined; panics with the brokers' logs if one exits or the timeout passes.
    pub fn wait_until_ready(&mut self) {
        let begun = Instant::now();
        let (admin, expected) = (self.admin(), self.nodes.len());
        while admin.broker_count() != Some(expected) {
            self.nodes.iter_mut().for_each(Node::assert_running);
            if begun.elapsed() > READY_TIMEOUT {
                let tails: Vec<String> = self.nodes.iter().map(Node::log_tail).collect();
                panic!("the cluster was not ready after {READY_TIMEOUT:?}:\n{}", tails.join("\n---\n"));
            }
        }
    }

    fn wait_for_external(&self) {
        let (begun, admin) = (Instant::now(), self.admin());
        while admin.broker_count().is_none_or(|count| count == 0) {
            assert!(begun.elapsed() < READY_TIMEOUT, "no answer from {}", self.brokers());
        }
    }
}

/// Waits until no other test runs a cluster. Closing the file releases the lock.
fn lock_cluster() -> File {
    let root = tools::root();
    fs::create_dir_all(&root).expect("create target/kafka");
    let file = File::options().create(true).append(true).open(root.join("turn.lock")).expect("open the lock file");
    let begun = Instant::now();
    while file.try_lock().is_err() {
        assert!(begun.elapsed() < LOCK_TIMEOUT, "another test kept its cluster for {LOCK_TIMEOUT:?}");
        thread::sleep(Duration::from_millis(100));
    }
    file
}

/// Ports that were free a moment ago, below the ephemeral range: a client that reconnects to a dead broker must not be
/// given the broker's port as its own local port.
pub fn free_ports(count: usize) -> Vec<u16> {
    let mut seed = std::process::id() ^ clock_nanos();
    let mut listeners = Vec::new();
    while listeners.len() < count {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let port = 20_000 + (seed >> 16) as u16 % 12_000;
        listeners.extend(TcpListener::bind(("127.0.0.1", port)));
    }
    listeners.iter().map(|listener| listener.local_addr().expect("a bound address").port()).collect()
}

fn clock_nanos() -> u32 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos())
}
