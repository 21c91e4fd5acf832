//! The papers' figures, from the product's own code: `make repro`, or `cargo run --release --example repro -- NAME …`.

mod counting;
mod order;
mod report;
mod robust;
mod streams;
mod timing;
mod variants;

/// Every reproduction by name; without arguments all of them run.
const ALL: &[(&str, fn())] = &[
    ("timing-penalties", timing::penalties),
    ("timing-priors", timing::priors),
    ("timing-memory", timing::memory),
    ("variants", variants::run),
    ("robust", robust::run),
    ("order", order::run),
];

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = wanted.iter().find(|name| !ALL.iter().any(|(known, _)| known == name)) {
        let names: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
        eprintln!("repro: no reproduction is called {unknown:?}; there are {}", names.join(", "));
        std::process::exit(2);
    }
    for (_, run) in ALL.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|w| w == name)) {
        run();
    }
    if report::missed() {
        std::process::exit(1);
    }
}
