//! The real binary: started, killed, frozen, told to stop, and asked.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::broker::free_ports;
use crate::broker::process::{Process, tail};
use crate::stage::Stage;

const TAIL_LINES: usize = 30;
const TERMINATED: i32 = 15;

/// What is played with: the binary of this build, or a copy that `EBB_BINARY` names, so that a long run outlives the next
/// build.
fn binary() -> OsString {
    env::var_os("EBB_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_ebb").into())
}

/// One instance of the service, running or not, with its own data and log.
#[derive(Debug)]
pub struct Instance {
    pub name: String,
    port: u16,
    config: PathBuf,
    log: PathBuf,
    pub data: PathBuf,
    process: Option<Process>,
    /// What its log held when it was last started.
    log_bytes: u64,
    agent: ureq::Agent,
}

impl Instance {
    /// Writes its configuration; `kafka` lines go under `kafka:`.
    pub fn new(stage: &Stage, name: &str, kafka: &str) -> Self {
        let config = stage.file(&format!("{name}.yaml"));
        fs::write(&config, stage.configuration(name, &kafka.replace("{instance}", name))).expect("a configuration");
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(2)))
            .build()
            .new_agent();
        let (log, data) = (stage.file(&format!("{name}.log")), stage.file(name));
        Self { name: name.to_owned(), port: free_ports(1)[0], config, log, data, process: None, log_bytes: 0, agent }
    }

    /// Starts it, with further variables, unless it runs.
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
        self.log_bytes = self.log_length();
        self.process = Some(Process::start(command, &self.log));
    }

    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| process.ended().is_none())
    }

    /// The number of its process, while there is one.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// kill -9; whether there was something to kill.
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

    fn log_length(&self) -> u64 {
        fs::metadata(&self.log).map_or(0, |log| log.len())
    }

    /// SIGTERM; whether it ended well within `most`. One that has not said a word yet is ended by the signal itself.
    pub fn terminate(&mut self, most: Duration) -> bool {
        let Some(mut process) = self.process.take() else { return true };
        process.signal("TERM");
        let ended = process.wait_end(most);
        let is_mute = self.log_length() == self.log_bytes;
        ended.is_some_and(|status| status.success() || is_mute && status.signal() == Some(TERMINATED))
    }

    /// How it ended by itself; nothing when it still runs after `most`.
    pub fn wait_end(&mut self, most: Duration) -> Option<ExitStatus> {
        self.process.as_mut()?.wait_end(most)
    }

    /// Whether a probe answers 200.
    pub fn probe(&self, path: &str) -> bool {
        let asked = self.agent.get(format!("http://127.0.0.1:{}{path}", self.port)).call();
        asked.is_ok_and(|response| response.status() == 200)
    }

    /// Status and body of what stands at a path; nothing when nobody answers.
    pub fn ask(&self, path: &str) -> Option<(u16, String)> {
        let mut response = self.agent.get(format!("http://127.0.0.1:{}{path}", self.port)).call().ok()?;
        Some((response.status().as_u16(), response.body_mut().read_to_string().ok()?))
    }

    /// A metric without labels, where the instance answers.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let asked = self.agent.get(format!("http://127.0.0.1:{}/metrics", self.port)).call();
        let text = asked.ok()?.body_mut().read_to_string().ok()?;
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    pub fn log_tail(&self) -> String {
        tail(&self.log, TAIL_LINES)
    }

    pub fn log_text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the log of {} ends with:\n{}", self.name, self.log_tail());
        }
    }
}
