//! The experiments as one picture, one below the other.

mod cost;
mod drift;
mod restore;

use lab::results::Findings;

use super::report::LabReport;
use crate::error::CliError;
use crate::output::plot::WIDTH;
use crate::output::plot::canvas::{Canvas, DrawError, INK, MUTED, Side, width};

/// Where the first panel begins.
const TOP: i32 = 84;
/// Between panels.
const GAP: i32 = 24;

/// Colours and what they mean.
type Legend = Vec<(String, plotters::style::RGBColor)>;

/// What an experiment's figures look like.
trait Panel {
    /// Its heading.
    fn heading(&self) -> &str;
    /// What its colours mean.
    fn legend(&self) -> Legend;
    /// How high it is, heading and legend not counted.
    fn height(&self) -> i32;
    /// Draws it from `top` down.
    fn draw(&self, canvas: &Canvas, top: i32) -> Result<(), DrawError>;
}

/// Height of a panel's heading and legend.
const HEADING: i32 = 52;

/// The picture as the text of an SVG file.
pub(super) fn svg(report: &LabReport) -> Result<String, CliError> {
    let panels: Vec<Box<dyn Panel + '_>> =
        report.lab.experiments.iter().filter_map(|outcome| panel(&outcome.findings)).collect();
    draw(report, &panels).map_err(|error| CliError::Failed {
        cause: format!("cannot draw the plot: {error}"),
        remedy: "the figures themselves are had without --plot".into(),
    })
}

fn panel(findings: &Findings) -> Option<Box<dyn Panel + '_>> {
    match findings {
        Findings::Drift(rows) => Some(Box::new(drift::Drifts::of(rows))),
        Findings::Cost(rows) => Some(Box::new(cost::Costs::of(rows))),
        Findings::Restore(rows) => Some(Box::new(restore::Restores(rows))),
        Findings::Updates(_)
        | Findings::Monotonic(_)
        | Findings::Offset(_)
        | Findings::Agreement(_)
        | Findings::Conformance => None,
    }
}

fn draw(report: &LabReport, panels: &[Box<dyn Panel + '_>]) -> Result<String, DrawError> {
    let height = panels.iter().map(|panel| HEADING + panel.height() + GAP).sum::<i32>() + TOP;
    let mut svg = String::new();
    {
        let canvas = Canvas::new(&mut svg, WIDTH, height)?;
        canvas.bold("The clock of a virtual machine", (20, 30), 22, INK)?;
        canvas.text(&report.machine.line(), (20, 56), Side::Left, 14, MUTED)?;
        let mut top = TOP;
        for panel in panels {
            canvas.bold(panel.heading(), (20, top + 8), 17, INK)?;
            legend(&canvas, &panel.legend(), top + 25)?;
            panel.draw(&canvas, top + HEADING)?;
            top += HEADING + panel.height() + GAP;
        }
        canvas.finish()?;
    }
    Ok(svg)
}

fn legend(canvas: &Canvas, entries: &Legend, top: i32) -> Result<(), DrawError> {
    let mut x = 20;
    for (words, colour) in entries {
        canvas.rect((x, top), (x + 12, top + 12), *colour, 1.0)?;
        canvas.text(words, (x + 18, top + 6), Side::Left, 13, INK)?;
        x += 40 + width(words, 13);
    }
    Ok(())
}

/// What is in `all`, each once, in order.
fn distinct<'r>(all: impl Iterator<Item = &'r str>) -> Vec<&'r str> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

#[cfg(test)]
mod tests;
