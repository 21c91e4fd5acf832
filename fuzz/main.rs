//! Every decoder and parser under libFuzzer. One binary, one target a run: EBB_FUZZ names it; `EBB_FUZZ=list` lists them,
//! and EBB_FUZZ_SEEDS names a directory to which the target's seeds are written instead. See `scripts/fuzz/run.sh`.
//!
//! Built with `--cfg fuzzing` the codec does not compare checksums: what lies behind them is what is to be tried.
#![no_main]

mod states;
mod texts;

use std::path::Path;
use std::process::exit;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

/// What is tried, and from where the search begins.
trait Target: Sync + Send {
    fn name(&self) -> String;
    /// How many times as often as the slowest it is run.
    fn weight(&self) -> u32;
    fn seeds(&self) -> Vec<Vec<u8>>;
    fn run(&self, bytes: &[u8]);
}

fn targets() -> Vec<Box<dyn Target>> {
    texts::targets().into_iter().chain(states::targets()).collect()
}

fn chosen() -> &'static dyn Target {
    static CHOSEN: OnceLock<Box<dyn Target>> = OnceLock::new();
    CHOSEN.get_or_init(choose).as_ref()
}

fn choose() -> Box<dyn Target> {
    let wanted = std::env::var("EBB_FUZZ").unwrap_or_default();
    if wanted == "list" {
        targets().iter().for_each(|target| println!("{} {}", target.name(), target.weight()));
        exit(0);
    }
    let Some(target) = targets().into_iter().find(|target| target.name() == wanted) else {
        eprintln!("EBB_FUZZ={wanted:?} names no target; EBB_FUZZ=list lists them");
        exit(2);
    };
    if let Some(directory) = std::env::var_os("EBB_FUZZ_SEEDS") {
        for (index, seed) in target.seeds().iter().enumerate() {
            std::fs::write(Path::new(&directory).join(format!("seed-{index}")), seed).expect("seeds can be written");
        }
        exit(0);
    }
    target
}

fuzz_target!(init: { chosen(); }, |bytes: &[u8]| chosen().run(bytes));
