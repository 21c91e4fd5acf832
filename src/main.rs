//! Arguments to configuration to the service to an exit status.

use std::process::ExitCode;

use clap::Parser;
use ebb::cli::{self, Arguments, Command, Refused};
use ebb::config::Config;
use ebb::{app, telemetry};

/// Records are freed by other threads than took them, here and in librdkafka, which gets this allocator too. The system's
/// own gives the memory of every transaction back to the kernel, and faults it in again for the next.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Wrong usage or configuration; clap leaves with the same.
const REFUSED: u8 = 2;

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<Refused>() => {
            eprintln!("{error}");
            ExitCode::from(REFUSED)
        }
        Err(error) => {
            eprintln!("ebb: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(source) => {
            let config = source.load()?;
            telemetry::start(&config.log)?;
            app::serve(config)
        }
        #[cfg(feature = "eval")]
        Command::Eval(eval) => eval.run(),
        Command::Health(source) => app::health(&source.load()?),
        Command::Demo(demo) => app::demo(demo.into()),
        Command::Produce(produce) => app::produce(&produce.into()),
        Command::Check(source) => {
            let config: Config = source.load()?;
            Ok(cli::print(&format!("{}: ok\n{}", source.name(), config.summary()))?)
        }
        Command::Config(show) => Ok(cli::print(&show.text()?)?),
        Command::Ask(asking) => asking.run(),
        Command::Plan(planning) => Ok(cli::print(&planning.text()?)?),
        Command::Metrics(catalog) => Ok(cli::print(&catalog.text())?),
        Command::Completions(completions) => Ok(cli::print(&completions.text())?),
    }
}
