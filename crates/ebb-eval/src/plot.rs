//! Line charts as SVG elements.

use plotters::prelude::*;

const SIZE: (u32, u32) = (640, 380);

/// How a curve is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    Line,
    Thin,
    Points,
}

/// One curve of a plot.
#[derive(Debug)]
pub struct Curve {
    pub label: &'static str,
    pub stroke: Stroke,
    pub points: Vec<(f64, f64)>,
}

/// Title and axis labels.
#[derive(Debug, Clone, Copy)]
pub struct Axes<'a> {
    pub title: &'a str,
    pub x: &'a str,
    pub y: &'a str,
}

/// The plot as one `<svg>` element.
pub fn svg(axes: Axes<'_>, curves: &[Curve]) -> anyhow::Result<String> {
    let mut text = String::new();
    draw(&mut text, axes, curves).map_err(|error| anyhow::anyhow!("drawing {}: {error}", axes.title))?;
    Ok(text)
}

type PlotError<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

fn draw<'a>(text: &'a mut String, axes: Axes<'_>, curves: &[Curve]) -> Result<(), PlotError<'a>> {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let points = || curves.iter().flat_map(|curve| curve.points.iter()).filter(|(x, y)| x.is_finite() && y.is_finite());
    let (left, right) = range(points().map(|point| point.0));
    let (low, high) = range(points().map(|point| point.1));
    let mut chart = ChartBuilder::on(&area)
        .caption(axes.title, ("sans-serif", 17))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(72)
        .build_cartesian_2d(left..right, low.min(0.0)..high)?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(axes.x).y_desc(axes.y).x_label_formatter(&short_label).y_label_formatter(&short_label);
    mesh.max_light_lines(1).light_line_style(WHITE).draw()?;
    for (index, curve) in curves.iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        let drawn = curve.points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite());
        let series = match curve.stroke {
            Stroke::Line => chart.draw_series(LineSeries::new(drawn, colour.stroke_width(2)).point_size(2))?,
            Stroke::Thin => chart.draw_series(LineSeries::new(drawn, colour.mix(0.6).stroke_width(1)))?,
            Stroke::Points => chart.draw_series(drawn.map(|point| Circle::new(point, 4, colour.filled())))?,
        };
        let sample = move |(x, y)| PathElement::new([(x, y), (x + 14, y)], colour.stroke_width(2));
        series.label(curve.label).legend(sample);
    }
    if curves.len() > 1 {
        chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw()?;
    }
    area.present()
}

/// `1.5M` instead of 1500000.0.
fn short_label(number: &f64) -> String {
    let (scaled, unit) = match number.abs() {
        1e9.. => (number / 1e9, "G"),
        1e6.. => (number / 1e6, "M"),
        1e3.. => (number / 1e3, "k"),
        _ => (*number, ""),
    };
    format!("{}{unit}", (scaled * 1e3).round() / 1e3)
}

/// The range of an axis, with a margin above, and not empty if all values are equal.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    match low < high {
        true => (low, high + (high - low) * 0.05),
        false if low.is_finite() => (low - 0.5, low + 0.5),
        false => (0.0, 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXES: Axes<'_> = Axes { title: "a < b", x: "x", y: "y" };

    #[test]
    fn plot_is_one_svg_element_with_an_escaped_title() {
        let points = vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0)];
        let curve = |stroke| Curve { label: "one", stroke, points: points.clone() };
        let text = svg(AXES, &[curve(Stroke::Line), curve(Stroke::Thin), curve(Stroke::Points)]).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{text}");
        assert!(text.contains("a &lt; b") && !text.contains("NaN"));
    }

    #[test]
    fn axis_labels_use_unit_prefixes() {
        let shown = [0.0, 0.25, 999.0, 5_000.0, 1.5e6, -2e9].map(|number| short_label(&number));
        assert_eq!(shown, ["0", "0.25", "999", "5k", "1.5M", "-2G"]);
    }

    #[test]
    fn empty_and_single_value_curves_can_be_drawn() {
        for points in [vec![], vec![(1.0, 1.0)], vec![(f64::INFINITY, 0.0)]] {
            let curves = [Curve { label: "one", stroke: Stroke::Line, points }];
            assert!(svg(AXES, &curves).unwrap().contains("</svg>"));
        }
    }
}
