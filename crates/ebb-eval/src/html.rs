//! A report as one self-contained HTML page: the tables of the terminal, and plots.

use super::aggregate_check::AggregateReport;
use super::plot::{Axes, Curve, Stroke, svg};
use super::report::{Report, StreamReport};
use super::statistic_check::{AnswerPoint, StatisticCheck};

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1340px;padding:0 1rem;color:#222}\
pre{background:#f6f7f9;padding:1rem;overflow-x:auto;font:12.5px/1.35 ui-monospace,monospace}\
.plots{display:flex;flex-wrap:wrap;gap:1rem}svg{border:1px solid #ddd;background:#fff;max-width:100%;height:auto}";

impl Report {
    /// The report as a self-contained HTML page.
    pub fn page(&self) -> anyhow::Result<String> {
        let title = format!("Ebb on {}", escaped(&self.file));
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title>\
             <style>{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n"
        );
        for stream in &self.streams {
            page += &format!("<h2>Stream {}</h2>\n<div class=\"plots\">\n", escaped(&stream.name));
            for plot in stream.plots()? {
                page += &plot;
            }
            page += "</div>\n";
        }
        page += &format!("<h2>Figures</h2>\n<pre>{}</pre>\n</body>\n</html>\n", escaped(&self.text()));
        Ok(page)
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl StreamReport {
    fn plots(&self) -> anyhow::Result<Vec<String>> {
        let mut plots = vec![self.calibration_plot()?, self.age_plot()?, self.memory_plot()?];
        for aggregate in &self.aggregates {
            let is_plotted =
                |check: &&StatisticCheck| check.statistic == aggregate.plotted_statistic() || check.statistic == "p90";
            for check in aggregate.checks.iter().filter(is_plotted) {
                plots.push(over_time_plot(aggregate, check)?);
            }
        }
        Ok(plots)
    }

    fn calibration_plot(&self) -> anyhow::Result<String> {
        let found = self.calibration.iter().map(|bin| (bin.mean_stated, bin.came_true)).collect();
        let curves = [
            Curve { label: "ideal", stroke: Stroke::Thin, points: vec![(0.0, 0.0), (1.0, 1.0)] },
            Curve { label: "observed", stroke: Stroke::Points, points: found },
        ];
        let axes = Axes { title: "Calibration", x: "stated probability of a repeat", y: "observed share" };
        svg(axes, &curves)
    }

    fn age_plot(&self) -> anyhow::Result<String> {
        let bins = self.ages.iter().filter(|bin| bin.events > 0);
        let share = |part: u64, of: u64| part as f64 / of as f64;
        let middle = |from: f64, below: Option<f64>| below.map_or(from, |below| (from + below) / 2.0);
        let error_share = |from: f64, duplicates: u64, events: u64| match from < 1.0 {
            true => share(events - duplicates, events),
            false => share(duplicates, events),
        };
        let points = bins.map(|bin| {
            let x = middle(bin.from, bin.below);
            ((x, share(bin.called_duplicate, bin.events)), (x, error_share(bin.from, bin.called_duplicate, bin.events)))
        });
        let (duplicate, wrong) = points.unzip();
        let curves = [
            Curve { label: "called duplicate", stroke: Stroke::Line, points: duplicate },
            Curve { label: "wrong", stroke: Stroke::Line, points: wrong },
        ];
        svg(
            Axes { title: "Decisions by age", x: "windows since the item was last accepted", y: "share of events" },
            &curves,
        )
    }

    fn memory_plot(&self) -> anyhow::Result<String> {
        let mebibytes = |bytes: u64| bytes as f64 / 1_048_576.0;
        let over_time = &self.memory.over_time;
        let exact = over_time.iter().map(|point| (point.events as f64, mebibytes(point.exact_bytes))).collect();
        let filter = over_time.iter().map(|point| (point.events as f64, mebibytes(self.memory.filter_bytes))).collect();
        let curves = [
            Curve { label: "filter", stroke: Stroke::Line, points: filter },
            Curve { label: "exact map", stroke: Stroke::Line, points: exact },
        ];
        svg(Axes { title: "Memory", x: "events", y: "MiB" }, &curves)
    }
}

impl AggregateReport {
    /// The statistic that is plotted besides a quantile.
    fn plotted_statistic(&self) -> &'static str {
        if self.checks.iter().any(|check| check.statistic == "sum") { "sum" } else { "count" }
    }
}

fn over_time_plot(aggregate: &AggregateReport, check: &StatisticCheck) -> anyhow::Result<String> {
    let curve = |label, stroke, of: fn(&AnswerPoint) -> f64| Curve {
        label,
        stroke,
        points: check.over_time.iter().map(|point| (point.events as f64, of(point))).collect(),
    };
    let curves = [
        curve("exact", Stroke::Line, |point| point.truth),
        curve("answer", Stroke::Points, |point| point.value),
        curve("lower bound", Stroke::Thin, |point| point.lower),
        curve("upper bound", Stroke::Thin, |point| point.upper),
    ];
    let title = format!("{} {} under {}", aggregate.name, check.statistic, check.decay);
    svg(Axes { title: &title, x: "events", y: &check.statistic }, &curves)
}
