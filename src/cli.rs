//! The command line: arguments, help texts and output. The work is done in `app`.

mod ask;
#[cfg(feature = "eval")]
mod eval;
mod plan;

pub use ask::{AggregateArgs, AskArgs, AskCommand, DecideArgs};
#[cfg(feature = "eval")]
pub use eval::EvalArgs;
pub use plan::PlanArgs;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::app::{self, DemoOptions, ProduceOptions, ReferenceFormat};
use crate::config::{Config, ConfigErrors, environment};
use crate::kafka::properties;

/// The variable that names the configuration file if the command line does not.
const FILE_VARIABLE: &str = "EBB_CONFIG";

/// A forgetful memory for event streams: dedup decisions, posterior answers and decayed aggregates.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: CliCommand,
}

const AFTER_HELP: &str = "\
Start with two lines in ebb.yaml:
  streams:
    clicks: {event: {item: [ip, ad]}}

Examples:
  ebb demo                                  run it with a synthetic click stream
  ebb check ebb.yaml                        report all configuration errors, or a summary
  ebb serve ebb.yaml                        run the service
  EBB_HTTP__LISTEN=127.0.0.1:80 ebb serve ebb.yaml
                                            override a key: EBB_ and its path, with __ between names

Exit status: 0 success, 1 runtime failure, 2 invalid usage or configuration.";

#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Run the service until SIGTERM or Ctrl-C
    #[command(after_help = "Examples:\n  ebb serve ebb.yaml\n  EBB_CONFIG=ebb.yaml EBB_LOG__FORMAT=json ebb serve")]
    Serve(ConfigSource),
    /// Check a configuration and print a summary
    #[command(after_help = "Examples:\n  ebb check ebb.yaml\n  ebb check ebb.yaml && kubectl apply -f …")]
    Check(ConfigSource),
    /// Print the configuration in force: all values including defaults, secrets masked
    #[command(after_help = "Examples:\n  ebb config ebb.yaml\n  ebb config --reference | less")]
    Config(ConfigArgs),
    /// Evaluate the decisions of a configuration on a file of events
    #[cfg(feature = "eval")]
    #[command(after_help = eval::EXAMPLES)]
    Eval(EvalArgs),
    /// Check whether the local instance with this configuration is ready
    #[command(after_help = "Examples:\n  ebb health ebb.yaml\n  HEALTHCHECK CMD [\"ebb\", \"health\"]")]
    Health(ConfigSource),
    /// Run the embedded service with a synthetic click stream
    #[command(after_help = "Examples:\n  ebb demo\n  ebb demo --listen 127.0.0.1:9000 --rate 5000")]
    Demo(DemoArgs),
    /// Produce a synthetic click stream to a topic
    #[command(
        after_help = "Examples:\n  ebb produce --brokers localhost:9092 --rate 5000\n  ebb produce --count 50000 --malformed 0.01"
    )]
    Produce(ProduceArgs),
    /// Query a running service: status, decide, frequency, aggregate, checkpoint
    #[command(
        after_help = "Examples:\n  ebb ask status clicks\n  ebb ask decide clicks '{\"ip\": \"10.1.2.3\", \"ad\": 7}' --window 10m\n  ebb ask decide clicks --record < events.jsonl\n  ebb ask aggregate clicks spend sum --decay window:1h --key cmp-0001\n  ebb ask --url https://ebb:8080 --token-file token frequency clicks '{\"ip\": \"10.1.2.3\", \"ad\": 7}' --json"
    )]
    Ask(AskArgs),
    /// Plan capacity: layout, memory, error rates and penalties for a window and a rate
    #[command(
        after_help = "Examples:\n  ebb plan --window 24h --rate 2000 --memory 64MiB\n  ebb plan --window 24h --rate 2000 --error 0.001 --partitions 12\n  ebb plan ebb.yaml --rate 5000 --distinct 0.8 --json"
    )]
    Plan(PlanArgs),
    /// List all metrics: name, type, labels, unit, meaning
    #[command(
        after_help = "Examples:\n  ebb metrics\n  ebb metrics --json | jq -r '.[] | select(.type == \"counter\") | .name'"
    )]
    Metrics(MetricsArgs),
    /// Print a shell completion script
    #[command(
        after_help = "Examples:\n  ebb completions bash > /etc/bash_completion.d/ebb\n  ebb completions zsh > ~/.zfunc/_ebb"
    )]
    Completions(CompletionsArgs),
}

#[derive(Debug, Args)]
pub struct ConfigSource {
    /// The YAML file; by default the one named by EBB_CONFIG
    pub file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(flatten)]
    pub source: ConfigSource,
    /// Print the reference of all keys instead: documentation, syntax and default
    #[arg(long, conflicts_with = "file")]
    pub reference: bool,
    /// Print the reference as a Markdown document
    #[arg(long, requires = "reference")]
    pub markdown: bool,
}

#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// Print a Markdown document
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl MetricsArgs {
    /// The output of `ebb metrics`.
    pub fn text(&self) -> String {
        app::metrics_reference(match (self.markdown, self.json) {
            (true, _) => ReferenceFormat::Markdown,
            (_, true) => ReferenceFormat::Json,
            _ => ReferenceFormat::Table,
        })
    }
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// bash, elvish, fish, powershell or zsh
    pub shell: Shell,
}

impl CompletionsArgs {
    /// The output of `ebb completions`.
    pub fn text(&self) -> String {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "ebb", &mut script);
        String::from_utf8_lossy(&script).into_owned()
    }
}

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Address of the HTTP server
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Synthetic clicks per second
    #[arg(long, value_name = "CLICKS", default_value_t = 3000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: u32,
    /// Directory of the store
    #[arg(long, value_name = "DIRECTORY", default_value = "data/demo")]
    pub data_dir: PathBuf,
}

#[derive(Debug, Args)]
pub struct ProduceArgs {
    /// Bootstrap brokers
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:9092")]
    pub brokers: String,
    /// Topic of the clicks; created if it does not exist
    #[arg(long, default_value = "clicks")]
    pub topic: String,
    /// Number of partitions of a new topic
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub partitions: u32,
    /// Clicks per second; without it as many as the brokers accept
    #[arg(long, value_name = "CLICKS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: Option<u32>,
    /// Total number of clicks; without it until the process is stopped
    #[arg(long, value_name = "CLICKS")]
    pub count: Option<u64>,
    /// Seed of the generator
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Share of deliberately damaged payloads
    #[arg(long, value_name = "SHARE", default_value_t = 0.001)]
    pub malformed: f64,
}

impl From<ProduceArgs> for ProduceOptions {
    fn from(arguments: ProduceArgs) -> Self {
        let ProduceArgs { brokers, topic, partitions, rate, count, seed, malformed } = arguments;
        Self { brokers, topic, partitions, rate, count, seed, malformed }
    }
}

impl From<DemoArgs> for DemoOptions {
    fn from(arguments: DemoArgs) -> Self {
        let DemoArgs { listen, rate, data_dir } = arguments;
        Self { listen, rate, data_dir }
    }
}

/// An invalid configuration, with all its errors.
#[derive(Debug, thiserror::Error)]
#[error("{source_name}: {errors}")]
pub struct InvalidConfig {
    /// The file, or what else the configuration came from.
    source_name: String,
    errors: ConfigErrors,
}

impl ConfigSource {
    /// The configuration from the file and the environment.
    pub fn load(&self) -> Result<Config, InvalidConfig> {
        let file = self.path();
        let invalid = |errors| InvalidConfig { source_name: self.name(), errors };
        let variables = environment().map_err(invalid)?;
        let config = Config::load(file.as_deref(), variables, properties::check).map_err(invalid)?;
        app::verify(&config).map_err(invalid)?;
        Ok(config)
    }

    /// The name of the source in messages.
    pub fn name(&self) -> String {
        self.path().map_or_else(|| "the environment".into(), |path| path.display().to_string())
    }

    fn path(&self) -> Option<PathBuf> {
        self.file.clone().or_else(|| std::env::var_os(FILE_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from))
    }
}

impl ConfigArgs {
    /// The output of `ebb config`.
    pub fn text(&self) -> Result<String, InvalidConfig> {
        match (self.reference, self.markdown) {
            (true, true) => Ok(app::configuration_markdown()),
            (true, false) => Ok(Config::reference()),
            (false, _) => Ok(self.source.load()?.effective()),
        }
    }
}

/// Prints to standard output. A closed pipe is not an error.
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
    fn argument_declarations_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_has_a_description_and_examples() {
        let command = Arguments::command();
        for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(command.get_about().is_some(), "{}", command.get_name());
            assert!(examples.contains(&format!("ebb {}", command.get_name())), "{}: {examples}", command.get_name());
        }
    }

    #[test]
    fn completions_include_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell, Shell::Elvish] {
            let script = CompletionsArgs { shell }.text();
            for command in Arguments::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }
}
