//! The command line: what may be asked of the binary, and what is printed where. It starts nothing itself.

mod ask;
#[cfg(feature = "eval")]
mod eval;
mod plan;

pub use ask::{Aggregate, Asking, Decide, Question, Statistic};
#[cfg(feature = "eval")]
pub use eval::Eval;
pub use plan::{Planning, SeenWord};

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::app::{self, DemoOptions, ProduceOptions, ReferenceFormat};
use crate::config::{Config, ConfigErrors, environment};
use crate::kafka::properties;

/// Names the file when the command line does not.
const FILE_VARIABLE: &str = "EBB_CONFIG";

/// A forgetful memory for event streams: dedup decisions, posterior answers and decayed aggregates.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

const AFTER_HELP: &str = "\
Begin with two lines in ebb.yaml:
  streams:
    clicks: {event: {item: [ip, ad]}}

Examples:
  ebb demo                                  look at it with a synthetic click stream
  ebb check ebb.yaml                        every mistake at once, or a summary
  ebb serve ebb.yaml                        run it
  EBB_HTTP__LISTEN=127.0.0.1:80 ebb serve ebb.yaml
                                            any key can be set by a variable: EBB_ and its path, with __ between steps

Exit status: 0 done, 1 failed while running, 2 wrong usage or configuration.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the service until SIGTERM or Ctrl-C
    #[command(after_help = "Examples:\n  ebb serve ebb.yaml\n  EBB_CONFIG=ebb.yaml EBB_LOG__FORMAT=json ebb serve")]
    Serve(Source),
    /// Say whether a configuration is right, and what it amounts to
    #[command(after_help = "Examples:\n  ebb check ebb.yaml\n  ebb check ebb.yaml && kubectl apply -f …")]
    Check(Source),
    /// Print the configuration in force, with every default, secrets masked
    #[command(after_help = "Examples:\n  ebb config ebb.yaml\n  ebb config --reference | less")]
    Config(Show),
    /// Say what the service would decide about a file of events, and how right that is
    #[cfg(feature = "eval")]
    #[command(after_help = eval::EXAMPLES)]
    Eval(Eval),
    /// Ask the instance that runs here with this configuration whether it is ready
    #[command(after_help = "Examples:\n  ebb health ebb.yaml\n  HEALTHCHECK CMD [\"ebb\", \"health\"]")]
    Health(Source),
    /// Run the embedded service with a synthetic click stream
    #[command(after_help = "Examples:\n  ebb demo\n  ebb demo --listen 127.0.0.1:9000 --rate 5000")]
    Demo(Demo),
    /// Produce a synthetic click stream to a topic
    #[command(
        after_help = "Examples:\n  ebb produce --brokers localhost:9092 --rate 5000\n  ebb produce --count 50000 --malformed 0.01"
    )]
    Produce(Produce),
    /// Ask a running service: status, decide, frequency, aggregate, checkpoint
    #[command(
        after_help = "Examples:\n  ebb ask status clicks\n  ebb ask decide clicks '{\"ip\": \"10.1.2.3\", \"ad\": 7}' --window 10m\n  ebb ask decide clicks --record < events.jsonl\n  ebb ask aggregate clicks spend sum --decay window:1h --key cmp-0001\n  ebb ask --url https://ebb:8080 --token-file token frequency clicks '{\"ip\": \"10.1.2.3\", \"ad\": 7}' --json"
    )]
    Ask(Asking),
    /// Say what a window, a rate and a budget buy: layout, errors, penalties, memory
    #[command(
        after_help = "Examples:\n  ebb plan --window 24h --rate 2000 --memory 64MiB\n  ebb plan --window 24h --rate 2000 --error 0.001 --partitions 12\n  ebb plan ebb.yaml --rate 5000 --distinct 0.8 --json"
    )]
    Plan(Planning),
    /// Document every metric: name, type, labels, unit, meaning
    #[command(
        after_help = "Examples:\n  ebb metrics\n  ebb metrics --json | jq -r '.[] | select(.type == \"counter\") | .name'"
    )]
    Metrics(Catalog),
    /// Print completions for a shell
    #[command(
        after_help = "Examples:\n  ebb completions bash > /etc/bash_completion.d/ebb\n  ebb completions zsh > ~/.zfunc/_ebb"
    )]
    Completions(Completions),
}

#[derive(Debug, Args)]
pub struct Source {
    /// The YAML file; EBB_CONFIG names it when absent
    pub file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Show {
    #[command(flatten)]
    pub source: Source,
    /// Print every key with its documentation, form and default instead
    #[arg(long, conflicts_with = "file")]
    pub reference: bool,
    /// The reference as a Markdown document
    #[arg(long, requires = "reference")]
    pub markdown: bool,
}

#[derive(Debug, Args)]
pub struct Catalog {
    /// As a Markdown document
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// As JSON, for programs
    #[arg(long)]
    pub json: bool,
}

impl Catalog {
    /// What `ebb metrics` prints.
    pub fn text(&self) -> String {
        app::metrics_reference(match (self.markdown, self.json) {
            (true, _) => ReferenceFormat::Markdown,
            (_, true) => ReferenceFormat::Json,
            _ => ReferenceFormat::Table,
        })
    }
}

#[derive(Debug, Args)]
pub struct Completions {
    /// bash, elvish, fish, powershell or zsh
    pub shell: Shell,
}

impl Completions {
    /// The script that the shell is to read.
    pub fn text(&self) -> String {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "ebb", &mut script);
        String::from_utf8_lossy(&script).into_owned()
    }
}

#[derive(Debug, Args)]
pub struct Demo {
    /// Where it listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Synthetic clicks a second
    #[arg(long, value_name = "CLICKS", default_value_t = 3000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: u32,
    /// Where state is kept
    #[arg(long, value_name = "DIRECTORY", default_value = "data/demo")]
    pub data_dir: PathBuf,
}

#[derive(Debug, Args)]
pub struct Produce {
    /// The brokers to begin with
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:9092")]
    pub brokers: String,
    /// Where the clicks go; made when it is missing
    #[arg(long, default_value = "clicks")]
    pub topic: String,
    /// How many partitions a topic gets that is made
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub partitions: u32,
    /// Clicks a second; without it as many as the brokers take
    #[arg(long, value_name = "CLICKS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: Option<u32>,
    /// How many clicks in all; without it until it is stopped
    #[arg(long, value_name = "CLICKS")]
    pub count: Option<u64>,
    /// The same seed gives the same clicks
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Share of payloads that are damaged on purpose
    #[arg(long, value_name = "SHARE", default_value_t = 0.001)]
    pub malformed: f64,
}

impl From<Produce> for ProduceOptions {
    fn from(produce: Produce) -> Self {
        let Produce { brokers, topic, partitions, rate, count, seed, malformed } = produce;
        Self { brokers, topic, partitions, rate, count, seed, malformed }
    }
}

impl From<Demo> for DemoOptions {
    fn from(demo: Demo) -> Self {
        Self { listen: demo.listen, rate: demo.rate, data_dir: demo.data_dir }
    }
}

/// A configuration that cannot be used, with everything that is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {mistakes}")]
pub struct Refused {
    name: String,
    mistakes: ConfigErrors,
}

impl Source {
    /// The configuration of the file and the environment.
    pub fn load(&self) -> Result<Config, Refused> {
        let file = self.path();
        let refused = |mistakes| Refused { name: self.name(), mistakes };
        let variables = environment().map_err(refused)?;
        let config = Config::load(file.as_deref(), variables, properties::check).map_err(refused)?;
        app::verify(&config).map_err(refused)?;
        Ok(config)
    }

    /// How messages name it.
    pub fn name(&self) -> String {
        self.path().map_or_else(|| "the environment".into(), |path| path.display().to_string())
    }

    fn path(&self) -> Option<PathBuf> {
        self.file.clone().or_else(|| std::env::var_os(FILE_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from))
    }
}

impl Show {
    /// What `ebb config` prints.
    pub fn text(&self) -> Result<String, Refused> {
        match (self.reference, self.markdown) {
            (true, true) => Ok(app::configuration_markdown()),
            (true, false) => Ok(Config::reference()),
            (false, _) => Ok(self.source.load()?.effective()),
        }
    }
}

/// Prints to standard output; a reader that has seen enough is no failure.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declared_arguments_hold_together() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_says_what_it_does_and_shows_examples() {
        let command = Arguments::command();
        for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(command.get_about().is_some(), "{}", command.get_name());
            assert!(examples.contains(&format!("ebb {}", command.get_name())), "{}: {examples}", command.get_name());
        }
    }

    #[test]
    fn completions_name_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell, Shell::Elvish] {
            let script = Completions { shell }.text();
            for command in Arguments::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }
}
