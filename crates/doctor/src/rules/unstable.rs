//! The TSC marked unstable: the causes, distinguished by the log's figures.
//!
//! The kernel's watchdog compares the TSC with another clock every half
//! second and marks it unstable for good when the two differ too much in one
//! interval (kernel/time/clocksource.c). That shows that they differed, not
//! which was wrong: a busy host that delays one of the two reads, or a
//! reference that wraps, can condemn a TSC without fault. The figures in the
//! log mostly show the cause.

mod cause;
mod explanation;
mod interval;

use facts::kernel::{LogEvent, LogLine};

use self::cause::Cause;
use self::interval::Interval;
use crate::case::trust::is_tsc;
use crate::case::{Case, log_evidence};
use crate::finding::{Finding, Severity};
use crate::outcome::{Check, Outcome};

/// `tsc-marked-unstable`
pub(crate) fn marked(case: &Case<'_>) -> Check {
    let log = case.log()?;
    let Some(at) = verdict_line(log) else {
        return Outcome::fine("the kernel log does not mark the TSC unstable");
    };
    let because = because(&log[at]);
    // Hyper-V's page is used instead, as it should be.
    if because.contains("running on Hyper-V") {
        return Outcome::fine("normal under Hyper-V without an invariant TSC");
    }
    if because.contains("boot parameter") {
        return Outcome::fine("by a parameter on the kernel command line");
    }
    let interval = Interval::after(case, log, at);
    let cause = Cause::of(case, log, at, because, interval.as_ref());
    let mut finding = Finding::new(
        severity(case),
        format!("The kernel marked the TSC unstable: {}", explanation::in_short(&cause)),
    );
    for line in evidence(log, at) {
        finding = finding.evidence(line);
    }
    if let Some(interval) = &interval {
        finding = finding.evidence(interval.sum());
    }
    for line in cause.context(case, log, at) {
        finding = finding.evidence(line);
    }
    finding = finding.why(format!(
        "{} Until the next boot the kernel does not use the TSC, the cheapest clock source.",
        explanation::why(&cause)
    ));
    for remedy in explanation::remedies(&cause, case) {
        finding = finding.remedy(remedy);
    }
    finding.alone()
}

/// The line that marked the TSC unstable: of several, one with a cause.
fn verdict_line(log: &[LogLine]) -> Option<usize> {
    let about_tsc = |line: &LogLine| match &line.event {
        LogEvent::MarkedUnstable { clocksource, because } => is_tsc(clocksource).then(|| {
            // arch/x86/kernel/tsc.c repeats the watchdog's verdict in another
            // line, without a cause.
            !because.contains("clocksource watchdog")
        }),
        _ => None,
    };
    let position = |has_cause| log.iter().position(|line| about_tsc(line) == Some(has_cause));
    position(true).or_else(|| position(false))
}

/// The kernel's reason.
fn because(line: &LogLine) -> &str {
    match &line.event {
        LogEvent::MarkedUnstable { because, .. } => because,
        _ => "",
    }
}

/// The verdict's line and the lines with its figures.
fn evidence(log: &[LogLine], at: usize) -> Vec<String> {
    let figures = log[at + 1..].iter().take(4).filter(|line| {
        matches!(line.event, LogEvent::WatchdogInterval { .. } | LogEvent::Skew { .. })
    });
    std::iter::once(&log[at]).chain(figures).map(log_evidence).collect()
}

/// A warning where the TSC would be the clock source; a note where the
/// hypervisor's page is.
fn severity(case: &Case<'_>) -> Severity {
    match case.current() {
        Ok("kvm-clock" | "hyperv_clocksource_tsc_page" | "xen") => Severity::Note,
        _ => Severity::Warning,
    }
}

#[cfg(test)]
mod tests;
