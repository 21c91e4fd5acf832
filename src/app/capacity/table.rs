//! The outlook as people read it.

use comfy_table::{Table, presets};

use super::{Choice, StreamOutlook};
use ebb_core::FilterSpec;
use ebb_sketch::filter::timing::{Drive, Layout};
use ebb_sketch::units::DurationMs;

pub(super) fn stream(stream: &StreamOutlook) -> String {
    let assumed = &stream.assumed;
    let planned = &stream.dedup[0];
    let rate = assumed.events_per_second.map(|rate| format!(", {} a second", short(rate))).unwrap_or_default();
    let partitions = match stream.partitions {
        1 => String::new(),
        partitions => format!(", in each of {partitions} partitions"),
    };
    format!(
        "stream {}: {} events in {}{rate}{partitions}; {} of them distinct\n  {}\n\n{}\n{}\n{}",
        stream.name,
        short(assumed.events_per_window),
        planned.window,
        percent(assumed.distinct_share),
        planned.layout,
        views(stream),
        choices(&stream.dedup),
        legend(stream),
    )
}

fn plain(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table
}

fn views(stream: &StreamOutlook) -> String {
    let mut table = plain(&["view", "memory", ""]);
    for view in &stream.views {
        table.add_row([&view.name, &bytes(view.memory_bytes), &view.note]);
    }
    let (all, partitions) = (stream.memory_bytes, stream.partitions);
    table.add_row(["together", &bytes(all), &format!("{} in {partitions} partitions", bytes(all * partitions))]);
    format!("{table}\n")
}

fn choices(choices: &[Choice]) -> String {
    let mut table = plain(&[
        "dedup",
        "memory",
        "bytes an item",
        "new, called duplicate",
        "penalty without",
        "standard",
        "posterior",
    ]);
    for choice in choices {
        let penalty = |pick: fn(&super::Penalty) -> f64| match &choice.penalty {
            Some(penalty) => short(1e6 * pick(penalty)),
            None => "-".into(),
        };
        table.add_row([
            choice.what.to_string(),
            bytes(choice.memory_bytes),
            short(choice.bytes_per_item),
            percent(choice.false_duplicate_share),
            penalty(|penalty| penalty.without_filter),
            penalty(|penalty| penalty.standard),
            penalty(|penalty| penalty.posterior),
        ]);
    }
    format!("{table}\n")
}

fn legend(stream: &StreamOutlook) -> String {
    let planned = &stream.dedup[0];
    let assumed = &stream.assumed;
    let mut lines = Vec::new();
    if planned.penalty.is_some() {
        lines.push(format!(
            "Penalties are expected for a million events, at {} for a false duplicate and {} for a missed one.",
            assumed.false_duplicate_penalty, assumed.missed_duplicate_penalty
        ));
        lines.push("The standard answer misses nothing; the posterior's penalty is forecast cautiously.".into());
    }
    if let Some(missed) = planned.missed_share {
        lines.push(format!("It forgets at random: {} of repeats are missed after a whole window.", percent(missed)));
    }
    if let Some(fill) = planned.fill {
        lines.push(format!("In the steady state {} of the cells are live.", percent(fill)));
    }
    lines.join("\n") + "\n"
}

/// The filter in words.
pub(super) fn layout(filter: &FilterSpec) -> String {
    match filter {
        FilterSpec::Timing { spec, .. } => {
            let place = match spec.layout() {
                Layout::Lines(_) => "in one 64-byte line",
                Layout::Spread(_) => "anywhere",
            };
            let block = match spec.drive() {
                Drive::Time { tick_ms, .. } => DurationMs(tick_ms).to_string(),
                Drive::Count { block, .. } => format!("{block} events"),
            };
            let (bits, cells, blocks) = (spec.timer_bits(), spec.cells_per_item(), spec.oldest_live_age());
            format!("timing filter: {bits}-bit timers, {cells} cells an item {place}, {blocks} blocks of {block}")
        }
        FilterSpec::Fading { spec, .. } => {
            let (top, hashes) = (spec.top(), spec.places().hashes());
            format!("filter that forgets at random: cells up to {top}, {hashes} cells an item")
        }
        FilterSpec::Classic { hashes, .. } => format!("classic Bloom filter: {hashes} cells an item, never forgets"),
    }
}

fn bytes(bytes: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{} {name}", short(bytes as f64 / *unit as f64)),
        None => format!("{bytes} B"),
    }
}

fn percent(share: f64) -> String {
    format!("{}%", short(100.0 * share))
}

/// Three digits that count.
fn short(number: f64) -> String {
    match number {
        0.0 => "0".into(),
        _ if number < 1e-3 => format!("{number:.1e}"),
        _ if number < 1.0 => format!("{number:.3}"),
        _ if number < 10.0 => format!("{number:.2}"),
        _ if number < 100.0 => format!("{number:.1}"),
        _ => grouped(number.round() as u64),
    }
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits_and_large_ones_are_grouped() {
        let shown = [0.0, 4.2e-7, 0.0123, 1.5, 12.34, 999.6, 172_800_000.0].map(short);
        assert_eq!(shown, ["0", "4.2e-7", "0.012", "1.50", "12.3", "1,000", "172,800,000"]);
    }
}
