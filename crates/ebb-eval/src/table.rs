//! A report as text for a terminal.

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

use super::aggregate_check::AggregateReport;
use super::report::{ClassErrors, GuaranteeCheck, Report, StreamReport};
use super::statistic_check::StatisticCheck;
use super::tally::{ErrorCounts, PenaltyTotals};

/// Only a line under the header.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

impl Report {
    /// The report as tables for a terminal.
    pub fn text(&self) -> String {
        let bad: u64 = self.bad_lines.values().sum();
        let mut text =
            format!("{}: {} lines, {bad} of them bad{}\n", self.file, self.lines, counts_by_name(&self.bad_lines));
        self.streams.iter().for_each(|stream| text += &stream.text());
        text
    }
}

/// ` (a 3, b 1)`, or an empty string.
fn counts_by_name(counts: &std::collections::BTreeMap<&'static str, u64>) -> String {
    let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
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
        let window = match (&self.window, &self.counted_within) {
            (Some(window), _) => format!("window {window}"),
            (None, Some(within)) => format!("no window (repeats are counted within {within})"),
            (None, None) => "no window".into(),
        };
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
            counts_by_name(&verdicts.rejected),
            counts_by_name(&self.bases).trim_matches([' ', '(', ')']),
        );
        text += &self.error_table();
        text += &self.class_table();
        text += &self.calibration_table();
        text += &self.memory_line();
        if !self.aggregates.is_empty() {
            text += &aggregate_table(&self.aggregates);
        }
        text += &self.guarantee_lines();
        text
    }

    fn error_table(&self) -> String {
        let (service, standard) = (&self.errors, &self.standard_errors);
        let row = |label: String, cells: [String; 3]| [vec![label], cells.to_vec()].concat();
        let counts = |of: fn(&ErrorCounts) -> u64, none: u64| [of(service), of(standard), none].map(|n| n.to_string());
        let PenaltyTotals { configured, service: cost, standard_filter, no_filter, .. } = self.penalty;
        let penalty = if configured { "penalty" } else { "penalty (1 per error)" };
        let share = |saved: Option<f64>| saved.map_or("-".to_owned(), |saved| format!("{:.1}%", 100.0 * saved));
        let saved = [None, self.penalty.saved_against_standard, self.penalty.saved_against_none].map(share);
        let firsts = format!("false duplicates of {} firsts", service.firsts);
        let repeats = format!("missed duplicates of {} repeats", service.repeats);
        table(
            &["compared with an exact memory", "service", "standard filter", "no filter"],
            [
                row(firsts, counts(|m| m.false_duplicates, 0)),
                row("  at the edge of the window".into(), counts(|m| m.at_the_edge, 0)),
                row(repeats, counts(|m| m.missed_duplicates, service.repeats)),
                row("  accepted by the service before".into(), [service.forgotten.to_string(), "-".into(), "-".into()]),
                row(penalty.into(), [cost, standard_filter, no_filter].map(number)),
                row("saved by the service".into(), saved),
            ],
        )
    }

    fn class_table(&self) -> String {
        if self.classes.is_empty() {
            return String::new();
        }
        let share = |count: u64, of: u64| if of == 0 { "-".into() } else { percent(count as f64 / of as f64) };
        let rows = self.classes.iter().map(|ClassErrors { class, errors }| {
            let counts = [errors.firsts, errors.false_duplicates, errors.repeats, errors.missed_duplicates];
            let [firsts, false_duplicates, repeats, missed] = counts;
            let mut row = vec![class.clone()];
            row.extend([
                firsts.to_string(),
                share(false_duplicates, firsts),
                repeats.to_string(),
                share(missed, repeats),
            ]);
            row
        });
        table(&["importance class", "firsts", "false duplicates", "repeats", "missed duplicates"], rows)
    }

    fn calibration_table(&self) -> String {
        if self.calibration.is_empty() {
            return "no probabilities were stated: the filter decided without penalties\n".to_owned();
        }
        let rows = self.calibration.iter().map(|bin| {
            let range = format!("{:.1} to {:.1}", bin.from, bin.below);
            vec![range, bin.stated.to_string(), format!("{:.4}", bin.mean_stated), format!("{:.4}", bin.came_true)]
        });
        table(&["stated probability of a repeat", "answers", "mean stated", "observed"], rows)
    }

    fn memory_line(&self) -> String {
        let memory = &self.memory;
        format!(
            "memory: filter {}, exact map {} for up to {} items ({:.2} times the filter)\n",
            size(memory.filter_bytes),
            size(memory.exact_bytes),
            memory.exact_items,
            memory.exact_bytes as f64 / memory.filter_bytes.max(1) as f64
        )
    }

    fn guarantee_lines(&self) -> String {
        let line = |check: &GuaranteeCheck| {
            format!("{} {}: {}\n", if check.holds { "holds   " } else { "VIOLATED" }, check.guarantee, check.observed)
        };
        self.guarantees.iter().map(line).collect()
    }
}

/// One row per decay: the worst error of each statistic, and how often bounds did not contain the exact answer.
fn aggregate_table(aggregates: &[AggregateReport]) -> String {
    let mut text = table(
        &["worst error by decay", "sum", "count", "mean", "p50", "p90", "p99", "top", "answers", "outside"],
        aggregates.iter().flat_map(AggregateReport::rows),
    );
    for one in aggregates {
        let (memory, exact) = (size(one.memory_bytes), size(one.exact_bytes));
        text += &format!("{}: {memory}, exact answers about {} events need {exact}\n", one.name, one.observations);
    }
    text
}

impl AggregateReport {
    fn rows(&self) -> Vec<Vec<String>> {
        let mut decays: Vec<&str> = self.checks.iter().map(|check| check.decay.as_str()).collect();
        decays.dedup();
        let row = |decay: &&str| {
            let checks: Vec<&StatisticCheck> = self.checks.iter().filter(|check| check.decay == **decay).collect();
            let worst = |statistic: &str| {
                let found = checks.iter().find(|check| check.statistic == statistic);
                found.map_or("-".to_owned(), |check| percent(check.worst_error))
            };
            let total = |of: fn(&StatisticCheck) -> u64| checks.iter().map(|check| of(check)).sum::<u64>();
            let outside = total(|check| check.deterministic_outside + check.probabilistic_outside);
            let mut cells = vec![format!("{} ({}) {decay}", self.name, self.method)];
            cells.extend(["sum", "count", "mean", "p50", "p90", "p99", "top"].map(worst));
            cells.extend([total(|check| check.answers), outside].map(|count| count.to_string()));
            cells
        };
        decays.iter().map(row).collect()
    }
}

/// An error in percent.
fn percent(error: f64) -> String {
    if error == 0.0 { "0".into() } else { format!("{:.3}%", 100.0 * error) }
}

fn number(number: f64) -> String {
    if number.fract() == 0.0 { format!("{number}") } else { format!("{number:.2}") }
}

/// A rounded size.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes}B"),
        1024..1_048_576 => format!("{:.1}KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1}MiB", bytes as f64 / 1_048_576.0),
    }
}
