//! The binary: parses arguments, runs the command and maps errors to exit statuses.

use std::process::ExitCode;

use clap::Parser;
use ebb::cli::{self, Arguments, CliCommand, InvalidConfig};
use ebb::config::Config;
use ebb::{app, telemetry};

/// Records are freed by other threads than those that allocated them, also in librdkafka, which uses this allocator too.
/// The system's allocator returns the memory of every transaction to the kernel, which costs page faults in the next one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit status for invalid usage or configuration; clap uses the same.
const INVALID_USAGE: u8 = 2;

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<InvalidConfig>() => {
            eprintln!("{error}");
            ExitCode::from(INVALID_USAGE)
        }
        Err(error) => {
            eprintln!("ebb: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: CliCommand) -> anyhow::Result<()> {
    match command {
        CliCommand::Serve(source) => {
            let config = source.load()?;
            telemetry::start(&config.log)?;
            app::serve(config)
        }
        #[cfg(feature = "eval")]
        CliCommand::Eval(arguments) => arguments.run(),
        CliCommand::Health(source) => app::health(&source.load()?),
        CliCommand::Demo(arguments) => app::demo(arguments.into()),
        CliCommand::Produce(arguments) => app::produce(&arguments.into()),
        CliCommand::Check(source) => {
            let config: Config = source.load()?;
            Ok(cli::print(&format!("{}: ok\n{}", source.name(), config.summary()))?)
        }
        CliCommand::Config(arguments) => Ok(cli::print(&arguments.text()?)?),
        CliCommand::Ask(arguments) => arguments.run(),
        CliCommand::Plan(arguments) => Ok(cli::print(&arguments.text()?)?),
        CliCommand::Metrics(arguments) => Ok(cli::print(&arguments.text())?),
        CliCommand::Completions(arguments) => Ok(cli::print(&arguments.text())?),
    }
}
