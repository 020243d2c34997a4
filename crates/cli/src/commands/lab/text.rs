//! The report for people: the verdict, a summary, then each experiment's table and checks.

use lab::results::CheckTally;

use super::checks::Listed;
use super::{checks, tables};
use crate::commands::lab::LabReport;
use crate::output::number_of;
use crate::output::table::{width, wrap};

/// How much of the report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// One screen: what a person needs first, and the checks that failed.
    Short,
    /// All figures and checks.
    Whole,
}

/// The report; in colour or without.
pub(super) fn render(report: &LabReport, extent: Extent, colours: bool) -> String {
    let mut text = format!("{}\n{}", wrap(&verdict(report, extent), width()), heading(report));
    text.extend(["\n", &tables::summary(&report.lab).text()]);
    // Two hundred lines of checks that passed would hide one that failed.
    let listed = if extent == Extent::Whole { Listed::All } else { Listed::Failed };
    for outcome in &report.lab.experiments {
        if extent == Extent::Whole && !outcome.table.rows.is_empty() {
            text.extend(["\n", &tables::figures(&outcome.table).text()]);
        }
        if listed.checks(outcome).next().is_some() {
            text.extend(["\n", &checks::list(outcome, listed, colours)]);
        }
    }
    text
}

/// What the experiments ran on.
fn heading(report: &LabReport) -> String {
    let lab = &report.lab;
    let tsc = lab.host_tsc_hz as f64 / 1e6;
    let one_cpu = match report.machine.cpus {
        1 => {
            ". This process may use one CPU only: vCPUs take turns, so nothing here shows how \
             their clocks agree; run it on two (`taskset`, or give the machine more)"
        }
        _ => "",
    };
    let run = format!(
        "Virtual machines on /dev/kvm, host TSC {tsc:.3} MHz; from a machine's start to its \
         guest's first report {:.1} ms{one_cpu}",
        lab.boot_ms
    );
    format!("{}\n{}\n", report.machine.line(), wrap(&run, width()))
}

/// The first sentence.
fn verdict(report: &LabReport, extent: Extent) -> String {
    let tally = CheckTally::total(&report.lab);
    let not_run = match report.lab.not_run.len() {
        0 => String::new(),
        experiments => format!(" Experiments that could not run: {experiments}."),
    };
    let rest = match extent {
        Extent::Short => " All figures and checks: --verbose.",
        Extent::Whole => "",
    };
    format!("{}: {tally}.{not_run}{rest}", number_of(tally.checks() as u64, "check"))
}
