//! A process that never outlives whoever started it.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Ended when dropped, and also when our own process is killed.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Kills the child once our end of its standard input is closed, however we ended.
    warden: Child,
}

impl Process {
    /// Starts it; what it says goes to the end of `log`.
    pub fn start(mut command: Command, log: &Path) -> Self {
        let log = File::options().create(true).append(true).open(log).expect("a log file");
        let out = log.try_clone().expect("a log file");
        let child = command.stdin(Stdio::null()).stdout(out).stderr(log).spawn();
        let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let script = format!("cat >/dev/null; kill -9 {}", child.id());
        let warden = Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
        Self { child, warden: warden.expect("a shell starts") }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended; nothing while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Waits for its end.
    pub fn wait_end(&mut self, most: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        loop {
            match self.ended() {
                None if begun.elapsed() < most => std::thread::sleep(Duration::from_millis(5)),
                ended => return ended,
            }
        }
    }

    /// Sends a signal, unless it has ended.
    pub fn signal(&mut self, name: &str) {
        if self.ended().is_none() {
            let sent = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status();
            assert!(sent.is_ok_and(|status| status.success()), "SIG{name}");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The warden first: once the child is gone its number may belong to somebody else.
        let _ = (self.warden.kill(), self.warden.wait());
        let _ = (self.child.kill(), self.child.wait());
    }
}

/// The last lines of a log.
pub fn tail(log: &Path, lines: usize) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
