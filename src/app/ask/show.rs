//! Any JSON for people: what stands alone as two columns, lists of objects as tables.

use comfy_table::{Table, presets};
use serde_json::Value;

/// A list of wider objects is shown one object below the other.
const MOST_COLUMNS: usize = 8;

/// The answer as lines of text.
pub fn show(value: &Value) -> String {
    let mut alone = Vec::new();
    let mut lists = Vec::new();
    gather(value, String::new(), &mut alone, &mut lists);
    let mut parts = Vec::new();
    if !alone.is_empty() {
        parts.push(pairs(&alone));
    }
    parts.extend(lists.iter().map(|(name, rows)| list(name, rows)));
    parts.join("\n")
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

fn trimmed(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().strip_prefix(' ').unwrap_or(line.trim_end()).to_string() + "\n").collect()
}

type Row = Vec<(String, String)>;

fn pairs(row: &Row) -> String {
    let mut table = plain();
    for (name, text) in row {
        table.add_row([name, text]);
    }
    trimmed(&table)
}

/// Objects are walked into; lists of objects are put aside.
fn gather(value: &Value, name: String, alone: &mut Row, lists: &mut Vec<(String, Vec<Row>)>) {
    let below = |key: &str| if name.is_empty() { key.to_string() } else { format!("{name}.{key}") };
    match value {
        Value::Object(entries) => {
            entries.iter().for_each(|(key, value)| gather(value, below(key), alone, lists));
        }
        Value::Array(values) if values.iter().any(Value::is_object) => {
            let rows = values.iter().map(|value| {
                let (mut row, mut nested) = (Row::new(), Vec::new());
                gather(value, String::new(), &mut row, &mut nested);
                row.extend(nested.into_iter().map(|(name, rows)| (name, format!("{} rows", rows.len()))));
                row
            });
            lists.push((name, rows.collect()));
        }
        Value::Array(values) => {
            alone.push((name, values.iter().map(text).collect::<Vec<_>>().join(", ")));
        }
        value => alone.push((name, text(value))),
    }
}

/// Columns in the order in which they are first met.
fn list(name: &str, rows: &[Row]) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for (column, _) in rows.iter().flatten() {
        if !columns.contains(&column.as_str()) {
            columns.push(column);
        }
    }
    if columns.len() > MOST_COLUMNS {
        let blocks = rows.iter().enumerate().map(|(index, row)| format!("{name} {index}\n{}", pairs(row)));
        return blocks.collect::<Vec<_>>().join("\n");
    }
    let mut table = plain();
    table.set_header(&columns);
    for row in rows {
        let cell = |column: &&str| row.iter().find(|(name, _)| name == column).map_or("", |(_, text)| text.as_str());
        table.add_row(columns.iter().map(cell));
    }
    format!("{name}\n{}", trimmed(&table))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_values_get_paths_and_lists_of_objects_become_tables() {
        let answer = serde_json::json!({
            "verdict": "duplicate", "posterior": {"seen": 0.9, "unseen": 0.1}, "phi": [0.5, 0.9],
            "as_of": [{"partition": 0, "next": 7}, {"partition": 1, "next": 9, "time_ms": 5}],
        });
        let shown = show(&answer);
        let words: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        for line in [
            &["verdict", "duplicate"][..],
            &["posterior.seen", "0.9"],
            &["phi", "0.5,", "0.9"],
            &["as_of"],
            &["next", "partition", "time_ms"],
            &["9", "1", "5"],
        ] {
            assert!(words.iter().any(|words| words == line), "{line:?}:\n{shown}");
        }
    }

    #[test]
    fn a_list_of_wide_objects_is_shown_one_below_the_other() {
        let wide: serde_json::Map<String, Value> = (0..9).map(|at| (format!("field{at}"), at.into())).collect();
        let shown = show(&serde_json::json!({ "shards": [wide] }));
        assert!(shown.starts_with("shards 0\nfield0  0\nfield1  1\n"), "{shown}");
    }

    #[test]
    fn a_plain_text_stays_what_it_is() {
        assert_eq!(show(&Value::String("ready".into())).trim(), "ready");
    }
}
