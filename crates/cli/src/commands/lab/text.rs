//! The report for people: each experiment's table and checks, then one table
//! of them all.

use lab::results::RanOn;

use super::checks::Listed;
use super::report::{LabReport, Tally};
use super::{checks, summary, tables};
use crate::output::Format;
use crate::output::table::{WIDTH, wrap};

/// The whole report; in colour or without.
pub(super) fn render(report: &LabReport, format: Format, colours: bool) -> String {
    let mut text = heading(report);
    let alone = report.lab.experiments.len() + report.not_made.len() == 1;
    // Some two hundred lines of what is as it must be hide what is not.
    let listed = if alone { Listed::All } else { Listed::NotPassed };
    for outcome in &report.lab.experiments {
        if let Some(table) = tables::of(outcome).filter(|table| !table.is_empty()) {
            text.extend(["\n", &table.render(format)]);
        }
        if !outcome.checks.is_empty() {
            text.extend(["\n", &checks::render(outcome, format, listed, colours)]);
        }
    }
    if !alone {
        text.extend(["\n", &summary::table(report).render(format)]);
    }
    text.extend(["\n", &wrap(&verdict(report), usize::from(WIDTH)), "\n"]);
    text
}

/// Where all of it ran.
fn heading(report: &LabReport) -> String {
    let lab = &report.lab;
    let ran_on = match &lab.ran_on {
        RanOn::Kvm => "Virtual machines on /dev/kvm".to_owned(),
        RanOn::InProcess(why) => format!("In process, no KVM ({why})"),
    };
    let boot = lab.boot_ms.map_or(String::new(), |ms| {
        format!("; from a machine's start to its guest's first report {ms:.1} ms")
    });
    let tsc = lab.host_tsc_hz as f64 / 1e6;
    let one_cpu = match (&lab.ran_on, report.machine.cpus) {
        (RanOn::Kvm, 1) => {
            ". This process may use one CPU: vCPUs take turns, so nothing here tells how their \
             clocks go together; give it two (`taskset`, the machine's own number)"
        }
        _ => "",
    };
    let run = format!("{ran_on}, host TSC {tsc:.3} MHz{boot}{one_cpu}");
    format!("{}\n{}\n", report.machine.line(), wrap(&run, usize::from(WIDTH)))
}

/// The end, in a sentence.
fn verdict(report: &LabReport) -> String {
    let tally = Tally::total(report);
    let all = tally.passed + tally.failed + tally.not_measured;
    let not_made = match report.not_made.len() {
        0 => String::new(),
        experiments => format!(" Experiments that could not be made: {experiments}."),
    };
    let alone = report.lab.experiments.len() + report.not_made.len() == 1;
    let rest = if alone { "" } else { " An experiment by itself lists those that passed too." };
    format!("{all} checks: {tally}.{not_made}{rest}")
}
