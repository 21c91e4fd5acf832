//! A report for a terminal.

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

use super::checks::{AggregateReport, Check};
use super::report::{Report, StreamReport};
use super::tally::{Mistakes, Penalty};

/// A line under the header is enough.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

impl Report {
    /// All of it, as tables.
    pub fn text(&self) -> String {
        let bad: u64 = self.bad_lines.values().sum();
        let mut text = format!("{}: {} lines, {bad} of them bad{}\n", self.file, self.lines, listed(&self.bad_lines));
        self.streams.iter().for_each(|stream| text += &stream.text());
        text
    }
}

/// `(a 3, b 1)`, or nothing.
fn listed(counts: &std::collections::BTreeMap<&'static str, u64>) -> String {
    let listed: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    if listed.is_empty() { String::new() } else { format!(" ({})", listed.join(", ")) }
}

fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header(header.to_vec());
    table.add_rows(rows);
    table.column_iter_mut().skip(1).for_each(|column| {
        column.set_cell_alignment(CellAlignment::Right);
    });
    format!("{}\n", table.trim_fmt())
}

impl StreamReport {
    fn text(&self) -> String {
        let window = self.window.as_ref().map_or("no window".into(), |window| format!("window {window}"));
        let verdicts = &self.verdicts;
        let rejected: u64 = verdicts.rejected.values().sum();
        let mut text = format!(
            "\nstream {}: {window}, seen {}, filter {}, {} partition{}\n",
            self.name,
            self.seen,
            self.filter,
            self.partitions,
            if self.partitions == 1 { "" } else { "s" },
        );
        text += &format!(
            "unique {}, duplicate {}, late {}, rejected {rejected}{}; decided by: {}\n",
            verdicts.unique,
            verdicts.duplicate,
            verdicts.late,
            listed(&verdicts.rejected),
            listed(&self.bases).trim_matches([' ', '(', ')']),
        );
        text += &self.decisions();
        text += &self.calibrated();
        text += &self.remembered();
        if !self.aggregates.is_empty() {
            text += &aggregates(&self.aggregates);
        }
        text += &self.promised();
        text
    }

    fn decisions(&self) -> String {
        let (service, standard) = (&self.mistakes, &self.standard);
        let row = |what: String, cells: [String; 3]| [vec![what], cells.to_vec()].concat();
        let counts = |of: fn(&Mistakes) -> u64, none: u64| [of(service), of(standard), none].map(|n| n.to_string());
        let Penalty { configured, service: paid, standard_filter, no_filter, .. } = self.penalty;
        let penalty = if configured { "penalty" } else { "penalty, at 1 a mistake" };
        let share = |saved: Option<f64>| saved.map_or("-".to_owned(), |saved| format!("{:.1}%", 100.0 * saved));
        let saved = [None, self.penalty.saved_against_standard, self.penalty.saved_against_none].map(share);
        let firsts = format!("false duplicates, of {} first", service.firsts);
        let repeats = format!("missed duplicates, of {} repeats", service.repeats);
        table(
            &["against an exact memory", "service", "standard filter", "no filter"],
            [
                row(firsts, counts(|m| m.false_duplicates, 0)),
                row("  at the window's edge".into(), counts(|m| m.at_the_edge, 0)),
                row(repeats, counts(|m| m.missed_duplicates, service.repeats)),
                row("  though accepted by itself".into(), [service.forgotten.to_string(), "-".into(), "-".into()]),
                row(penalty.into(), [paid, standard_filter, no_filter].map(number)),
                row("saved by the service".into(), saved),
            ],
        )
    }

    fn calibrated(&self) -> String {
        if self.calibration.is_empty() {
            return "no chances were stated: the filter's own answers stand\n".to_owned();
        }
        let rows = self.calibration.iter().map(|bin| {
            let range = format!("{:.1} to {:.1}", bin.from, bin.below);
            vec![range, bin.stated.to_string(), format!("{:.4}", bin.mean_stated), format!("{:.4}", bin.came_true)]
        });
        table(&["stated chance of a repeat", "how often", "mean", "came true"], rows)
    }

    fn remembered(&self) -> String {
        let memory = &self.memory;
        format!(
            "memory: filter {}, exact map {} for {} items at most ({:.2} times the filter)\n",
            size(memory.filter_bytes),
            size(memory.exact_bytes),
            memory.exact_items,
            memory.exact_bytes as f64 / memory.filter_bytes.max(1) as f64
        )
    }

    fn promised(&self) -> String {
        let line = |promise: &super::report::Promise| {
            format!("{} {}: {}\n", if promise.kept { "kept  " } else { "BROKEN" }, promise.promise, promise.found)
        };
        self.promises.iter().map(line).collect()
    }
}

/// One row a decay: the worst error of each statistic, and how often bounds did not hold the truth.
fn aggregates(aggregates: &[AggregateReport]) -> String {
    let mut text = table(
        &["worst error under", "sum", "count", "mean", "p50", "p90", "p99", "top", "answers", "outside"],
        aggregates.iter().flat_map(AggregateReport::rows),
    );
    for one in aggregates {
        let (kept, exact) = (size(one.memory_bytes), size(one.exact_bytes));
        text += &format!("{}: {kept} kept, {exact} for exact answers about {} events\n", one.name, one.observations);
    }
    text
}

impl AggregateReport {
    fn rows(&self) -> Vec<Vec<String>> {
        let mut decays: Vec<&str> = self.checks.iter().map(|check| check.decay.as_str()).collect();
        decays.dedup();
        let row = |decay: &&str| {
            let checks: Vec<&Check> = self.checks.iter().filter(|check| check.decay == **decay).collect();
            let worst = |statistic: &str| {
                let found = checks.iter().find(|check| check.statistic == statistic);
                found.map_or("-".to_owned(), |check| error(check.worst_error))
            };
            let total = |of: fn(&Check) -> u64| checks.iter().map(|check| of(check)).sum::<u64>();
            let outside = total(|check| check.certain_outside + check.chancy_outside);
            let mut cells = vec![format!("{} ({}) {decay}", self.name, self.method)];
            cells.extend(["sum", "count", "mean", "p50", "p90", "p99", "top"].map(worst));
            cells.extend([total(|check| check.answers), outside].map(|count| count.to_string()));
            cells
        };
        decays.iter().map(row).collect()
    }
}

/// As a share; nothing where there is none.
fn error(error: f64) -> String {
    if error == 0.0 { "0".into() } else { format!("{:.3}%", 100.0 * error) }
}

fn number(number: f64) -> String {
    if number.fract() == 0.0 { format!("{number}") } else { format!("{number:.2}") }
}

/// About so many bytes.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes}B"),
        1024..1_048_576 => format!("{:.1}KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1}MiB", bytes as f64 / 1_048_576.0),
    }
}
