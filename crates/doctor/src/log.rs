//! The report on a log alone.

use facts::kernel::LogEvent;
use facts::kernel::pasted::Pasted;
use facts::{Fact, Facts, Unknown};

use crate::report::DoctorReport;
use crate::rules::OF_LOGS;
use crate::selection::RuleSelection;

/// The report on a log, by the rules that a log alone can answer unless some are named.
///
/// ```
/// use doctor::log::examine;
/// use doctor::selection::RuleSelection;
/// use facts::kernel::pasted::PastedLog;
///
/// let mut log = PastedLog::default();
/// log.push(b"[    0.9] clocksource: Switched to clocksource hpet\n");
/// let report = examine(log.finish(), &RuleSelection::default());
/// assert_eq!(report.machine.clocksource, "hpet");
/// ```
pub fn examine(pasted: Pasted, selection: &RuleSelection) -> DoctorReport {
    let (note, shows_nothing) = (limits(&pasted), pasted.log.is_empty());
    let mut selection = selection.clone();
    if selection.only.is_empty() {
        selection.only = OF_LOGS.map(str::to_owned).into();
    }
    let mut report = DoctorReport::with_rules(facts_of(pasted), None, &selection);
    // No finding in a log without a line about clocks does not put the clock in order.
    report.diagnosis.verdict =
        if shows_nothing { note } else { format!("{} {note}", report.diagnosis.verdict) };
    report
}

/// What a log does not show, in one line.
fn limits(pasted: &Pasted) -> String {
    let boots = if pasted.is_several_boots {
        "Lines of another boot or machine were left out."
    } else {
        ""
    };
    let found = match pasted.log.len() {
        0 => format!("None of {} lines is about clocks.", pasted.lines),
        _ => String::new(),
    };
    let unknown = "A log alone does not show the present clock source, the time daemon's state or \
                   any measurement: run parachron doctor on the machine.";
    let parts = [found.as_str(), boots, unknown];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// What the log shows of the machine; all else is unknown.
fn facts_of(pasted: Pasted) -> Facts {
    let mut facts = Facts::unknown(&Unknown::NotInLog);
    let switched = pasted.log.iter().rev().find_map(|line| match &line.event {
        LogEvent::Switched { to } => Some(to.clone()),
        _ => None,
    });
    if let Some(current) = switched {
        facts.clocksources.current = Fact::Known(current);
    }
    if let Some(release) = pasted.release {
        facts.kernel.release = Fact::Known(release);
    }
    facts.kernel.log = Fact::Known(pasted.log);
    facts
}

#[cfg(test)]
mod tests {
    use facts::kernel::pasted::PastedLog;

    use super::*;

    #[test]
    fn a_log_without_a_line_about_clocks_puts_no_clock_in_order() {
        let mut log = PastedLog::default();
        log.push(b"a letter\nto a friend\n");
        let verdict = examine(log.finish(), &RuleSelection::default()).diagnosis.verdict;
        assert!(verdict.starts_with("None of 2 lines is about clocks. A log alone"), "{verdict}");
    }
}
