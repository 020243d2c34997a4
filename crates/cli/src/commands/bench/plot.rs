//! The report as a picture: costs as bars and histograms, loads as bars.
//!
//! One row a call, so that a bar and the histogram it stands for are side by
//! side; several clocksources share a row, told apart by colour. Costs are on
//! logarithmic axes, as they span a thousandfold; rates are on linear ones.

mod axis;
mod canvas;
mod costs;
mod loads;

use plotters::style::RGBColor;

use super::report::BenchReport;
use crate::error::CliError;
use canvas::{Canvas, DrawError, INK, MUTED, Side};

/// Width of the picture.
const WIDTH: i32 = 1000;
/// Where row labels end, and the first panel begins.
const LABELS: i32 = 230;
/// Right edge of everything.
const RIGHT: i32 = 980;

/// Colours that also colour-blind readers tell apart (Okabe and Ito, 2008).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(90, 90, 90),
];

/// The picture as the text of an SVG file.
pub(super) fn svg(report: &BenchReport) -> Result<String, CliError> {
    draw(report).map_err(|error| CliError::Failed {
        cause: format!("cannot draw the plot: {error}"),
        remedy: "the figures themselves are had without --plot".into(),
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
        canvas.bold("What it costs to read a clock", (20, 30), 22, INK)?;
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

/// The colour of the run at `index`.
fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

#[cfg(test)]
mod tests;
