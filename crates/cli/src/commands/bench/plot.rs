//! The report as a picture: costs as bars and histograms, loads as bars.
//!
//! One row per call, so that a bar is next to its histogram; several
//! clocksources share a row, in different colours. Costs have logarithmic axes,
//! as they span a factor of a thousand; rates have linear ones.

mod costs;
mod loads;

use super::report::BenchReport;
use crate::error::CliError;
use crate::output::plot::WIDTH;
use crate::output::plot::canvas::{self, Canvas, DrawError, INK, MUTED, Side};

/// Where row labels end, and the first panel begins.
const LABELS: i32 = 230;

/// The picture as the text of an SVG file.
pub(super) fn svg(report: &BenchReport) -> Result<String, CliError> {
    draw(report).map_err(|error| CliError::Failed {
        cause: format!("cannot draw the plot: {error}"),
        remedy: "the same command without --plot, for the figures".into(),
    })
}

fn draw(report: &BenchReport) -> Result<String, DrawError> {
    let top = 112;
    let costs = costs::Panel::of(&report.runs);
    let loads_top = top + costs.height();
    let height = loads_top + loads::height(&report.runs) + 16;
    let mut svg = String::new();
    {
        let canvas = Canvas::new(&mut svg, WIDTH, height)?;
        canvas.bold("Cost of a clock read", (20, 30), 22, INK)?;
        canvas.text(&subtitle(report), (20, 56), Side::Left, 14, MUTED)?;
        legend(&canvas, report)?;
        costs.draw(&canvas, top)?;
        loads::draw(&canvas, &report.runs, loads_top)?;
        canvas.finish()?;
    }
    Ok(svg)
}

/// The machine, and the clocksource where there is one for all.
fn subtitle(report: &BenchReport) -> String {
    match &report.runs[..] {
        [run] => format!("clocksource {}, {}", run.source(), report.machine.line()),
        _ => report.machine.line(),
    }
}

/// What the colours mean.
fn legend(canvas: &Canvas, report: &BenchReport) -> Result<(), DrawError> {
    let entries = costs::legend(&report.runs);
    let mut x = 20;
    for (words, colour) in entries {
        canvas.rect((x, 72), (x + 14, 86), colour, 1.0)?;
        canvas.text(&words, (x + 20, 79), Side::Left, 14, INK)?;
        x += 44 + canvas::width(&words, 14);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
