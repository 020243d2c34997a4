//! The report on a log alone.

use facts::kernel::LogEvent;
use facts::kernel::pasted::{Pasted, PrintedTimes};
use facts::{Fact, Facts};
use instruments::figures;

use crate::case::is_near_zone;
use crate::finding::{CheckState, Checked, Diagnosis, Finding, TimeState};
use crate::report::DoctorReport;
use crate::rule::RuleSelection;
use crate::rules::{OF_LOGS, named};
use crate::text;

/// The report on a log, by the rules that a log alone can answer unless some are named.
///
/// ```
/// use doctor::log::examine;
/// use doctor::rule::RuleSelection;
/// use facts::kernel::pasted::PastedLog;
///
/// let mut log = PastedLog::default();
/// log.push(b"[    0.9] clocksource: Switched to clocksource hpet\n");
/// let report = examine(log.finish(), &RuleSelection::default());
/// assert_eq!(report.machine.clocksource, "hpet");
/// ```
pub fn examine(pasted: Pasted, selection: &RuleSelection) -> DoctorReport {
    let mut selection = selection.clone();
    if selection.only.is_empty() {
        selection.only = OF_LOGS.map(str::to_owned).into();
    }
    let (note, trouble) = (limits(&pasted), pasted.trouble_lines);
    let printed_lines = pasted.printed_lines;
    let other = mentions(pasted.mentions);
    let (mut unclear, mut quoted) = (pasted.unread_lines, pasted.unread.clone());
    let stamps_back = stamps_back(&pasted);
    let printed = pasted.printed.clone();
    let shown = describe_lines(&pasted);
    let lines = pasted.lines;
    let log = pasted.log.clone();
    let mut report = DoctorReport::with_rules(facts_of(pasted), None, &selection);
    let diagnosis = &mut report.diagnosis;
    if diagnosis.time.state == TimeState::NotKnown {
        diagnosis.time.by = "a log does not show it".to_owned();
    }
    for entry in &mut diagnosis.checked {
        if entry.state == CheckState::InOrder
            && !log.iter().any(|line| judges(&entry.rule, &line.event))
        {
            entry.state = CheckState::NotChecked;
            entry.rests_on.clear();
            entry.outcome = "no line of the log is about it".to_owned();
        }
    }
    // A line that states it has more than the stamps.
    let states_it = |finding: &Finding| finding.what.contains(" back");
    if !diagnosis.findings.iter().any(states_it) {
        diagnosis.findings.extend(stamps_back);
    }
    // That two times cannot be compared is of use where nothing else is known.
    let is_alone = diagnosis.findings.is_empty() && printed.len() == 1;
    let of_use = printed.iter().filter(|times| is_alone || times.of != "printed-unsure");
    diagnosis.findings.extend(of_use.map(of_printed));
    diagnosis.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    // Only lines that are harmless in themselves, or that a rule found in order, clear a clock.
    let is_judged = |event: &LogEvent| {
        let in_order = |entry: &&Checked| entry.state == CheckState::InOrder;
        let mut rules = diagnosis.checked.iter().filter(in_order);
        !event.is_fault() || rules.any(|entry| judges(&entry.rule, event))
    };
    if diagnosis.findings.is_empty() {
        let unjudged = log.iter().filter(|line| !is_judged(&line.event));
        let unjudged: Vec<String> = unjudged.map(|line| line.text.trim().to_owned()).collect();
        unclear += unjudged.len() as u64;
        quoted.splice(..0, unjudged);
    }
    let verdict = match headline(diagnosis) {
        Some(headline) => headline,
        None if unclear > 0 => unjudged(unclear, lines, trouble, &quoted),
        None if printed_lines == 1 => {
            "1 line prints a time, and no other line contradicts it.".to_owned()
        }
        None if printed_lines > 1 => {
            format!("{printed_lines} lines print a time, and none contradicts another.")
        }
        None if log.is_empty() => {
            format!(
                "Of {}, doctor knows none: nothing is shown about the clock.{other}",
                text::count(lines as usize, "line", "lines")
            )
        }
        None => format!("{shown} no fault, which is not to say that the clock is right.{other}"),
    };
    diagnosis.verdict = format!("{verdict} {note}");
    diagnosis.findings.extend(unread(unclear, &quoted));
    report
}

/// `doctor cannot judge 2 lines about time of 9 lines`, with the first of them.
fn unjudged(unclear: u64, lines: u64, trouble: u64, quoted: &[String]) -> String {
    let speak = match trouble {
        0 => String::new(),
        n => format!("; {} of trouble", text::count(n as usize, "speaks", "speak")),
    };
    format!(
        "doctor cannot judge {} of {}, so this is no all-clear{speak}: \"{}\".",
        text::count(unclear as usize, "line about time", "lines about time"),
        text::count(lines as usize, "line", "lines"),
        quoted.first().map_or("", String::as_str)
    )
}

/// Lines of prose, source or commands that name a clock.
fn mentions(count: u64) -> String {
    if count == 0 {
        return String::new();
    }
    let lines = text::count(count as usize, "other line mentions", "other lines mention");
    format!(" {lines} time in words that doctor does not judge.")
}

/// The worst finding: the harm, and not how many there are.
fn headline(diagnosis: &Diagnosis) -> Option<String> {
    let (first, more) = diagnosis.findings.split_first()?;
    Some(match more.len() {
        0 => format!("{}.", first.what),
        n => format!("{} ({}).", first.what, text::count(n, "more finding", "more findings")),
    })
}

/// `17 of 209 lines are about clocks: they show`
fn describe_lines(pasted: &Pasted) -> String {
    let lines = figures::count(pasted.lines);
    match pasted.log.len() {
        1 => format!("1 of {lines} lines is about clocks and of a known form: it shows"),
        n => format!("{n} of {lines} lines are about clocks and of a known form: they show"),
    }
}

/// Times of day before the lines that go back: a clock that was set shows in them alone.
fn stamps_back(pasted: &Pasted) -> Option<Finding> {
    let back = pasted.stamps_back.as_ref()?;
    let zone = if is_near_zone(back.by_s) {
        " It is a whole number of hours except for the time between the lines, as a time zone is. Stamps \
         in local time go back by an hour when summer time ends; if it did not end then, the hardware \
         clock probably holds local time."
    } else {
        ""
    };
    let times =
        if back.times > 1 { format!(", {} times in all", back.times) } else { String::new() };
    let values = [("by", figures::seconds(back.by_s)), ("times", times), ("zone", zone.to_owned())];
    Some(of_stamps(named("log-stamps", &values), &back.lines))
}

/// What times show that the text prints for themselves, and stamps of a clock set at boot.
fn of_printed(times: &PrintedTimes) -> Finding {
    let side = if times.by_s > 0.0 { "ahead" } else { "behind" };
    let by = figures::seconds(times.by_s.abs());
    let values = [("by", by), ("side", side.to_owned()), ("year", times.year.to_string())];
    of_stamps(named(times.of, &values), &times.lines)
}

fn of_stamps(finding: Finding, lines: &[String]) -> Finding {
    let mut finding = finding.evidence_from(lines.iter().map(|line| format!("log: {line}")));
    finding.rule = "log-stamps".to_owned();
    finding.source = "facts: the lines' own stamps".to_owned();
    finding
}

/// Lines about time that no row of the catalogue takes, and, where nothing was found, those that
/// no rule judges.
fn unread(count: u64, lines: &[String]) -> Option<Finding> {
    let what = text::count(count as usize, "line about time", "lines about time");
    let lines = lines.iter().take(10).map(|line| format!("log: {line}"));
    let mut finding = named("log-unread", &[("lines", what)]).evidence_from(lines);
    finding.rule = "log-unread".to_owned();
    finding.source = "facts: messages.txt".to_owned();
    (count > 0).then_some(finding)
}

/// What a log does not show, in one line.
fn limits(pasted: &Pasted) -> String {
    let boots = match (pasted.is_several_boots, pasted.is_earlier_boot) {
        (_, true) => "The findings are of an earlier boot than the log's last.",
        (true, false) => "Lines of another boot or machine were left out.",
        _ => "",
    };
    let stopped = pasted.stopped.map(|why| format!("The log was not read to its end: {why}."));
    let unknown = "A log alone does not show whether the time is right now, the present clock \
                   source or the time daemon's state: run parachron doctor on the machine.";
    let parts = [stopped.as_deref().unwrap_or_default(), boots, unknown];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Whether an event is what a rule judges: without one it has checked nothing.
fn judges(rule: &str, event: &LogEvent) -> bool {
    match rule {
        "tsc-marked-unstable" => matches!(
            event,
            LogEvent::MarkedUnstable { .. }
                | LogEvent::TscFrequency { .. }
                | LogEvent::Switched { .. }
        ),
        "watchdog-late" => {
            matches!(event, LogEvent::WatchdogDelayed { .. } | LogEvent::WatchdogSkipped { .. })
        }
        "kvm-host-clock" => *event == LogEvent::GuestTscUnreliable,
        "tsc-frequency" => matches!(event, LogEvent::TscFrequency { .. }),
        "stalls" => matches!(
            event,
            LogEvent::Stall | LogEvent::CpuStuck { .. } | LogEvent::HrtimerLate { .. }
        ),
        "pauses-seen" => matches!(event, LogEvent::Restored | LogEvent::Resumed),
        "tsc-firmware" => *event == LogEvent::TscFault,
        "time-lost" => matches!(
            event,
            LogEvent::TicksLost { .. }
                | LogEvent::HypervisorStepped { .. }
                | LogEvent::HrtimerLate { .. }
                | LogEvent::Stated { .. }
        ),
        "daemon-steps" => matches!(
            event,
            LogEvent::DaemonStepped { .. }
                | LogEvent::DaemonFrequency { .. }
                | LogEvent::PtpReading { .. }
                | LogEvent::SourceSelected { .. }
                | LogEvent::Unsynchronised
                | LogEvent::DaemonSlewed { .. }
        ),
        _ => true,
    }
}

/// What the log shows of the machine; all else is unknown.
fn facts_of(pasted: Pasted) -> Facts {
    let mut facts = Facts::default();
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

    fn diagnosis(text: &str) -> Diagnosis {
        let mut log = PastedLog::default();
        log.push(text.as_bytes());
        examine(log.finish(), &RuleSelection::default()).diagnosis
    }

    #[test]
    fn a_log_without_a_line_about_clocks_puts_no_clock_in_order() {
        let verdict = diagnosis("a letter\nto a friend\n").verdict;
        assert!(verdict.starts_with("Of 2 lines, doctor knows none: nothing"), "{verdict}");
    }

    #[test]
    fn unread_lines_about_time_are_counted_and_quoted() {
        let text = "[1.0] foo: clock of bar is late\n[2.0] foo: nothing\n[3.0] the RTC lies\n";
        let diagnosis = diagnosis(text);
        let unclear = "doctor cannot judge 2 lines about time of 3 lines";
        assert!(diagnosis.verdict.starts_with(unclear), "{}", diagnosis.verdict);
        let unread = &diagnosis.findings[0];
        assert!(unread.what.starts_with("2 lines about time that doctor cannot judge"));
        assert!(unread.evidence[1].contains("the RTC lies"));
        assert!(diagnosis.checked.iter().all(|entry| entry.state != CheckState::InOrder));
    }

    /// What round 5 of first sight found false.
    #[test]
    fn no_clock_is_cleared_that_may_be_the_wrong_one() {
        const PAGE: &str =
            include_str!("../../../testdata/first-sight/round-5/kvm-clock-1339-us-chinese.txt");
        let page = diagnosis(PAGE).findings[0].why.clone();
        assert!(page.contains("kvm-clock, so the time of day may have been hit by it"), "{page}");
        assert!(!page.contains("was not hit"), "{page}");
        let stored = "systemd[1]: System time advanced to timestamp on /var/lib/systemd/timesync/clock: \
                      Wed 2026-09-16 12:58:58 MST\n";
        let stored = diagnosis(stored).findings[0].what.clone();
        assert!(stored.contains("that the time daemon had stored"), "{stored}");
        let built =
            "systemd[1]: System time advanced to built-in epoch: Tue 2026-01-06 12:00:00 UTC\n";
        assert!(diagnosis(built).findings[0].what.contains("before the system was built"));
        const FROZEN: &str =
            include_str!("../../../testdata/first-sight/round-5/twl6030-rtc-frozen.txt");
        let frozen = diagnosis(FROZEN);
        let has = |text: &str| {
            frozen.findings.iter().any(|one| one.what.contains(text) || one.why.contains(text))
        };
        assert!(has("held 2000-01-01, and the kernel set the clock to it"));
        assert!(has("lost its power") && has("or the RTC stands still"));
        assert!(has("stands still: two readings, at least 2 s apart"));
        assert!(!has("no clock is shown wrong") && !has("is not in the lines"));
    }

    #[test]
    fn a_table_of_servers_is_judged_or_quoted() {
        let heading = "     remote    refid   st t when poll reach   delay   offset  jitter\n";
        let row = "a 192.0.2.9 2 u 1 64 377 1.0 +148.03 4.0\n";
        for (text, wanted) in [
            (format!("{heading}*{row}"), "this clock is 148 ms behind the server that the time"),
            (format!("{heading} {row}"), "By a printed table the time daemon follows no server."),
            (heading.to_owned(), "doctor cannot judge 1 line about time of 1 line"),
        ] {
            let verdict = diagnosis(&text).verdict;
            assert!(verdict.contains(wanted), "{verdict}");
        }
    }

    #[test]
    fn printed_times_that_differ_are_never_called_equal() {
        const GUEST: &str =
            include_str!("../../../testdata/first-sight/round-5/wsl2-laptop-15-hours.txt");
        let guest = diagnosis(GUEST);
        assert!(guest.verdict.contains("14.9 h"), "{}", guest.verdict);
        let zones = "Mon Jun 17 19:06:58 CEST 2019\na\nMon Jun 17 17:00:58 EDT 2019\n";
        let unsure = diagnosis(zones);
        assert!(unsure.verdict.starts_with("Two lines print a time, and doctor cannot tell"));
        assert_eq!(unsure.findings[0].evidence.len(), 2);
        let later = "Mon Jun 17 19:06:58 CEST 2019\na\nb\nc\nMon Jun 17 19:16:58 CEST 2019\n";
        assert!(diagnosis(later).findings.is_empty());
        let alone = diagnosis("Mon Jun 17 19:06:58 CEST 2019\n").verdict;
        assert!(alone.starts_with("1 line prints a time, and no other line"), "{alone}");
    }

    #[test]
    fn the_firmware_of_a_guest_is_its_hosts() {
        let verdict = "[1.0] Marking TSC unstable due to check_tsc_sync_source failed\n";
        let blamed = |text: &str| diagnosis(text).findings[0].why.clone();
        assert!(blamed(verdict).contains("the hardware or firmware or"));
        let guest = format!("[0.0] Hypervisor detected: KVM\n{verdict}");
        assert!(blamed(&guest).contains("At fault: the host."), "{}", blamed(&guest));
    }
}
