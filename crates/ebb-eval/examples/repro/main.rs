//! Reproduces the papers' figures with the production code: `make repro`, or `cargo run --release --example repro -- NAME …`.

mod count_min;
mod frequency;
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
    ("frequency", frequency::run),
    ("robust", robust::run),
    ("order", order::run),
];

fn main() {
    let requested: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = requested.iter().find(|name| !ALL.iter().any(|(known, _)| known == name)) {
        let names: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
        eprintln!("repro: unknown name {unknown:?}; known names: {}", names.join(", "));
        std::process::exit(2);
    }
    for (_, run) in ALL.iter().filter(|(name, _)| requested.is_empty() || requested.iter().any(|one| one == name)) {
        run();
    }
    if report::has_missed_targets() {
        std::process::exit(1);
    }
}
