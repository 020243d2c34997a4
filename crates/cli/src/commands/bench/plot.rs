//! The report as a picture: costs as bars and histograms.
//!
//! One row per call, so that a bar is next to its histogram; several
//! clocksources share a row, in different colours. The axes are logarithmic,
//! as costs span a factor of a thousand.

use instruments::figures::{time, whole_time};
use instruments::measurements::{Measurements, ReadPath};

use super::report::{BenchReport, source_name};
use crate::commands::bench::report::short_name;
use crate::output::plot::axis::PlotAxis;
use crate::output::plot::canvas::{Canvas, Colour, INK, MUTED, Side};
use crate::output::plot::{COLOURS, Legend, PlotBar, RIGHT, colour, legend, outline, picture};

/// Where row labels end, and the first panel begins.
const LABELS: i32 = 230;

/// The picture as the text of an SVG file.
pub(super) fn svg(report: &BenchReport) -> String {
    let top = 112;
    let costs = CostPanel::new(&report.runs);
    picture(top + costs.height() + 16, |canvas| {
        canvas.bold("Cost of a clock read", (20, 30), 22, INK);
        canvas.text(&subtitle(report), (20, 56), Side::Left, 14, MUTED);
        legend(canvas, &run_legend(&report.runs), 73);
        costs.draw(canvas, top);
    })
}

/// The machine, and the clocksource where there is one for all.
fn subtitle(report: &BenchReport) -> String {
    match &report.runs[..] {
        [run] => format!("clocksource {}, {}", source_name(run), report.machine.line()),
        _ => report.machine.line(),
    }
}

// Costs: a row per call, with a bar for the median, a whisker from minimum to
// p99, and the histogram of all samples.

/// Right edge of the bars, and left one of the histograms; room for the
/// figures between them.
const BARS_END: i32 = 530;
const HISTOGRAMS: i32 = 620;

/// Height of one source's bar, and of the space between rows.
const BAR: i32 = 13;
const GAP: i32 = 13;
/// Least height of a row: a histogram needs some.
const LEAST_ROW: i32 = 28;

/// Above the rows, for headings; below them, for the axis.
const HEADING: i32 = 22;
const AXIS: i32 = 40;

/// All costs.
struct CostPanel<'r> {
    runs: &'r [Measurements],
    /// Names of the calls, in order.
    calls: Vec<&'r str>,
}

impl<'r> CostPanel<'r> {
    /// Of `runs`, each of which may lack calls.
    fn new(runs: &'r [Measurements]) -> Self {
        let mut calls: Vec<&str> = Vec::new();
        for cost in runs.iter().flat_map(|run| &run.costs) {
            if !calls.contains(&cost.call.as_str()) {
                calls.push(&cost.call);
            }
        }
        Self { runs, calls }
    }

    fn row(&self) -> i32 {
        (i32::try_from(self.runs.len()).unwrap_or(1) * BAR).max(LEAST_ROW) + GAP
    }

    fn rows(&self) -> i32 {
        i32::try_from(self.calls.len()).unwrap_or(0) * self.row()
    }

    /// Its height.
    fn height(&self) -> i32 {
        HEADING + self.rows() + AXIS
    }

    /// Draws it from `top` down.
    fn draw(&self, canvas: &Canvas, top: i32) {
        let costs = || self.runs.iter().flat_map(|run| &run.costs);
        let least = costs().map(|cost| cost.ns.min).filter(|ns| *ns > 0.0).fold(1e9, f64::min);
        let p99 = costs().map(|cost| cost.ns.p99).fold(least, f64::max);
        let bars = PlotAxis::log(least, p99, LABELS, BARS_END);
        // The slowest samples of a shared machine would squeeze all others.
        let histograms = PlotAxis::log(least, 10.0 * p99, HISTOGRAMS, RIGHT - 20);
        let rows_top = top + HEADING;
        let span = (rows_top, rows_top + self.rows());
        let label = |ns: f64| whole_time(ns.round() as u64);
        canvas.text("median; whisker: minimum to p99", (LABELS, top), Side::Left, 13, MUTED);
        let heading = "samples (height: log of number; slower at the edge)";
        canvas.text(heading, (HISTOGRAMS, top), Side::Left, 13, MUTED);
        bars.draw(canvas, span, label);
        histograms.draw(canvas, span, label);
        let mut y = rows_top + GAP / 2;
        for call in &self.calls {
            self.draw_row(canvas, call, y, &bars, &histograms);
            y += self.row();
        }
    }

    fn draw_row(
        &self,
        canvas: &Canvas,
        call: &str,
        top: i32,
        bars: &PlotAxis,
        histograms: &PlotAxis,
    ) {
        let height = self.row() - GAP;
        let middle = top + height / 2;
        canvas.text(short_name(call), (LABELS - 8, middle), Side::Right, 13, INK);
        let sources = i32::try_from(self.runs.len()).unwrap_or(1);
        for ((index, run), place) in self.runs.iter().enumerate().zip(0..) {
            let Some(cost) = run.cost(call) else { continue };
            let colour = if sources == 1 { path_colour(cost.path) } else { colour(index) };
            let bar = middle - sources * BAR / 2 + place * BAR;
            let words = time(cost.ns.median);
            PlotBar::for_spread(&cost.ns, LABELS, (bar, BAR), &words, colour).draw(canvas, bars);
            let opacity = if sources == 1 { 0.85 } else { 0.55 };
            let outline = outline(&cost.histogram, (top, top + height), histograms);
            canvas.shape(&outline, colour, opacity);
        }
    }
}

/// With one source, colours show where a call is served.
fn path_colour(path: ReadPath) -> Colour {
    match path {
        ReadPath::Instruction => COLOURS[2],
        ReadPath::Counted { entered: 0, .. } => COLOURS[0],
        ReadPath::Counted { .. } => COLOURS[1],
        ReadPath::NotCounted => COLOURS[6],
    }
}

/// What the colours mean: where a call is served, or which source.
fn run_legend(runs: &[Measurements]) -> Legend {
    if let [run] = runs {
        let used = |colour| run.costs.iter().any(|c| path_colour(c.path) == colour);
        let all = [("instruction", 2), ("vDSO", 0), ("kernel", 1), ("not counted", 6)];
        let all = all.map(|(words, index)| (words.to_owned(), COLOURS[index]));
        return all.into_iter().filter(|(_, colour)| used(*colour)).collect();
    }
    let sources = runs.iter().enumerate();
    sources
        .map(|(index, run)| (format!("clocksource {}", source_name(run)), colour(index)))
        .collect()
}

#[cfg(test)]
mod tests;
