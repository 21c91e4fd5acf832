//! The capacity plan as text tables.

use comfy_table::{Table, presets};

use super::{ExpectedPenalty, FilterForecast, ForgettingForecast, StreamCapacity};
use ebb_core::FilterSpec;
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::timing::ClockSpec;
use ebb_sketch::units::DurationMs;

pub(super) fn stream(stream: &StreamCapacity) -> String {
    let assumed = &stream.assumed;
    let planned = &stream.dedup[0];
    let rate = assumed.events_per_second.map(|rate| format!(", {} per second", short(rate))).unwrap_or_default();
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
        forecasts(&stream.dedup),
        legend(stream),
    )
}

fn plain(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table
}

fn views(stream: &StreamCapacity) -> String {
    let mut table = plain(&["view", "memory", ""]);
    for view in &stream.views {
        table.add_row([&view.name, &bytes(view.memory_bytes), &view.note]);
    }
    let (all, partitions) = (stream.memory_bytes, stream.partitions);
    table.add_row(["total", &bytes(all), &format!("{} in {partitions} partitions", bytes(all * partitions))]);
    format!("{table}\n")
}

fn forecasts(forecasts: &[FilterForecast]) -> String {
    let mut table = plain(&[
        "dedup",
        "memory",
        "bytes per item",
        "false duplicates",
        "penalty without filter",
        "standard",
        "posterior",
    ]);
    for forecast in forecasts {
        let penalty = |pick: fn(&ExpectedPenalty) -> f64| match &forecast.penalty {
            Some(penalty) => short(1e6 * pick(penalty)),
            None => "-".into(),
        };
        table.add_row([
            forecast.what.to_string(),
            bytes(forecast.memory_bytes),
            short(forecast.bytes_per_item),
            percent(forecast.false_duplicate_share),
            penalty(|penalty| penalty.without_filter),
            penalty(|penalty| penalty.standard),
            penalty(|penalty| penalty.posterior),
        ]);
    }
    format!("{table}\n")
}

fn legend(stream: &StreamCapacity) -> String {
    let planned = &stream.dedup[0];
    let assumed = &stream.assumed;
    let mut lines = Vec::new();
    if planned.penalty.is_some() {
        lines.push(format!(
            "Penalties are expected per million events, at {} per false duplicate and {} per missed duplicate.",
            assumed.false_duplicate_penalty, assumed.missed_duplicate_penalty
        ));
        lines.push(
            "The standard answer misses no duplicates; the forecast for the posterior answer is conservative.".into(),
        );
    }
    if let Some(forgetting) = &planned.forgetting {
        lines.push(forgotten(forgetting, &planned.window));
    }
    if let Some(fill) = planned.fill {
        lines.push(format!("In the steady state {} of the cells are in use.", percent(fill)));
    }
    lines.join("\n") + "\n"
}

/// When items are forgotten, and the errors of each class if there are several.
fn forgotten(forgetting: &ForgettingForecast, window: &str) -> String {
    let half = match (forgetting.half_forgotten_events, &forgetting.half_forgotten) {
        (Some(events), Some(time)) => format!("at an age of {} events ({time})", grouped(events)),
        (Some(events), None) => format!("at an age of {} events", grouped(events)),
        (None, _) => "never, because other items keep them found".into(),
    };
    let mut text = format!(
        "This filter has no window: it forgets at random. Half of the most important items are forgotten {half}; of \
         repeats at an age of {window} {} are missed.",
        percent(forgetting.missed_share)
    );
    if forgetting.classes.len() > 1 {
        let mut table = plain(&["class", "share", "false duplicates", "missed", "half forgotten"]);
        for class in &forgetting.classes {
            let half =
                class.half_forgotten_events.map_or("never".into(), |events| format!("{} events", grouped(events)));
            let shares = [class.share, class.false_duplicate_share, class.missed_share].map(percent);
            table.add_row([vec![class.class.clone()], shares.to_vec(), vec![half]].concat());
        }
        text += &format!("\n\n{table}\n");
    }
    text
}

/// The layout of the filter as text.
pub(super) fn layout(filter: &FilterSpec) -> String {
    match filter {
        FilterSpec::Timing { spec, .. } => {
            let placement = match spec.layout() {
                CellLayout::Lines(_) => "in one 64-byte cache line",
                CellLayout::Spread(_) => "spread over the filter",
            };
            let block = match spec.clock() {
                ClockSpec::Time { tick_ms, .. } => DurationMs(tick_ms).to_string(),
                ClockSpec::Count { block, .. } => format!("{block} events"),
            };
            let (bits, cells, blocks) = (spec.timer_bits(), spec.cells_per_item(), spec.oldest_live_age());
            format!("timing filter: {bits}-bit timers, {cells} cells per item {placement}, {blocks} blocks of {block}")
        }
        FilterSpec::Stable(spec) => {
            let spec = &spec.filter;
            let (top, hashes, decrements) = (spec.max_value(), spec.hasher().hashes(), spec.decrements());
            format!(
                "filter that forgets at random: counters up to {top}, {hashes} cells per item, {decrements} decrements per event"
            )
        }
        FilterSpec::Classic { hashes, .. } => format!("classic Bloom filter: {hashes} cells per item, never forgets"),
    }
}

pub(super) fn bytes(bytes: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{} {name}", short(bytes as f64 / *unit as f64)),
        None => format!("{bytes} B"),
    }
}

fn percent(share: f64) -> String {
    format!("{}%", short(100.0 * share))
}

/// The number with three significant digits.
pub(super) fn short(number: f64) -> String {
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
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
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
    fn numbers_have_three_significant_digits_and_large_ones_are_grouped() {
        let shown = [0.0, 4.2e-7, 0.0123, 1.5, 12.34, 999.6, 172_800_000.0].map(short);
        assert_eq!(shown, ["0", "4.2e-7", "0.012", "1.50", "12.3", "1,000", "172,800,000"]);
    }
}
