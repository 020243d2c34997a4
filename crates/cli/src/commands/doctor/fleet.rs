//! Several captured folders at once: a summary by finding, then each machine.

use std::fmt::Write as _;
use std::process::ExitCode;

use doctor::fleet::{FleetReport, SharedFinding};
use doctor::report::DoctorReport;
use doctor::report_text::{self, ReportExtent, name_of};
use doctor::selection::RuleSelection;

use super::{Args, DoctorOutput, examined, exit_code};
use crate::error::{COULD_NOT, CliError};
use crate::output::table::{width, wrap};
use crate::output::{self, Format, number_of, printable};

/// Machines named in a line of the summary; the JSON names all.
const NAMED: usize = 8;

/// Examines all folders. One that cannot be read costs only itself, and the
/// exit code.
pub(super) fn run(args: &Args, selection: &RuleSelection) -> Result<ExitCode, CliError> {
    let mut reports = Vec::new();
    let mut failures = Vec::new();
    for folder in &args.root {
        match examined(folder, selection) {
            Ok(report) => reports.push(report),
            Err(error) => failures.push(error),
        }
    }
    let fleet = FleetReport::new(reports);
    let code = if failures.is_empty() {
        exit_code(fleet.machines.iter().map(|report| &report.diagnosis), args.fail_on)
    } else {
        ExitCode::from(COULD_NOT)
    };
    match args.format {
        Format::Text => output::text(&text(&fleet, args.verbose, output::colours()))?,
        Format::Json => output::json(&DoctorOutput::Fleet(fleet))?,
    }
    for failure in &failures {
        failure.print();
    }
    Ok(code)
}

/// `3 of 12: a, b, c`
fn machines(shared: &SharedFinding, all: usize) -> String {
    let named: Vec<&str> = shared.machines.iter().take(NAMED).map(String::as_str).collect();
    let more = shared.machines.len() - named.len();
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{} of {all}: {}{rest}", shared.machines.len(), named.join(", "))
}

/// `12 machines: 5 with findings, 7 without`
fn heading(fleet: &FleetReport) -> String {
    let (all, fine) = (fleet.machines.len(), fleet.without_findings.len());
    let unchecked = fleet.not_checked.len();
    let rest = if unchecked == 0 {
        String::new()
    } else {
        format!(", {unchecked} on which no rule could be checked")
    };
    let machines = number_of(all as u64, "machine");
    format!("{machines}: {} with findings, {fine} without{rest}", all - fine - unchecked)
}

/// The summary; with `verbose` each machine's report after it.
fn text(fleet: &FleetReport, verbose: bool, colours: bool) -> String {
    let mut page = heading(fleet) + ".\n";
    // Each first line of a finding has a blank one before it.
    let mut put = |first: &str, words: &str| {
        let gap = if first.starts_with(char::is_alphabetic) { "\n" } else { "" };
        page.push_str(gap);
        let width = width() - 9;
        for (i, line) in wrap(&printable(words), width).lines().enumerate() {
            let _ = writeln!(page, "{:<9}{line}", if i == 0 { first } else { "" });
        }
    };
    for shared in &fleet.summary {
        put(name_of(shared.severity), &shared.what);
        put("", &format!("on {}", machines(shared, fleet.machines.len())));
        if let Some(first) = &shared.first {
            put("  →", &first.what);
            if let Some(command) = &first.command {
                put("", command);
            }
        }
        put("", &shared.rule);
    }
    if !fleet.without_findings.is_empty() && !fleet.summary.is_empty() {
        put("Fine", &fleet.without_findings.join(", "));
    }
    if !fleet.not_checked.is_empty() {
        put("Unknown", &fleet.not_checked.join(", "));
    }
    if verbose {
        for report in &fleet.machines {
            let _ = write!(
                page,
                "\n{}\n\n{}",
                title(report),
                report_text::render(report, ReportExtent::Whole, output::screen(colours))
            );
        }
    } else {
        page.push_str("\nAdd --verbose for each machine's report.\n");
    }
    page
}

/// `web-1 ═════…`
fn title(report: &DoctorReport) -> String {
    let name = printable(report.origin.name());
    let rest = width().saturating_sub(name.chars().count() + 1);
    format!("{name} {}", "═".repeat(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::tests::report;

    fn fleet() -> FleetReport {
        let names =
            ["virtualbox-acpi-pm", "kvm-guest-hpet-tsc-unstable", "healthy-kvm-guest", "no-sys"];
        FleetReport::new(names.map(report).into())
    }

    #[test]
    fn the_summary_says_what_to_do_first_and_where() {
        insta::assert_snapshot!(text(&fleet(), false, false));
    }

    #[test]
    fn of_many_machines_a_line_names_some() {
        let mut shared = fleet().summary.remove(0);
        shared.machines = (0..20).map(|n| format!("vm{n}")).collect();
        let named = machines(&shared, 30);
        assert_eq!(named, "20 of 30: vm0, vm1, vm2, vm3, vm4, vm5, vm6, vm7 and 12 more");
    }
}
