//! The TSC marked unstable: why, told apart by the log's own numbers.
//!
//! The kernel's watchdog compares the TSC with another clock every half
//! second and gives it up for good when the two differ too much in one
//! interval (kernel/time/clocksource.c). That says that they differed, not
//! which of them was wrong: a busy host that delays one of the two reads, or
//! a yardstick that wraps, condemns a TSC without fault. The figures printed
//! with the verdict mostly tell.

mod cause;
mod interval;

use facts::kernel::{LogEvent, LogLine};

use self::cause::Cause;
use self::interval::Interval;
use crate::case::trust::is_tsc;
use crate::case::{Case, log_evidence};
use crate::finding::{Finding, Severity};
use crate::rule::{Check, Outcome};

/// `tsc-marked-unstable`
pub(crate) fn marked(case: &Case<'_>) -> Check {
    let log = case.log()?;
    let Some(at) = verdict_line(log) else {
        return Outcome::fine("the kernel log says nothing against the TSC");
    };
    let because = because(&log[at]);
    // Hyper-V's own page is used instead, as it should be.
    if because.contains("running on Hyper-V") {
        return Outcome::fine("not used under Hyper-V without an invariant TSC: normal");
    }
    if because.contains("boot parameter") {
        return Outcome::fine("as a parameter on the kernel command line asks");
    }
    let interval = Interval::after(case, log, at);
    let cause = Cause::of(case, log, at, because, interval.as_ref());
    let mut finding = Finding::new(
        severity(case),
        format!("The kernel found the TSC unstable: {}", cause.in_short()),
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
        "{} Until the next boot the kernel will not use the TSC, the cheapest clock there is.",
        cause.why()
    ));
    for remedy in cause.remedies(case) {
        finding = finding.remedy(remedy);
    }
    finding.alone()
}

/// The line that condemned the TSC: of several, the one that says most.
fn verdict_line(log: &[LogLine]) -> Option<usize> {
    let about_tsc = |line: &LogLine| match &line.event {
        LogEvent::MarkedUnstable { clocksource, because } => is_tsc(clocksource).then(|| {
            // arch/x86/kernel/tsc.c repeats the watchdog's verdict in a line
            // of its own, without a cause.
            !because.contains("clocksource watchdog")
        }),
        _ => None,
    };
    let position = |telling| log.iter().position(|line| about_tsc(line) == Some(telling));
    position(true).or_else(|| position(false))
}

/// The kernel's own reason.
fn because(line: &LogLine) -> &str {
    match &line.event {
        LogEvent::MarkedUnstable { because, .. } => because,
        _ => "",
    }
}

/// The verdict's line and those with its figures.
fn evidence(log: &[LogLine], at: usize) -> Vec<String> {
    let figures = log[at + 1..].iter().take(4).filter(|line| {
        matches!(line.event, LogEvent::WatchdogInterval { .. } | LogEvent::Skew { .. })
    });
    std::iter::once(&log[at]).chain(figures).map(log_evidence).collect()
}

/// Grave where the TSC would be the clock; worth knowing where the
/// hypervisor's page is.
fn severity(case: &Case<'_>) -> Severity {
    match case.current() {
        Ok("kvm-clock" | "hyperv_clocksource_tsc_page" | "xen") => Severity::Note,
        _ => Severity::Warning,
    }
}

#[cfg(test)]
mod tests;
