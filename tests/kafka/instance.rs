//! An instance of the real binary with its own configuration, data directory and log.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::broker::free_ports;
use crate::broker::process::{Process, tail};
use crate::testbed::TestBed;

const LOG_TAIL_LINES: usize = 30;
const SIGTERM: i32 = 15;

/// The binary of this build, or the one that `EBB_BINARY` names, so that a long run survives the next build.
fn binary() -> OsString {
    env::var_os("EBB_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_ebb").into())
}

/// An instance of the service, running or not.
#[derive(Debug)]
pub struct Instance {
    pub name: String,
    port: u16,
    config: PathBuf,
    log: PathBuf,
    pub data: PathBuf,
    process: Option<Process>,
    /// The length of the log before the last start.
    log_bytes_before_start: u64,
    agent: ureq::Agent,
}

impl Instance {
    /// Writes the instance's configuration with the `kafka` lines under `kafka:`.
    pub fn new(testbed: &TestBed, name: &str, kafka: &str) -> Self {
        let config = testbed.file(&format!("{name}.yaml"));
        let text = testbed.configuration(name, &kafka.replace("{instance}", name));
        fs::write(&config, text).expect("write the configuration");
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(2)))
            .build()
            .new_agent();
        Self {
            name: name.to_owned(),
            port: free_ports(1)[0],
            config,
            log: testbed.file(&format!("{name}.log")),
            data: testbed.file(name),
            process: None,
            log_bytes_before_start: 0,
            agent,
        }
    }

    /// Starts the process unless it runs.
    pub fn start(&mut self, variables: &[(&str, &str)]) {
        if self.is_running() {
            return;
        }
        let mut command = Command::new(binary());
        command
            .arg("serve")
            .arg(&self.config)
            .env("EBB_HTTP__LISTEN", format!("127.0.0.1:{}", self.port))
            .envs(variables.iter().copied());
        self.log_bytes_before_start = self.log_bytes();
        self.process = Some(Process::start(command, &self.log));
    }

    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| process.exit_status().is_none())
    }

    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// SIGKILL; returns whether the process was running.
    pub fn kill(&mut self) -> bool {
        let was_running = self.is_running();
        self.process = None;
        was_running
    }

    /// SIGSTOP.
    pub fn freeze(&mut self) {
        self.process.iter_mut().for_each(|process| process.signal("STOP"));
    }

    /// SIGCONT.
    pub fn thaw(&mut self) {
        self.process.iter_mut().for_each(|process| process.signal("CONT"));
    }

    fn log_bytes(&self) -> u64 {
        fs::metadata(&self.log).map_or(0, |log| log.len())
    }

    /// SIGTERM; returns whether the process exited successfully within `timeout`. A process that has logged nothing yet
    /// has not installed its signal handler, so that the signal itself may end it.
    pub fn terminate(&mut self, timeout: Duration) -> bool {
        let Some(mut process) = self.process.take() else { return true };
        process.signal("TERM");
        let status = process.wait_for_exit(timeout);
        let has_no_handler = self.log_bytes() == self.log_bytes_before_start;
        status.is_some_and(|status| status.success() || has_no_handler && status.signal() == Some(SIGTERM))
    }

    /// The exit status, or `None` if the process still runs after `timeout`.
    pub fn wait_for_exit(&mut self, timeout: Duration) -> Option<ExitStatus> {
        self.process.as_mut()?.wait_for_exit(timeout)
    }

    /// Whether a probe returns 200.
    pub fn probe(&self, path: &str) -> bool {
        self.get(path).is_some_and(|(status, _)| status == 200)
    }

    pub fn is_ready(&self) -> bool {
        self.probe("/readyz")
    }

    /// Status and body of a GET, or `None` without a response.
    pub fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut response = self.agent.get(format!("http://127.0.0.1:{}{path}", self.port)).call().ok()?;
        Some((response.status().as_u16(), response.body_mut().read_to_string().ok()?))
    }

    /// The value of a metric without labels.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let (_, text) = self.get("/metrics")?;
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    pub fn log_tail(&self) -> String {
        tail(&self.log, LOG_TAIL_LINES)
    }

    pub fn log_text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// How often the log contains a message.
    pub fn log_count(&self, message: &str) -> usize {
        self.log_text().matches(message).count()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("end of the log of {}:\n{}", self.name, self.log_tail());
        }
    }
}
