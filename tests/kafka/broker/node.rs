//! One broker process: started, ended in every way a process can end, and started again on the same port and data.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use super::process::{Process, tail};
use super::tools;

const TEMPLATE: &str = include_str!("../../../scripts/kafka/server.properties");
const LOG_TAIL_LINES: usize = 60;

/// Where a node is, and what it is told.
#[derive(Debug, Clone)]
pub struct Place {
    pub number: usize,
    pub port: u16,
    pub internal_port: u16,
    pub controller_port: u16,
    /// What clients are told: the port of a proxy, or the node's own.
    pub advertised_port: u16,
    /// Holds data, configuration and log.
    pub folder: PathBuf,
}

/// A node, running or not. Ended when dropped, and also when the process that started it dies.
#[derive(Debug)]
pub struct Node {
    pub place: Place,
    process: Option<Process>,
}

impl Place {
    fn properties(&self) -> PathBuf {
        self.folder.join("server.properties")
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("broker.log")
    }
}

impl Node {
    /// Writes the configuration of a node with fresh, formatted storage; does not start it. What stands in braces is
    /// filled in also in the `extra` properties.
    pub fn prepare(place: Place, voters: &str, nodes: usize, cluster: &str, extra: &[(&str, &str)]) -> Self {
        let _ = fs::remove_dir_all(&place.folder);
        fs::create_dir_all(&place.folder).expect("a folder for the broker");
        let mut properties = TEMPLATE.to_owned();
        extra.iter().for_each(|(name, value)| properties.push_str(&format!("{name}={value}\n")));
        for (name, value) in [
            ("node", place.number.to_string()),
            ("port", place.port.to_string()),
            ("internal_port", place.internal_port.to_string()),
            ("controller_port", place.controller_port.to_string()),
            ("advertised_port", place.advertised_port.to_string()),
            ("voters", voters.to_owned()),
            ("data", place.data().display().to_string()),
            ("replicas", nodes.to_string()),
            ("in_sync", nodes.min(2).to_string()),
        ] {
            properties = properties.replace(&format!("{{{name}}}"), &value);
        }
        fs::write(place.properties(), properties).expect("the broker's configuration");
        let node = Self { place, process: None };
        node.format(nodes, cluster);
        node
    }

    /// Fresh storage: a copy of what was formatted once, because a formatter takes seconds to start.
    fn format(&self, nodes: usize, cluster: &str) {
        let (blank, data) = (tools::root().join(format!("blank/{}-of-{nodes}", self.place.number)), self.place.data());
        if blank.exists() {
            return copy_tree(&blank, &data);
        }
        let mut format = tools::java();
        format.args(["kafka.tools.StorageTool", "format", "-t", cluster, "-c"]).arg(self.place.properties());
        let formatted = format.stdin(Stdio::null()).output().expect("java starts");
        let said = [formatted.stdout, formatted.stderr].concat();
        assert!(formatted.status.success(), "storage could not be formatted: {}", String::from_utf8_lossy(&said));
        let draft = blank.with_extension("draft");
        let _ = fs::remove_dir_all(&draft);
        copy_tree(&data, &draft);
        fs::rename(draft, blank).expect("formatted storage is kept");
    }

    /// Starts it on the port and the data it had. Does not wait.
    pub fn start(&mut self) {
        assert!(self.process.is_none(), "node {} is running", self.place.number);
        let mut broker = tools::java();
        broker.arg("kafka.Kafka").arg(self.place.properties());
        self.process = Some(Process::start(broker, &self.place.log()));
    }

    /// From its next start on clients find it on another port. It must not run.
    pub fn move_to(&mut self, port: u16) {
        assert!(self.process.is_none(), "node {} is running", self.place.number);
        let at = |port: u16| format!("PLAINTEXT://127.0.0.1:{port},");
        let properties = fs::read_to_string(self.place.properties()).expect("the broker's configuration");
        let moved = properties.replace(&at(self.place.port), &at(port));
        fs::write(self.place.properties(), moved).expect("the broker's configuration");
        (self.place.port, self.place.advertised_port) = (port, port);
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// SIGTERM, and waits until it has gone; kills it when that takes longer than `most`. Whether it went by itself.
    pub fn terminate(&mut self, most: Duration) -> bool {
        let Some(mut process) = self.process.take() else { return true };
        process.signal("TERM");
        process.wait_end(most).is_some()
    }

    /// SIGSTOP: connections stay, nothing answers.
    pub fn freeze(&mut self) {
        self.process.iter_mut().for_each(|process| process.signal("STOP"));
    }

    /// SIGCONT.
    pub fn thaw(&mut self) {
        self.process.iter_mut().for_each(|process| process.signal("CONT"));
    }

    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// Panics when the process has ended by itself.
    pub fn assert_alive(&mut self) {
        if let Some(status) = self.process.as_mut().and_then(Process::ended) {
            panic!("broker {} ended by itself: {status}\n{}", self.place.number, self.log_tail());
        }
    }

    /// The end of what the broker said.
    pub fn log_tail(&self) -> String {
        tail(&self.place.log(), LOG_TAIL_LINES)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() && self.process.is_some() {
            println!("the log of broker {} ends with:\n{}", self.place.number, self.log_tail());
        }
    }
}

/// Copies a folder with everything in it.
pub fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder for the copy");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}
