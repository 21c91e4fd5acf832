//! Fuzz targets for every decoder and parser. EBB_FUZZ names the target of a run, `EBB_FUZZ=list` lists them. With
//! EBB_FUZZ_SEEDS the seeds of the target are written to that directory instead. `scripts/fuzz/run.sh` runs them all.
//!
//! With `--cfg fuzzing` the codec ignores checksums, so that the code behind them is reached.
#![no_main]

mod states;
mod texts;

use std::path::Path;
use std::process::exit;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

/// A decoder or parser with its seed inputs.
trait FuzzTarget: Sync + Send {
    fn name(&self) -> String;
    /// Number of executions relative to the slowest target.
    fn weight(&self) -> u32;
    fn seeds(&self) -> Vec<Vec<u8>>;
    fn run(&self, bytes: &[u8]);
}

fn targets() -> Vec<Box<dyn FuzzTarget>> {
    texts::targets().into_iter().chain(states::targets()).collect()
}

fn target() -> &'static dyn FuzzTarget {
    static TARGET: OnceLock<Box<dyn FuzzTarget>> = OnceLock::new();
    TARGET.get_or_init(select_target).as_ref()
}

fn select_target() -> Box<dyn FuzzTarget> {
    let requested = std::env::var("EBB_FUZZ").unwrap_or_default();
    if requested == "list" {
        targets().iter().for_each(|target| println!("{} {}", target.name(), target.weight()));
        exit(0);
    }
    let Some(target) = targets().into_iter().find(|target| target.name() == requested) else {
        eprintln!("unknown target EBB_FUZZ={requested:?}; EBB_FUZZ=list lists the targets");
        exit(2);
    };
    if let Some(directory) = std::env::var_os("EBB_FUZZ_SEEDS") {
        for (index, seed) in target.seeds().iter().enumerate() {
            std::fs::write(Path::new(&directory).join(format!("seed-{index}")), seed).expect("write the seeds");
        }
        exit(0);
    }
    target
}

fuzz_target!(init: { target(); }, |bytes: &[u8]| target().run(bytes));
