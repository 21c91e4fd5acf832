//! One broker process that can be killed, terminated, suspended and restarted with the same port and data.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use super::process::{Process, tail};
use super::tools;

const TEMPLATE: &str = include_str!("../../../scripts/kafka/server.properties");
const LOG_TAIL_LINES: usize = 60;

/// Ports and directory of a node.
#[derive(Debug, Clone)]
pub struct NodeSpec {
    pub number: usize,
    pub port: u16,
    pub internal_port: u16,
    pub controller_port: u16,
    /// The port that clients are given: a proxy's or the node's own.
    pub advertised_port: u16,
    /// Holds data, configuration and log.
    pub directory: PathBuf,
}

/// A node, running or not. Its process ends when the node is dropped or the test process dies.
#[derive(Debug)]
pub struct Node {
    pub spec: NodeSpec,
    process: Option<Process>,
}

impl NodeSpec {
    fn properties(&self) -> PathBuf {
        self.directory.join("server.properties")
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn log(&self) -> PathBuf {
        self.directory.join("broker.log")
    }
}

impl Node {
    /// Writes the configuration and formats empty storage; does not start the node. Placeholders in braces are replaced
    /// in the `extra` properties too.
    pub fn prepare(spec: NodeSpec, voters: &str, nodes: usize, cluster: &str, extra: &[(&str, &str)]) -> Self {
        let _ = fs::remove_dir_all(&spec.directory);
        fs::create_dir_all(&spec.directory).expect("create the broker's directory");
        let mut properties = TEMPLATE.to_owned();
        extra.iter().for_each(|(name, value)| properties.push_str(&format!("{name}={value}\n")));
        for (name, value) in [
            ("node", spec.number.to_string()),
            ("port", spec.port.to_string()),
            ("internal_port", spec.internal_port.to_string()),
            ("controller_port", spec.controller_port.to_string()),
            ("advertised_port", spec.advertised_port.to_string()),
            ("voters", voters.to_owned()),
            ("data", spec.data().display().to_string()),
            ("replicas", nodes.to_string()),
            ("in_sync", nodes.min(2).to_string()),
        ] {
            properties = properties.replace(&format!("{{{name}}}"), &value);
        }
        fs::write(spec.properties(), properties).expect("write the broker's configuration");
        let node = Self { spec, process: None };
        node.format(nodes, cluster);
        node
    }

    /// Copies storage that was formatted once, because the format tool takes seconds to start.
    fn format(&self, nodes: usize, cluster: &str) {
        let (blank, data) = (tools::root().join(format!("blank/{}-of-{nodes}", self.spec.number)), self.spec.data());
        if blank.exists() {
            return copy_tree(&blank, &data);
        }
        let mut format = tools::java();
        format.args(["kafka.tools.StorageTool", "format", "-t", cluster, "-c"]).arg(self.spec.properties());
        let result = format.stdin(Stdio::null()).output().expect("start java");
        let output = [result.stdout, result.stderr].concat();
        assert!(result.status.success(), "formatting the storage failed: {}", String::from_utf8_lossy(&output));
        let draft = blank.with_extension("draft");
        let _ = fs::remove_dir_all(&draft);
        copy_tree(&data, &draft);
        fs::rename(draft, blank).expect("keep the formatted storage");
    }

    /// Starts the process with the node's port and data; does not wait until it is ready.
    pub fn start(&mut self) {
        assert!(self.process.is_none(), "node {} is already running", self.spec.number);
        let mut broker = tools::java();
        broker.arg("kafka.Kafka").arg(self.spec.properties());
        self.process = Some(Process::start(broker, &self.spec.log()));
    }

    /// Moves a stopped node to another port, effective from its next start.
    pub fn move_to(&mut self, port: u16) {
        assert!(self.process.is_none(), "node {} is running", self.spec.number);
        let listener = |port: u16| format!("PLAINTEXT://127.0.0.1:{port},");
        let properties = fs::read_to_string(self.spec.properties()).expect("read the broker's configuration");
        let moved = properties.replace(&listener(self.spec.port), &listener(port));
        fs::write(self.spec.properties(), moved).expect("write the broker's configuration");
        (self.spec.port, self.spec.advertised_port) = (port, port);
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// SIGTERM, then SIGKILL after `timeout`; returns whether the SIGTERM was enough.
    pub fn terminate(&mut self, timeout: Duration) -> bool {
        let Some(mut process) = self.process.take() else { return true };
        process.signal("TERM");
        process.wait_for_exit(timeout).is_some()
    }

    /// Panics if the process has exited on its own.
    pub fn assert_running(&mut self) {
        if let Some(status) = self.process.as_mut().and_then(Process::exit_status) {
            panic!("broker {} exited with {status}\n{}", self.spec.number, self.log_tail());
        }
    }

    pub fn log_tail(&self) -> String {
        tail(&self.spec.log(), LOG_TAIL_LINES)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() && self.process.is_some() {
            println!("end of the log of broker {}:\n{}", self.spec.number, self.log_tail());
        }
    }
}

/// Copies a directory recursively.
pub fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("create the copy's directory");
    for entry in fs::read_dir(from).expect("read the directory").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copy a file");
        }
    }
}
