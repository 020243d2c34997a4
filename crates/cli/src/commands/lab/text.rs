//! The report for people: each experiment's table and checks, then a summary.

use lab::results::CheckTally;

use super::checks::Listed;
use super::report::LabReport;
use super::{checks, summary, tables};
use crate::output::table::{width, wrap};

/// The whole report; in colour or without.
pub(super) fn render(report: &LabReport, colours: bool) -> String {
    let mut text = heading(report);
    let is_single = is_single(report);
    // Two hundred lines of checks that passed would hide one that failed.
    let listed = if is_single { Listed::All } else { Listed::NotPassed };
    for outcome in &report.lab.experiments {
        let both = [tables::figures(outcome), tables::moved(outcome)];
        for table in both.into_iter().flatten().filter(|table| !table.is_empty()) {
            text.extend(["\n", &table.text()]);
        }
        if !outcome.checks.is_empty() {
            text.extend(["\n", &checks::list(outcome, listed, colours)]);
        }
    }
    if !is_single {
        text.extend(["\n", &summary::table(&report.lab).text()]);
    }
    text.extend(["\n", &wrap(&verdict(report), width()), "\n"]);
    text
}

fn is_single(report: &LabReport) -> bool {
    report.lab.experiments.len() + report.lab.not_run.len() == 1
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

/// The last sentence.
fn verdict(report: &LabReport) -> String {
    let tally = CheckTally::total(&report.lab);
    let not_run = match report.lab.not_run.len() {
        0 => String::new(),
        experiments => format!(" Experiments that could not run: {experiments}."),
    };
    let rest = if is_single(report) {
        ""
    } else {
        " To list the checks that passed as well, run a single experiment, such as `parachron lab \
         drift`."
    };
    format!("{} checks: {tally}.{not_run}{rest}", tally.checks())
}
