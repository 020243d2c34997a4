#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod exports;

use doctor::finding::Diagnosis;
use doctor::report_text::{ReportExtent, TextScreen, render};
use doctor::rule::RuleSelection;
use facts::kernel::pasted::Pasted;
use serde::Serialize;

/// What the page shows.
#[derive(Debug, Serialize)]
struct ShownVerdict<'d> {
    /// Lines in the log, about clocks or not.
    lines: u64,
    /// How many of them are about clocks, of the boot that was judged.
    about_clocks: usize,
    diagnosis: &'d Diagnosis,
    /// The output of `parachron doctor --log -`.
    text: String,
}

/// The verdict on a log, as JSON.
pub fn verdict(log: Pasted) -> Vec<u8> {
    let (lines, about_clocks) = (log.lines, log.log.len());
    let report = doctor::log::examine(log, &RuleSelection::default());
    let text = render(&report, ReportExtent::Page, TextScreen::PLAIN);
    let shown = ShownVerdict { lines, about_clocks, diagnosis: &report.diagnosis, text };
    serde_json::to_vec(&shown).unwrap_or_default()
}

#[cfg(test)]
mod tests;
