//! A child process that never outlives the test process.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Killed when dropped, and also when the test process is killed.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// A shell that kills the child once its standard input closes, which happens however the test process ends.
    guard: Child,
}

impl Process {
    /// Starts the command and appends its output to `log`.
    pub fn start(mut command: Command, log: &Path) -> Self {
        let log = File::options().create(true).append(true).open(log).expect("open the log file");
        let out = log.try_clone().expect("duplicate the log file handle");
        let child = command.stdin(Stdio::null()).stdout(out).stderr(log).spawn();
        let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let script = format!("cat >/dev/null; kill -9 {}", child.id());
        let guard = Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
        Self { child, guard: guard.expect("start a shell") }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, or `None` while the process runs.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("wait for the child")
    }

    /// The exit status, or `None` if the process still runs after `timeout`.
    pub fn wait_for_exit(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        loop {
            match self.exit_status() {
                None if begun.elapsed() < timeout => std::thread::sleep(Duration::from_millis(5)),
                status => return status,
            }
        }
    }

    /// Sends a signal unless the process has exited.
    pub fn signal(&mut self, name: &str) {
        if self.exit_status().is_none() {
            let sent = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status();
            assert!(sent.is_ok_and(|status| status.success()), "sending SIG{name} failed");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The guard first: after the child has been reaped, its process id may belong to another process.
        let _ = (self.guard.kill(), self.guard.wait());
        let _ = (self.child.kill(), self.child.wait());
    }
}

/// The last lines of a log file.
pub fn tail(log: &Path, lines: usize) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
