//! Output of the reproductions: tables as text and CSV, curves as SVG, under `target/repro`.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use plotters::prelude::*;

/// A table. Cells are text, printed and written to CSV alike.
pub struct Table {
    name: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(name: &'static str, columns: &[&'static str]) -> Self {
        Self { name, columns: columns.to_vec(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "table {} has {} columns", self.name, self.columns.len());
        self.rows.push(cells);
    }

    /// Prints the table and writes `target/repro/NAME.csv`.
    pub fn publish(&self) {
        let width = |c: usize| self.rows.iter().map(|r| r[c].len()).chain([self.columns[c].len()]).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |cells: &[String]| -> String {
            cells.iter().zip(&widths).map(|(cell, w)| format!("{cell:<w$}")).collect::<Vec<_>>().join("  ")
        };
        println!("\n== {}", self.name);
        println!("{}", line(&self.columns.iter().map(|c| c.to_string()).collect::<Vec<_>>()).trim_end());
        self.rows.iter().for_each(|row| println!("{}", line(row).trim_end()));
        let quoted = |cells: &[String]| {
            cells.iter().map(|c| format!("\"{}\"", c.replace('"', "\"\""))).collect::<Vec<_>>().join(",")
        };
        let header: Vec<String> = self.columns.iter().map(|c| c.to_string()).collect();
        let csv: Vec<String> = std::iter::once(quoted(&header)).chain(self.rows.iter().map(|r| quoted(r))).collect();
        fs::write(folder().join(format!("{}.csv", self.name)), csv.join("\n") + "\n").expect("write the CSV file");
    }
}

static MISSED_TARGET: AtomicBool = AtomicBool::new(false);

/// Checks a figure against its target. A miss is printed, and the run fails at its end.
pub fn require(name: &str, figure: f64, max: f64) {
    if figure > max || figure.is_nan() {
        println!("   MISSED: {name} is {figure:.4}, target at most {max:.4}");
        MISSED_TARGET.store(true, Ordering::Relaxed);
    }
}

/// Whether a target was missed.
pub fn has_missed_targets() -> bool {
    MISSED_TARGET.load(Ordering::Relaxed)
}

/// One curve of a plot.
pub struct Series {
    pub label: String,
    pub points: Vec<(f64, f64)>,
}

/// Writes `target/repro/NAME.svg`.
pub fn plot(name: &str, title: &str, x_axis: &str, y_axis: &str, series: &[Series]) {
    let path = folder().join(format!("{name}.svg"));
    let area = SVGBackend::new(&path, (900, 540)).into_drawing_area();
    area.fill(&WHITE).expect("draw the background");
    let points = || series.iter().flat_map(|s| s.points.iter().copied());
    let (left, right) = range(points().map(|p| p.0));
    let (low, high) = range(points().map(|p| p.1));
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(64)
        .build_cartesian_2d(left..right, low.min(0.0)..high)
        .expect("lay the chart out");
    chart.configure_mesh().x_desc(x_axis).y_desc(y_axis).draw().expect("draw the mesh");
    for (index, one) in series.iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        let line = LineSeries::new(one.points.iter().copied(), colour.stroke_width(2)).point_size(3);
        chart
            .draw_series(line)
            .expect("draw a curve")
            .label(&one.label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()
        .expect("draw the legend");
    area.present().expect("write the SVG file");
    println!("   plot: {}", path.display());
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    if low < high { (low, high + (high - low) * 0.05) } else { (low - 0.5, low + 0.5) }
}

fn folder() -> PathBuf {
    let folder = PathBuf::from("target/repro");
    fs::create_dir_all(&folder).expect("create target/repro");
    folder
}
