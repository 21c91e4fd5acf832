//! The command line: what may be asked of the binary, and what is printed where. It starts nothing itself.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::app::{self, DemoOptions, ProduceOptions};
use crate::config::{Config, Mistakes, environment};
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
  EBB_HTTP__LISTEN=0.0.0.0:80 ebb serve ebb.yaml
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
    /// Run the embedded service with a synthetic click stream
    #[command(after_help = "Examples:\n  ebb demo\n  ebb demo --listen 127.0.0.1:9000 --rate 5000")]
    Demo(Demo),
    /// Produce a synthetic click stream to a topic
    #[command(
        after_help = "Examples:\n  ebb produce --brokers localhost:9092 --rate 5000\n  ebb produce --count 50000 --malformed 0.01"
    )]
    Produce(Produce),
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
    mistakes: Mistakes,
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
        if self.reference { Ok(Config::reference()) } else { Ok(self.source.load()?.effective()) }
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
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_declared_arguments_hold_together() {
        Arguments::command().debug_assert();
    }
}
