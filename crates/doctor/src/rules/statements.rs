//! The findings on logs, whose words are in the table statements.txt, and those on what lines
//! state of a clock in words: one for each statement.

use std::sync::LazyLock;

use facts::kernel::version::date;
use facts::kernel::{LogEvent, LogLine};
use instruments::figures;

use crate::case::Case;
use crate::fault;
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
    /// With the kind of machine that each is for, where it is not for all.
    remedies: Vec<(Option<bool>, &'static str)>,
}

static STATEMENTS: LazyLock<Vec<StatementText>> =
    LazyLock::new(|| TABLE.split("\n== ").skip(1).filter_map(StatementText::parse).collect());

impl StatementText {
    fn parse(part: &'static str) -> Option<Self> {
        let mut lines = part.lines();
        let mut head = lines.next()?.split(" | ");
        let (name, severity) = (head.next()?, head.next()?);
        let severity = self::severity(severity)?;
        let least_s = head.next().map_or(Some(0.0), |least| least.parse().ok())?;
        let (what, why) = (lines.next()?, lines.next()?);
        let remedies = lines.filter_map(|line| match line.split_at_checked(2)? {
            ("- ", remedy) => Some((None, remedy)),
            ("-g", remedy) => Some((Some(true), remedy.trim_start())),
            ("-m", remedy) => Some((Some(false), remedy.trim_start())),
            _ => None,
        });
        let remedies = remedies.collect();
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
            let span_s = span_s.filter(|s| *s >= 1e-3);
            let span = span_s.map_or_else(String::new, |s| format!(" in {}", figures::seconds(s)));
            what = format!("{what} ({}{span})", text::count(lines.len(), "time", "times"));
        }
        let lines = lines.iter().take(3).map(|line| format!("log: {}", line.text.trim()));
        Some(self.with_values(&[], None, Some(what)).evidence_from(lines))
    }

    /// The finding, with values in the place of their names; of a guest, or not.
    fn with_values(
        &self,
        values: &[(&str, String)],
        is_guest: Option<bool>,
        what: Option<String>,
    ) -> Finding {
        let blames = [
            ("hardware", fault::hardware(is_guest)),
            ("host", fault::HOST),
            ("load", fault::LOAD),
            ("not-shown", fault::NOT_SHOWN),
            ("other-program", fault::OTHER_PROGRAM),
            ("page", fault::PAGE),
            ("reference", fault::REFERENCE),
            ("slow-reference", fault::SLOW_REFERENCE),
            ("ticks", fault::TICKS),
        ];
        let fill = |text: &str| {
            let text = values.iter().fold(text.to_owned(), |text, (name, value)| {
                text.replace(&format!("{{{name}}}"), value)
            });
            blames
                .iter()
                .fold(text, |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
        };
        let is_for = |of: &Option<bool>| of.is_none_or(|of| of == (is_guest == Some(true)));
        let remedies = self.remedies.iter().filter(|(of, _)| is_for(of));
        Finding::new(self.severity, what.unwrap_or_else(|| fill(self.what)))
            .explain(fill(self.why))
            .remedies(remedies.map(|(_, line)| remedy(line)))
    }
}

/// A severity by its name in a table.
pub(super) fn severity(name: &str) -> Option<Severity> {
    Some(match name {
        "note" => Severity::Note,
        "warning" => Severity::Warning,
        "error" => Severity::Error,
        _ => return None,
    })
}

/// A finding of the table, with values in the place of their names.
pub(crate) fn named(name: &str, values: &[(&str, String)]) -> Finding {
    named_for(name, values, None)
}

/// The same of a guest, or of a machine that is none.
pub(crate) fn named_for(name: &str, values: &[(&str, String)], is_guest: Option<bool>) -> Finding {
    let named = STATEMENTS.iter().find(|statement| statement.name == name);
    debug_assert!(named.is_some(), "the table has no {name}");
    let unknown = || Finding::new(Severity::Note, name);
    named.map_or_else(unknown, |statement| statement.with_values(values, is_guest, None))
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
    let command = (!command.is_empty()).then(|| command.replace("\\|", "|"));
    let remedy = Remedy { command, ..Remedy::advice(what) };
    match parts.next() {
        Some("reads") => remedy.changes(READ_ONLY),
        Some(changes) => remedy.changes(changes),
        None => remedy,
    }
}

/// All that lines of a log state; the RTC's date on a machine has the kernel's build as its judge.
pub(super) fn findings(case: &Case<'_>, log: &[LogLine]) -> Vec<Finding> {
    // Of a daemon's step its own finding has the size.
    let is_step = |line: &LogLine| matches!(line.event, LogEvent::DaemonStepped { .. });
    let is_stepped = log.iter().any(is_step);
    let is_of_step = |name: &str| is_stepped && matches!(name, "clock-behind" | "clock-ahead");
    let (mut findings, mut is_recovered) = (Vec::new(), false);
    for statement in STATEMENTS.iter().filter(|statement| !is_of_step(statement.name)) {
        let is_over = TRANSIENT.contains(&statement.name) && has_recovered(log, statement.name);
        match statement.finding(log) {
            Some(_) if is_over && is_recovered => {}
            Some(finding) if is_over => {
                is_recovered = true;
                findings.push(named("recovered", &[]).evidence_from(finding.evidence));
            }
            found => findings.extend(found),
        }
    }
    findings.extend(case.is_log_alone().then(|| unset_rtc(log)).flatten());
    findings
}

/// States of a daemon that end when it follows a server.
const TRANSIENT: [&str; 7] = [
    "no-server",
    "server-unfit",
    "server-silent",
    "unsynced",
    "sync-failed",
    "no-consensus",
    "daemon-failed",
];

/// Units, or their descriptions, which systemd logs alone before 250, and what their daemons log of
/// a server that they follow.
const FOLLOWING: [(&str, &str); 4] = [
    ("chrony|NTP client", "Selected source"),
    ("timesyncd|Network Time Sync", "time server"),
    ("timesyncd|Network Time Sync", "Initial clock"),
    ("ntp|Network Time Service", "synchronized to"),
];

fn states(line: &LogLine, name: &str) -> bool {
    matches!(&line.event, LogEvent::Stated { of, .. } if of == name)
}

/// As a line of a table shows a server that is followed.
const FOLLOWED: &str = "servers-followed";

/// Whether a daemon follows a server by the last line that is about one; that shows of no other
/// daemon that it runs again.
fn has_recovered(log: &[LogLine], name: &str) -> bool {
    let is_about = |line: &&LogLine| match &line.event {
        LogEvent::SourceSelected { .. } | LogEvent::SourceLost { .. } => true,
        LogEvent::Stated { of, .. } => of == FOLLOWED || TRANSIENT.contains(&&**of),
        event => matches!(event, LogEvent::NoSource | LogEvent::Unsynchronised),
    };
    let stated = log.iter().rfind(|line| states(line, name));
    log.iter().rfind(is_about).zip(stated).is_some_and(|(last, stated)| {
        let mut pairs = FOLLOWING.iter();
        let is_its = |(units, follows): &(&str, &str)| {
            units.split('|').any(|unit| stated.text.contains(unit)) && last.text.contains(follows)
        };
        (states(last, FOLLOWED) || matches!(last.event, LogEvent::SourceSelected { .. }))
            && (name != "daemon-failed" || pairs.any(is_its))
    })
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
    let back = before.filter_map(|line| line.at_s).filter(|at_s| *at_s >= OLDEST_S as f64);
    let back = back.last().map(|at_s| at_s - unix_s as f64);
    let back = back.filter(|s| *s > 86_400.0);
    let by = back.map_or_else(String::new, |s| format!(", back by {}", figures::seconds(s)));
    let finding = named("rtc-unset", &[("date", date), ("by", by)]);
    Some(finding.evidence(format!("log: {}", line.text.trim())))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The names in the catalogue are those of the table.
    #[test]
    fn each_statement_of_the_catalogue_has_its_text() {
        assert_eq!(STATEMENTS.len(), TABLE.matches("\n== ").count());
        let catalogue = include_str!("../../../facts/src/kernel/messages.txt");
        let in_rows = catalogue.lines().filter_map(|line| line.strip_prefix("stated of="));
        let names: BTreeSet<_> = in_rows.filter_map(|line| line.split(" | ").next()).collect();
        let named = [
            include_str!("log_events.rs"),
            include_str!("statements.rs"),
            include_str!("daemon_steps.rs"),
            include_str!("daemon_steps/events.rs"),
            include_str!("daemon_steps/readings.rs"),
            include_str!("daemon_steps/single.rs"),
            include_str!("daemon_steps/tools.rs"),
            include_str!("tsc/calibrations.rs"),
            include_str!("unstable.rs"),
            include_str!("unstable/explanation.rs"),
            include_str!("../log.rs"),
            include_str!("../../../facts/src/kernel/pasted/printed.rs"),
            include_str!("../../../facts/src/kernel/pasted/rtc_reads.rs"),
            include_str!("../../../facts/src/kernel/pasted/servers.rs"),
            include_str!("../../../facts/src/kernel/pasted/stamps.rs"),
        ]
        .concat();
        let is_named = |name: &&str| named.contains(&format!("\"{name}\""));
        let texts = STATEMENTS.iter().map(|statement| statement.name);
        let texts: BTreeSet<_> =
            texts.filter(|name| names.contains(name) || !is_named(name)).collect();
        let has_direction = |name: &&str| !["clock-moved", "clock-off"].contains(name);
        let names: BTreeSet<_> = names.into_iter().filter(has_direction).collect();
        assert_eq!(names, texts);
        let is_open = |why: &str| why.contains("{why}") || why.contains("does not know");
        for statement in STATEMENTS.iter() {
            let why = statement.with_values(&[], None, None).why;
            assert!(why.contains("At fault: ") || is_open(&why), "{}: {why}", statement.name);
        }
    }
}
