//! Documents that are generated from declarations: the metrics and the configuration, for the terminal and for `docs/`.

use comfy_table::{ContentArrangement, Table, presets};

use crate::config::Config;
use crate::metrics::{MetricDescription, Metrics};

/// How a reference is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceForm {
    Table,
    Markdown,
    Json,
}

/// Every metric of the service.
pub fn metrics_reference(form: ReferenceForm) -> String {
    let metrics = Metrics::describe();
    match form {
        ReferenceForm::Table => metrics_table(&metrics),
        ReferenceForm::Markdown => metrics_markdown(&metrics),
        ReferenceForm::Json => {
            serde_json::to_string_pretty(&metrics).expect("descriptions are strings, which JSON can hold") + "\n"
        }
    }
}

fn metrics_table(metrics: &[MetricDescription]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["name", "type", "labels", "unit", "meaning"]);
    for MetricDescription { name, kind, labels, unit, help } in metrics {
        table.add_row([name, kind.name(), &labels.join(", "), unit, help]);
    }
    format!("{table}\n")
}

fn metrics_markdown(metrics: &[MetricDescription]) -> String {
    let mut out = String::from(
        "# Metrics\n\nWritten by `ebb metrics --markdown` from `src/metrics.rs`; served at `/metrics`. Items and keys are never labels.\n\n\
         | name | type | labels | unit | meaning |\n|---|---|---|---|---|\n",
    );
    for MetricDescription { name, kind, labels, unit, help } in metrics {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        out.push_str(&format!("| `{name}` | {} | {} | {unit} | {help} |\n", kind.name(), labels.join(", ")));
    }
    out
}

/// Every key of the configuration, as a document.
pub fn configuration_markdown() -> String {
    format!(
        "# Configuration\n\nWritten by `ebb config --reference --markdown` from the declarations in `src/config`. What is \
         commented out may be left out; the value shown is the default, or an example where there is none. Every key can \
         be set by a variable: `EBB_` and its path in capitals, with `__` between the steps.\n\n```yaml\n{}```\n",
        Config::reference()
    )
}
