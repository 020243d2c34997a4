//! The experiments in one picture, from top to bottom.

mod cost;
mod drift;
mod panel;
mod restore;

use lab::results::Findings;

use super::report::LabReport;
use crate::output::plot::canvas::{INK, MUTED, Side};
use crate::output::plot::{legend, picture};
use panel::PlotPanel;

/// Where the first panel begins.
const TOP: i32 = 84;
/// Between panels.
const GAP: i32 = 24;

/// Height of a panel's heading and legend.
const HEADING: i32 = 52;

/// The picture as the text of an SVG file.
pub(super) fn svg(report: &LabReport) -> String {
    let panels: Vec<Box<dyn PlotPanel + '_>> =
        report.lab.experiments.iter().filter_map(|outcome| panel(&outcome.findings)).collect();
    let height = panels.iter().map(|panel| HEADING + panel.height() + GAP).sum::<i32>() + TOP;
    picture(height, |canvas| {
        canvas.bold("The clock of a virtual machine", (20, 30), 22, INK);
        canvas.text(&report.machine.line(), (20, 56), Side::Left, 14, MUTED);
        let mut top = TOP;
        for panel in &panels {
            canvas.bold(panel.heading(), (20, top + 8), 17, INK);
            legend(canvas, &panel.legend(), top + 25);
            panel.draw(canvas, top + HEADING);
            top += HEADING + panel.height() + GAP;
        }
    })
}

fn panel(findings: &Findings) -> Option<Box<dyn PlotPanel + '_>> {
    match findings {
        Findings::Drift(rows) => Some(Box::new(drift::Drifts::new(rows))),
        Findings::Cost(rows) => Some(Box::new(cost::CostBars::new(rows))),
        Findings::Restore(rows) => Some(Box::new(restore::Restores(rows))),
        Findings::Updates(_)
        | Findings::Monotonic(_)
        | Findings::Offset(_)
        | Findings::Agreement(_)
        | Findings::Ticks(_)
        | Findings::Locks(_)
        | Findings::Network(_)
        | Findings::Linux(_)
        | Findings::Conformance => None,
    }
}

#[cfg(test)]
mod tests;
