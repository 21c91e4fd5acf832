//! Renders JSON for a terminal: single values in two columns, lists of objects as tables.

use comfy_table::{Table, presets};
use serde_json::Value;

/// Objects with more fields are rendered one below the other.
const MAX_COLUMNS: usize = 8;

/// The value as lines of text.
pub fn render(value: &Value) -> String {
    let mut fields = Vec::new();
    let mut lists = Vec::new();
    flatten(value, String::new(), &mut fields, &mut lists);
    let mut parts = Vec::new();
    if !fields.is_empty() {
        parts.push(pairs(&fields));
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

/// Flattens objects into fields with paths, and collects lists of objects separately.
fn flatten(value: &Value, name: String, fields: &mut Row, lists: &mut Vec<(String, Vec<Row>)>) {
    let below = |key: &str| if name.is_empty() { key.to_string() } else { format!("{name}.{key}") };
    match value {
        Value::Object(entries) => {
            entries.iter().for_each(|(key, value)| flatten(value, below(key), fields, lists));
        }
        Value::Array(values) if values.iter().any(Value::is_object) => {
            let rows = values.iter().map(|value| {
                let (mut row, mut nested) = (Row::new(), Vec::new());
                flatten(value, String::new(), &mut row, &mut nested);
                row.extend(nested.into_iter().map(|(name, rows)| (name, format!("{} rows", rows.len()))));
                row
            });
            lists.push((name, rows.collect()));
        }
        Value::Array(values) => {
            fields.push((name, values.iter().map(text).collect::<Vec<_>>().join(", ")));
        }
        value => fields.push((name, text(value))),
    }
}

/// A table whose columns are in the order of their first occurrence.
fn list(name: &str, rows: &[Row]) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for (column, _) in rows.iter().flatten() {
        if !columns.contains(&column.as_str()) {
            columns.push(column);
        }
    }
    if columns.len() > MAX_COLUMNS {
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
    fn nested_values_have_paths_and_lists_of_objects_are_tables() {
        let answer = serde_json::json!({
            "verdict": "duplicate", "posterior": {"seen": 0.9, "unseen": 0.1}, "phi": [0.5, 0.9],
            "as_of": [{"partition": 0, "next": 7}, {"partition": 1, "next": 9, "time_ms": 5}],
        });
        let text = render(&answer);
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        for line in [
            &["verdict", "duplicate"][..],
            &["posterior.seen", "0.9"],
            &["phi", "0.5,", "0.9"],
            &["as_of"],
            &["next", "partition", "time_ms"],
            &["9", "1", "5"],
        ] {
            assert!(words.iter().any(|words| words == line), "{line:?}:\n{text}");
        }
    }

    #[test]
    fn wide_objects_are_rendered_one_below_the_other() {
        let wide: serde_json::Map<String, Value> = (0..9).map(|at| (format!("field{at}"), at.into())).collect();
        let text = render(&serde_json::json!({ "shards": [wide] }));
        assert!(text.starts_with("shards 0\nfield0  0\nfield1  1\n"), "{text}");
    }

    #[test]
    fn plain_text_is_unchanged() {
        assert_eq!(render(&Value::String("ready".into())).trim(), "ready");
    }
}
