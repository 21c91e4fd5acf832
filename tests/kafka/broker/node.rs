//! One broker process: started, ended in every way a process can end, and started again on the same port and data.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::tools;

const TEMPLATE: &str = include_str!("../../../scripts/kafka/server.properties");
const LOG_TAIL_LINES: usize = 60;

/// Where a node is, and what it is told.
#[derive(Debug, Clone)]
pub struct Place {
    pub number: usize,
    pub port: u16,
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
    process: Option<Running>,
}

#[derive(Debug)]
struct Running {
    broker: Child,
    /// Kills the broker once our end of its standard input is closed, however we ended.
    warden: Child,
}

impl Running {
    fn start(place: &Place) -> Self {
        let log = File::options().create(true).append(true).open(place.log()).expect("the broker's log");
        let mut broker = tools::java();
        broker.arg("kafka.Kafka").arg(place.properties());
        let broker = broker
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the broker's log"))
            .stderr(log)
            .spawn()
            .expect("java starts");
        let script = format!("cat >/dev/null; kill -9 {}", broker.id());
        let warden = Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
        Self { broker, warden: warden.expect("a shell starts") }
    }

    fn end(mut self) {
        // The warden first: once the broker is gone its number may belong to somebody else.
        let _ = self.warden.kill();
        let _ = self.warden.wait();
        let _ = self.broker.kill();
        let _ = self.broker.wait();
    }
}

impl Place {
    fn properties(&self) -> PathBuf {
        self.folder.join("server.properties")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("broker.log")
    }
}

impl Node {
    /// Writes the configuration of a node with fresh, formatted storage; does not start it.
    pub fn prepare(place: Place, voters: &str, nodes: usize, cluster: &str, extra: &[(&str, &str)]) -> Self {
        let _ = fs::remove_dir_all(&place.folder);
        fs::create_dir_all(&place.folder).expect("a folder for the broker");
        let mut properties = TEMPLATE.to_owned();
        for (name, value) in [
            ("node", place.number.to_string()),
            ("port", place.port.to_string()),
            ("controller_port", place.controller_port.to_string()),
            ("advertised_port", place.advertised_port.to_string()),
            ("voters", voters.to_owned()),
            ("data", place.folder.join("data").display().to_string()),
            ("replicas", nodes.to_string()),
            ("in_sync", nodes.min(2).to_string()),
        ] {
            properties = properties.replace(&format!("{{{name}}}"), &value);
        }
        extra.iter().for_each(|(name, value)| properties.push_str(&format!("{name}={value}\n")));
        fs::write(place.properties(), properties).expect("the broker's configuration");
        let mut format = tools::java();
        format.args(["kafka.tools.StorageTool", "format", "-t", cluster, "-c"]).arg(place.properties());
        let formatted = format.stdin(Stdio::null()).output().expect("java starts");
        assert!(
            formatted.status.success(),
            "storage could not be formatted: {}{}",
            String::from_utf8_lossy(&formatted.stdout),
            String::from_utf8_lossy(&formatted.stderr)
        );
        Self { place, process: None }
    }

    /// Starts it on the port and the data it had. Does not wait.
    pub fn start(&mut self) {
        assert!(self.process.is_none(), "node {} is running", self.place.number);
        self.process = Some(Running::start(&self.place));
    }

    /// kill -9.
    pub fn kill(&mut self) {
        if let Some(running) = self.process.take() {
            running.end();
        }
    }

    /// SIGTERM, and waits until it has gone; kills it when that takes longer than `most`. Whether it went by itself.
    pub fn terminate(&mut self, most: Duration) -> bool {
        let Some(mut running) = self.process.take() else { return true };
        signal(running.broker.id(), "TERM");
        let begun = Instant::now();
        let went = loop {
            match running.broker.try_wait() {
                Ok(Some(_)) => break true,
                _ if begun.elapsed() > most => break false,
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        running.end();
        went
    }

    /// SIGSTOP: connections stay, nothing answers.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// SIGCONT.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let running = self.process.as_ref().unwrap_or_else(|| panic!("node {} is not running", self.place.number));
        signal(running.broker.id(), name);
    }

    /// Panics when the process has ended by itself.
    pub fn assert_alive(&mut self) {
        let Some(running) = &mut self.process else { return };
        if let Ok(Some(status)) = running.broker.try_wait() {
            panic!("broker {} ended by itself: {status}\n{}", self.place.number, self.log_tail());
        }
    }

    /// The end of what the broker said.
    pub fn log_tail(&self) -> String {
        let log = fs::read(self.place.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() && self.process.is_some() {
            println!("the log of broker {} ends with:\n{}", self.place.number, self.log_tail());
        }
        self.kill();
    }
}

/// Sends a signal to a process of ours.
pub fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status().expect("kill runs");
    assert!(sent.success(), "SIG{name} to {process}");
}
