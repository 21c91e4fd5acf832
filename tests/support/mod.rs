//! Starts, queries and kills the real binary.
#![allow(dead_code, reason = "each test binary uses some of it")]

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A port that was free a moment ago.
pub fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

/// A running `ebb serve`. Killed when dropped.
pub struct Ebb {
    pub child: Child,
    pub address: SocketAddr,
    agent: ureq::Agent,
}

impl Drop for Ebb {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ebb {
    /// Starts the service with a configuration file and `EBB_` variables.
    pub fn start(config: &Path, address: SocketAddr, variables: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ebb"))
            .arg("serve")
            .arg(config)
            .env("EBB_HTTP__LISTEN", address.to_string())
            .envs(variables.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let lines = BufReader::new(child.stderr.take().expect("its standard error is piped")).lines();
        // Its log is shown with the output of a failed test.
        thread::spawn(move || lines.map_while(Result::ok).for_each(|line| println!("  ebb: {line}")));
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(10)))
            .build()
            .new_agent();
        Self { child, address, agent }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Status and body of a GET; `None` without an answer.
    pub fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut response = self.agent.get(self.url(path)).call().ok()?;
        let status = response.status().as_u16();
        Some((status, response.body_mut().read_to_string().ok()?))
    }

    /// Status and body of a POST; `None` without an answer.
    pub fn post(&self, path: &str, body: &str) -> Option<(u16, serde_json::Value)> {
        let request = self.agent.post(self.url(path)).header("content-type", "application/json");
        let mut response = request.send(body).ok()?;
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string().ok()?;
        Some((status, serde_json::from_str(&text).ok()?))
    }

    /// Waits until the service is ready; panics if it ends or takes longer than `timeout`.
    pub fn wait_ready(&mut self, timeout: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < timeout {
            if let Some((200, _)) = self.get("/readyz") {
                return;
            }
            if let Some(status) = self.child.try_wait().expect("the child can be waited for") {
                panic!("the service ended: {status}");
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("not ready after {timeout:?}");
    }

    /// Sends SIGTERM; returns whether the service ended successfully within `timeout`.
    pub fn terminate(mut self, timeout: Duration) -> bool {
        let sent = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(sent.is_ok_and(|status| status.success()), "cannot send SIGTERM");
        let begun = Instant::now();
        while begun.elapsed() < timeout {
            if let Some(status) = self.child.try_wait().expect("the child can be waited for") {
                return status.success();
            }
            thread::sleep(Duration::from_millis(5));
        }
        false
    }

    /// Sends SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().expect("the child can be killed");
        self.child.wait().expect("the child can be waited for");
    }
}

/// Size of all files below a directory.
pub fn disk_bytes(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
