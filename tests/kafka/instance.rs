//! The real binary: started, killed, frozen, told to stop, and asked.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::broker::free_ports;
use crate::broker::process::{Process, tail};
use crate::stage::Stage;

const TAIL_LINES: usize = 30;

/// One instance of the service, running or not, with its own data and log.
#[derive(Debug)]
pub struct Instance {
    pub name: String,
    port: u16,
    config: PathBuf,
    log: PathBuf,
    pub data: PathBuf,
    process: Option<Process>,
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
        Self { name: name.to_owned(), port: free_ports(1)[0], config, log, data, process: None, agent }
    }

    /// Starts it, with further variables, unless it runs.
    pub fn start(&mut self, variables: &[(&str, &str)]) {
        if self.is_running() {
            return;
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
        command
            .arg("serve")
            .arg(&self.config)
            .env("EBB_HTTP__LISTEN", format!("127.0.0.1:{}", self.port))
            .envs(variables.iter().copied());
        self.process = Some(Process::start(command, &self.log));
    }

    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| process.ended().is_none())
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

    /// SIGTERM; whether it ended well within `most`.
    pub fn terminate(&mut self, most: Duration) -> bool {
        let Some(mut process) = self.process.take() else { return true };
        process.signal("TERM");
        process.wait_end(most).is_some_and(|status| status.success())
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
