//! The report as a picture: each figure's distribution on one logarithmic axis,
//! and the longest delays over time, by cause.

use instruments::figures::{time, whole_time};
use instruments::latency::cause::LatenessCause;

use super::report::LatencyReport;
use super::text::short_name;
use crate::output::plot::axis::PlotAxis;
use crate::output::plot::canvas::{self, Canvas, INK, MUTED, Side};
use crate::output::plot::{COLOURS, RIGHT, colour, outline, picture};

/// Where row labels end, and where their figures begin.
const LABELS: i32 = 150;
const FIGURES: i32 = 800;
const ROW: i32 = 38;
const TOP: i32 = 96;
/// Height of the time line.
const LINE: i32 = 220;

/// The picture as the text of an SVG file.
pub(super) fn svg(report: &LatencyReport) -> String {
    let rows = i32::try_from(report.latency.figures.len()).unwrap_or(0) * ROW;
    let line_top = TOP + rows + 100;
    picture(line_top + LINE + 60, |canvas| {
        canvas.bold("Latency", (20, 30), 22, INK);
        canvas.text(&report.machine.line(), (20, 56), Side::Left, 14, MUTED);
        distributions(canvas, report, rows);
        time_line(canvas, report, line_top)
    })
}

/// A row for each figure: its histogram, a mark at p99.
fn distributions(canvas: &Canvas, report: &LatencyReport, rows: i32) {
    let figures = &report.latency.figures;
    let least = figures.iter().map(|figure| figure.ns.min).fold(1e5, f64::min).max(100.0);
    let most = figures.iter().map(|figure| figure.ns.max).fold(1e6, f64::max);
    let axis = PlotAxis::log(least, most, LABELS + 10, FIGURES - 20);
    let heading = "samples (height: log of number); line: p99";
    canvas.text(heading, (LABELS + 10, TOP - 14), Side::Left, 13, MUTED);
    canvas.text("p50, p99, max", (FIGURES, TOP - 14), Side::Left, 13, MUTED);
    axis.draw(canvas, (TOP, TOP + rows), |ns| whole_time(ns.round() as u64));
    for (figure, index) in figures.iter().zip(0..) {
        let (top, base) = (TOP + index * ROW + 4, TOP + index * ROW + ROW - 4);
        let middle = (top + base) / 2;
        canvas.text(short_name(figure.kind), (LABELS, middle), Side::Right, 13, INK);
        let shape = outline(&figure.histogram, (top, base), &axis);
        canvas.shape(&shape, COLOURS[0], 0.8);
        let p99 = axis.px(figure.ns.p99);
        canvas.line(&[(p99, top), (p99, base)], COLOURS[5], 2);
        let words = [figure.ns.p50, figure.ns.p99, figure.ns.max].map(time).join(", ");
        canvas.text(&words, (FIGURES, middle), Side::Left, 12, INK);
    }
}

/// The longest delays, a dot each.
fn time_line(canvas: &Canvas, report: &LatencyReport, top: i32) {
    let found = &report.latency;
    let delays = &found.delays;
    canvas.bold("The longest delays, by cause", (20, top - 52), 16, INK);
    let causes: Vec<LatenessCause> = LatenessCause::ALL
        .iter()
        .copied()
        .filter(|cause| delays.iter().any(|one| one.cause == *cause))
        .collect();
    let mut x = 20;
    for (index, cause) in causes.iter().enumerate() {
        canvas.dot((x + 6, top - 28), 5, colour(index), 1.0);
        canvas.text(cause.name(), (x + 18, top - 28), Side::Left, 13, INK);
        x += 46 + canvas::width(cause.name(), 13);
    }
    let most = delays.iter().map(|delay| delay.ns).max().unwrap_or(1_000_000);
    let least = delays.iter().map(|delay| delay.ns).min().unwrap_or(10_000).max(1);
    let height = PlotAxis::log(least as f64, most as f64, top + LINE, top);
    let along = PlotAxis::up_to(found.over_s.max(0.1), LABELS, RIGHT - 20);
    height.draw_upright(canvas, (LABELS, RIGHT - 20), |ns| whole_time(ns.round() as u64));
    along.draw(canvas, (top, top + LINE), |s| format!("{s:.0} s"));
    for delay in delays {
        let index = causes.iter().position(|cause| *cause == delay.cause).unwrap_or(0);
        let at = (along.px(delay.at_ns as f64 / 1e9), height.px(delay.ns as f64));
        canvas.dot(at, 3, colour(index), 0.7);
    }
}

#[cfg(test)]
mod tests;
