//! The report as a picture: costs as bars and histograms.
//!
//! One row per call, so that a bar is next to its histogram; several
//! clocksources share a row, in different colours. The axes are logarithmic,
//! as costs span a factor of a thousand.

mod costs;

use super::report::{BenchReport, source_name};
use crate::output::plot::canvas::{INK, MUTED, Side};
use crate::output::plot::{legend, picture};

/// Where row labels end, and the first panel begins.
const LABELS: i32 = 230;

/// The picture as the text of an SVG file.
pub(super) fn svg(report: &BenchReport) -> String {
    let top = 112;
    let costs = costs::CostPanel::new(&report.runs);
    picture(top + costs.height() + 16, |canvas| {
        canvas.bold("Cost of a clock read", (20, 30), 22, INK);
        canvas.text(&subtitle(report), (20, 56), Side::Left, 14, MUTED);
        legend(canvas, &costs::legend(&report.runs), 73);
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

#[cfg(test)]
mod tests;
