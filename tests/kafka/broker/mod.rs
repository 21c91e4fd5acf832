//! A real Kafka cluster for one test: one node or three, KRaft, on free loopback ports, its data under
//! `target/kafka/<name>`.
//!
//! Promises: ready when `start` returns; nodes keep port and data over kill and restart; everything is ended when the
//! cluster is dropped, when the test panics and when the test process is killed; there is one cluster at a time on this
//! build's target directory, whoever asks. `KAFKA_BROKERS` names an existing cluster instead: tests that only use topics
//! run on it, tests that kill brokers say that they cannot.
#![allow(dead_code, reason = "each test binary uses its own part")]

mod admin;
mod node;
pub mod process;
pub mod tools;

pub use admin::Admin;
pub use node::{Node, Place, copy_tree};

use std::fs::{self, File};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

const READY_WITHIN: Duration = Duration::from_secs(300);
/// A cluster of another test has to end first.
const TURN_WITHIN: Duration = Duration::from_secs(1_800);
/// 16 bytes in the URL-safe Base64 of Kafka's identifiers.
const CLUSTER_ID: &str = "ZWJiLXRlc3QtY2x1c3Rlcg";

/// What to start.
#[derive(Debug, Clone)]
pub struct ClusterSpec<'a> {
    pub name: &'a str,
    pub nodes: usize,
    /// Further properties of every node.
    pub properties: &'a [(&'a str, &'a str)],
    /// The ports that clients are told instead of the nodes' own, one a node: where proxies listen.
    pub advertised: &'a [u16],
}

impl<'a> ClusterSpec<'a> {
    pub fn new(name: &'a str) -> Self {
        Self { name, nodes: 1, properties: &[], advertised: &[] }
    }
}

/// A running cluster. See the module.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    external: Option<String>,
    // Last: the next cluster starts when the nodes are gone.
    _turn: Option<File>,
}

impl Cluster {
    /// One node with nothing special, or the cluster that `KAFKA_BROKERS` names.
    pub fn start(name: &str) -> Self {
        Self::with(&ClusterSpec::new(name))
    }

    /// As the spec says, or the cluster that `KAFKA_BROKERS` names.
    pub fn with(spec: &ClusterSpec) -> Self {
        match std::env::var("KAFKA_BROKERS") {
            Ok(brokers) if !brokers.is_empty() => {
                let cluster = Self { nodes: Vec::new(), external: Some(brokers), _turn: None };
                cluster.wait_ready(1);
                cluster
            }
            _ => Self::own(spec),
        }
    }

    /// As the spec says, whatever `KAFKA_BROKERS` names: for tests that kill brokers.
    pub fn own(spec: &ClusterSpec) -> Self {
        Self::announced(spec, |_| {})
    }

    /// As [`Cluster::own`]; `announce` hears the node's ports before anything connects, so that proxies know them.
    pub fn announced(spec: &ClusterSpec, announce: impl FnOnce(&[Node])) -> Self {
        let turn = turn();
        let ports = free_ports(3 * spec.nodes);
        let voter = |node: usize| format!("{}@127.0.0.1:{}", node + 1, ports[3 * node + 1]);
        let voters = (0..spec.nodes).map(voter).collect::<Vec<_>>().join(",");
        let mut nodes: Vec<Node> = (0..spec.nodes)
            .map(|node| {
                let place = Place {
                    number: node + 1,
                    port: ports[3 * node],
                    internal_port: ports[3 * node + 2],
                    controller_port: ports[3 * node + 1],
                    advertised_port: spec.advertised.get(node).copied().unwrap_or(ports[3 * node]),
                    folder: tools::root().join(spec.name).join((node + 1).to_string()),
                };
                Node::prepare(place, &voters, spec.nodes, CLUSTER_ID, spec.properties)
            })
            .collect();
        announce(&nodes);
        nodes.iter_mut().for_each(Node::start);
        let mut cluster = Self { nodes, external: None, _turn: Some(turn) };
        cluster.settle();
        cluster
    }

    /// Whether its nodes may be killed.
    pub fn is_own(&self) -> bool {
        self.external.is_none()
    }

    /// Where clients begin: the nodes themselves, past any proxy.
    pub fn brokers(&self) -> String {
        let own =
            || self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.place.port)).collect::<Vec<_>>().join(",");
        self.external.clone().unwrap_or_else(own)
    }

    pub fn admin(&self) -> Admin {
        Admin::new(&self.brokers())
    }

    pub fn nodes(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    /// Starts whatever is down and waits until all nodes answer.
    pub fn restart(&mut self, node: usize) {
        self.nodes[node].kill();
        self.nodes[node].start();
        self.settle();
    }

    /// Waits until every node has joined; panics with the brokers' last words when one ends or it takes too long.
    pub fn settle(&mut self) {
        let begun = Instant::now();
        let (admin, wanted) = (self.admin(), self.nodes.len());
        while admin.broker_count() != Some(wanted) {
            self.nodes.iter_mut().for_each(Node::assert_alive);
            if begun.elapsed() > READY_WITHIN {
                let tails: Vec<String> = self.nodes.iter().map(Node::log_tail).collect();
                panic!("the cluster was not ready after {READY_WITHIN:?}:\n{}", tails.join("\n---\n"));
            }
        }
    }

    fn wait_ready(&self, least: usize) {
        let (begun, admin) = (Instant::now(), self.admin());
        while admin.broker_count().is_none_or(|count| count < least) {
            assert!(begun.elapsed() < READY_WITHIN, "no answer from {}", self.brokers());
        }
    }
}

/// Waits for our turn to run a cluster. The lock goes with the file.
fn turn() -> File {
    let root = tools::root();
    fs::create_dir_all(&root).expect("target/kafka");
    let file = File::options().create(true).append(true).open(root.join("turn.lock")).expect("a lock file");
    let begun = Instant::now();
    while file.try_lock().is_err() {
        assert!(begun.elapsed() < TURN_WITHIN, "another test kept its cluster for {TURN_WITHIN:?}");
        thread::sleep(Duration::from_millis(100));
    }
    file
}

/// Ports that were free a moment ago, below those that the system gives to outgoing connections: a client that tries to
/// reach a dead broker must neither take its port nor reach itself.
pub fn free_ports(count: usize) -> Vec<u16> {
    let mut seed = std::process::id() ^ clock_nanos();
    let mut held = Vec::new();
    while held.len() < count {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let port = 20_000 + (seed >> 16) as u16 % 12_000;
        held.extend(TcpListener::bind(("127.0.0.1", port)));
    }
    held.iter().map(|listener| listener.local_addr().expect("a bound address").port()).collect()
}

fn clock_nanos() -> u32 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos())
}
