//! What lines state of a clock in words: one finding for each statement, by the table
//! statements.txt.

use std::sync::LazyLock;

use facts::kernel::version::date;
use facts::kernel::{LogEvent, LogLine};
use instruments::figures;

use crate::case::Case;
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies::READ_ONLY;
use crate::text;

/// The table; its heading describes the form.
const TABLE: &str = include_str!("statements.txt");

/// A statement's finding.
struct StatementText {
    name: &'static str,
    severity: Severity,
    /// Smaller sizes are of a healthy clock, s.
    least_s: f64,
    what: &'static str,
    why: &'static str,
    remedies: Vec<&'static str>,
}

static STATEMENTS: LazyLock<Vec<StatementText>> =
    LazyLock::new(|| TABLE.split("\n== ").skip(1).filter_map(StatementText::parse).collect());

impl StatementText {
    fn parse(part: &'static str) -> Option<Self> {
        let mut lines = part.lines();
        let mut head = lines.next()?.split(" | ");
        let (name, severity) = (head.next()?, head.next()?);
        let severity = if severity == "note" { Severity::Note } else { Severity::Warning };
        let least_s = head.next().and_then(|least| least.parse().ok()).unwrap_or(0.0);
        let (what, why) = (lines.next()?, lines.next()?);
        let remedies = lines.filter_map(|line| line.strip_prefix("- ")).collect();
        Some(Self { name, severity, least_s, what, why, remedies })
    }

    fn finding(&self, log: &[LogLine]) -> Option<Finding> {
        let size_s = |line: &LogLine| match &line.event {
            LogEvent::Stated { of, by_s } if of == self.name => Some(*by_s),
            _ => None,
        };
        let is_large = |line: &&LogLine| {
            size_s(line).is_some_and(|by_s| by_s.is_none_or(|by_s| by_s >= self.least_s))
        };
        let lines: Vec<&LogLine> = log.iter().filter(is_large).collect();
        let sizes: Vec<f64> = lines.iter().filter_map(|line| size_s(line)?).collect();
        let (first, last) = (lines.first()?, lines.last()?);
        let largest = sizes.iter().copied().reduce(f64::max);
        let size = |before: &str| match largest {
            Some(s) if sizes.len() > 1 => format!("{before} up to {}", figures::seconds(s)),
            Some(s) => format!("{before} {}", figures::seconds(s)),
            None => String::new(),
        };
        let mut what = self.what.replace("{by}", &size(" by")).replace("{for}", &size(" for"));
        what = what.replace("{size}", &size(""));
        if lines.len() > 1 {
            let span_s = first.at_s.zip(last.at_s).and_then(|(first, last)| span_s(first, last));
            let span = span_s.map_or_else(String::new, |s| format!(" in {}", figures::seconds(s)));
            what = format!("{what} ({}{span})", text::count(lines.len(), "time", "times"));
        }
        let remedies = self.remedies.iter().map(|line| remedy(line));
        Some(
            Finding::new(self.severity, what)
                .evidence_from(
                    lines.iter().take(3).map(|line| format!("log: {}", line.text.trim())),
                )
                .explain(self.why)
                .remedies(remedies),
        )
    }
}

/// The time between two stamps, unless one is since boot and the other a date.
fn span_s(one_s: f64, other_s: f64) -> Option<f64> {
    let year_s = 31_557_600.0;
    ((one_s < year_s) == (other_s < year_s)).then_some((other_s - one_s).abs())
}

/// `Compare the clock with NTP. | chronyc tracking | reads`
fn remedy(line: &'static str) -> Remedy {
    let mut parts = line.split(" | ");
    let what = parts.next().unwrap_or_default();
    let Some(command) = parts.next() else { return Remedy::advice(what) };
    let remedy = Remedy { command: Some(command.replace("\\|", "|")), ..Remedy::advice(what) };
    match parts.next() {
        Some("reads") => remedy.changes(READ_ONLY),
        Some(changes) => remedy.changes(changes),
        None => remedy,
    }
}

/// All that lines of a log state; the RTC's date on a machine has the kernel's build as its judge.
pub(super) fn findings(case: &Case<'_>, log: &[LogLine]) -> Vec<Finding> {
    let mut findings: Vec<_> =
        STATEMENTS.iter().filter_map(|statement| statement.finding(log)).collect();
    findings.extend(case.is_log_alone().then(|| unset_rtc(log)).flatten());
    findings
}

/// The kernel's line about the RTC is younger: it is in Linux since 2.6.17, of June 2006.
const OLDEST_S: i64 = 1_136_073_600;

/// An RTC that had lost its time, from which the kernel set the clock.
fn unset_rtc(log: &[LogLine]) -> Option<Finding> {
    let (line, unix_s) = log.iter().find_map(|line| match line.event {
        LogEvent::Rtc { unix_s: Some(unix_s) } if unix_s < OLDEST_S => Some((line, unix_s)),
        _ => None,
    })?;
    let date = date(unix_s);
    // The stamp of a line before, if it has a year, is from before that.
    let before = log.iter().take_while(|other| !std::ptr::eq(*other, line));
    let back = before.filter_map(|line| line.at_s).last().map(|at_s| at_s - unix_s as f64);
    let back = back.filter(|s| *s > 86_400.0);
    let by = back.map_or_else(String::new, |s| format!(", back by {}", figures::seconds(s)));
    Some(
        Finding::new(
            Severity::Error,
            format!("The hardware clock held {date}, and the kernel set the clock to it{by}"),
        )
        .evidence(format!("log: {}", line.text.trim()))
        .explain(
            "No machine of that date has this line: the hardware clock had lost its time, for want              of a battery. A driver that is loaded late (as a module) sets back a clock that the              system had already moved to its build's date. At fault: the hardware clock.",
        )
        .remedy(
            Remedy::command(
                "Set the clock by a time daemon, and write it to the hardware clock; replace the                  battery.",
                "sudo hwclock --systohc",
            )
            .changes("the hardware clock, until it is set again"),
        )
        .remedy(Remedy::advice(
            "Build the kernel with CONFIG_RTC_HCTOSYS off, or the driver into the kernel, if the              hardware clock keeps no time.",
        )),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The names in the catalogue are those of the table.
    #[test]
    fn each_statement_of_the_catalogue_has_its_text() {
        let catalogue = include_str!("../../../facts/src/kernel/messages.txt");
        let (rows, rest) = catalogue.split_once("\n== sentences\n").expect("a part");
        let (sentences, _) = rest.split_once("\n\n").expect("a part");
        let in_rows = rows.lines().filter_map(|line| line.strip_prefix("stated of="));
        let names: BTreeSet<_> =
            in_rows.chain(sentences.lines()).filter_map(|line| line.split(" | ").next()).collect();
        let texts: BTreeSet<_> = STATEMENTS.iter().map(|statement| statement.name).collect();
        let names: BTreeSet<_> = names.into_iter().filter(|name| *name != "clock-moved").collect();
        assert_eq!(names, texts);
        assert!(STATEMENTS.iter().all(|statement| statement.why.contains("At fault: ")));
    }
}
