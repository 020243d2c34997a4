//! The status as people read it.

use daemon::status::{ClockReport, DaemonStatus, GateState, GateStatus, NextAction, SourceStatus};
use daemon::words::date_and_time;
use disruptions::text::span;
use instruments::figures::{signed, time};
use keeper::{KeeperClockState, RtcView, SourceState};

use crate::output::printable;
use crate::output::table::{Cell, Column, ReportTable, width, wrap};

/// All of it, within 80 columns.
pub(super) fn page(status: &DaemonStatus) -> String {
    let mut lines = vec![format!("clock: {}", clock(&status.clock))];
    if status.dry_run {
        let moved = signed(status.would_have_moved_ns as f64, time);
        lines.push(format!(
            "dry run: nothing is corrected; it would have moved the clock by {moved} so far"
        ));
    }
    lines.push(format!(
        "parachron {}, process {}, running {}",
        status.version,
        status.pid,
        span(status.running_s)
    ));
    lines.extend(status.clock.kernel.as_ref().map(|kernel| {
        let is = if kernel.synchronised { "synchronised" } else { "unsynchronised" };
        let error = time(kernel.max_error_ns as f64);
        format!("kernel: {is}, error at most {error}, frequency {:+.3} ppm", kernel.frequency_ppm)
    }));
    lines.extend(status.beside.as_ref().map(|daemon| {
        let shown = daemon.program_and_unit();
        // `ntpd (ntpsec.service)`: its process is another user's, and hidden.
        let shown = match shown.strip_suffix(')').filter(|_| daemon.by_unit_alone) {
            Some(shown) => format!("{shown}; only its unit is visible)"),
            None => shown,
        };
        format!("beside: {shown}: only steps")
    }));
    lines.extend(status.chronyd_error.as_ref().map(|why| format!("chronyd: {why}")));
    lines.extend(status.gate.as_ref().map(|gate| self::gate(gate, status.dry_run)));
    lines.push(format!("next: {}", next(status)));
    let mut page = wrapped(&lines);
    page.push('\n');
    page.push_str(&sources(&status.sources).text());
    if !status.recent.is_empty() {
        let recent = status.recent.iter().map(|one| {
            let at = one.at_unix_ns.map_or("at an unknown time".into(), date_and_time);
            format!("{at} {}: {}", one.event, one.message)
        });
        page.push('\n');
        page.push_str(&wrapped(&recent.collect::<Vec<_>>()));
    }
    page
}

fn gate(gate: &GateStatus, dry_run: bool) -> String {
    let state = match gate.state {
        GateState::Open => "open".to_owned(),
        GateState::Closed if dry_run => "would be closed until the clock is right".to_owned(),
        GateState::Closed => format!("closed: {} frozen until the clock is right", gate.frozen),
        GateState::Overdue => "open, although the clock is not known to be right".to_owned(),
    };
    let trouble = gate.trouble.as_ref().map_or(String::new(), |why| format!("; {why}"));
    let (groups, bound) = (gate.groups.len(), time(gate.bound_ns as f64));
    format!("gate: {state}; control groups: {groups}, bound {bound}{trouble}")
}

fn wrapped(lines: &[String]) -> String {
    let wrap = |line: &String| wrap(&printable(line), width() - 2).replace('\n', "\n  ") + "\n";
    lines.iter().map(wrap).collect()
}

pub(super) fn clock(clock: &ClockReport) -> String {
    let state = match clock.state {
        KeeperClockState::Synchronised => "synchronised",
        KeeperClockState::Holdover => {
            "holdover: was synchronised, but too few sources can confirm it now"
        }
        KeeperClockState::Unsynchronised => "unsynchronised",
    };
    match (clock.offset_ns, clock.bound_ns, &clock.selected) {
        (Some(offset), Some(bound), Some(selected)) => {
            format!("{state}; offset {}, selected {selected}", offset_bound(offset, bound))
        }
        _ => state.to_owned(),
    }
}

fn offset_bound(offset_ns: i64, bound_ns: u64) -> String {
    format!("{} ± {}", signed(offset_ns as f64, time), time(bound_ns as f64))
}

fn next(status: &DaemonStatus) -> String {
    let by = status.next.by_ns.map_or(String::new(), |ns| signed(ns as f64, time));
    match status.next.action {
        NextAction::Nothing => "nothing to correct".into(),
        NextAction::Wait => "waiting for a source".into(),
        NextAction::Step => format!("step {by}"),
        NextAction::Slew => format!("slew {by}"),
        NextAction::Slewing => format!("slewing, {by} left"),
        NextAction::Makestep => format!("chronyd makestep, offset {by}"),
        NextAction::Refuse => {
            let why = status.next.why.as_deref().unwrap_or("for an unknown reason");
            format!("{by} not corrected: {why}")
        }
    }
}

fn sources(sources: &[SourceStatus]) -> ReportTable {
    let or_none = |shown: Option<String>| shown.map_or_else(Cell::none, Cell::from);
    let mut table = ReportTable::with_rows(
        "",
        sources,
        [
            (Column::words("source"), &|source| source.name.as_str().into()),
            (Column::figures("offset", ""), &|source| {
                or_none(source.offset_ns.map(|ns| signed(ns as f64, time)))
            }),
            (Column::figures("bound", ""), &|source| {
                or_none(source.bound_ns.map(|ns| time(ns as f64)))
            }),
            (Column::figures("age", ""), &|source| or_none(source.age_s.map(span))),
            (Column::names("state"), &|source| state(source.state).into()),
        ],
    );
    let unreachable = sources.iter().filter_map(|source| source.why.as_ref());
    unreachable.for_each(|why| table.note(format!("unreachable: {why}")));
    let rtcs = sources.iter().filter_map(|source| rtc(&source.name, &source.rtc?));
    rtcs.for_each(|note| table.note(note));
    table
}

/// What is wrong with an RTC, though its time is not used.
fn rtc(name: &str, rtc: &RtcView) -> Option<String> {
    let by_ns = rtc.ahead_ns.unsigned_abs();
    let beyond_quarters_ns = by_ns % QUARTER_NS;
    let is_zone = beyond_quarters_ns.min(QUARTER_NS - beyond_quarters_ns) <= rtc.bound_ns
        && by_ns <= MOST_ZONE_NS + rtc.bound_ns;
    let way = if rtc.ahead_ns < 0 { "behind" } else { "ahead of" };
    let off = format!("{name} is {} {way} the clock", span(by_ns as f64 / 1e9));
    match (rtc.stands, by_ns > rtc.bound_ns, is_zone) {
        (true, ..) => Some(format!("{name} has stopped")),
        (false, false, _) => None,
        (false, true, true) => Some(format!("{off}: it is set to local time")),
        (false, true, false) => Some(off),
    }
}

/// Time zones are whole quarters of an hour off UTC, 14 h at most.
const QUARTER_NS: u64 = 900_000_000_000;
const MOST_ZONE_NS: u64 = 56 * QUARTER_NS;

fn state(state: SourceState) -> &'static str {
    match state {
        SourceState::Selected => "selected",
        SourceState::Combined => "combined",
        SourceState::Falseticker => "falseticker",
        SourceState::Candidate => "no majority",
        SourceState::TimeAway => "time away",
        SourceState::OtherScale => "other scale",
        SourceState::NotMeasured => "not measured",
        SourceState::Unreachable => "unreachable",
    }
}

#[cfg(test)]
mod tests {
    use daemon::status::{KernelStatus, NextStatus, Recent};
    use keeper::SourceKind;

    use super::*;

    fn source(name: &str, state: SourceState, offset: Option<(i64, u64)>) -> SourceStatus {
        SourceStatus {
            name: name.into(),
            kind: SourceKind::Ntp,
            state,
            offset_ns: offset.map(|offset| offset.0),
            bound_ns: offset.map(|offset| offset.1),
            age_s: offset.map(|_| 12.5),
            why: (state == SourceState::Unreachable).then(|| format!("{name}: no reply in 300 ms")),
            rtc: None,
        }
    }

    #[test]
    fn an_rtc_in_local_time_differs_from_one_that_is_off() {
        let note = |ahead_s: i64, stands| {
            let (ahead_ns, bound_ns) = (ahead_s * 1_000_000_000, 600_000_000);
            let json =
                serde_json::json!({ "ahead_ns": ahead_ns, "bound_ns": bound_ns, "stands": stands });
            rtc("rtc", &serde_json::from_value(json).unwrap())
        };
        assert_eq!(note(0, false), None);
        let text = |note: Option<String>| note.unwrap_or_default();
        assert_eq!(
            text(note(-19_800, false)),
            "rtc is 5 h 30 min behind the clock: it is set to local time"
        );
        assert_eq!(text(note(40, false)), "rtc is 40.0 s ahead of the clock");
        assert_eq!(text(note(86_400, false)), "rtc is 1 d 0 h ahead of the clock");
        assert_eq!(text(note(-40, true)), "rtc has stopped");
    }

    fn unwatched_gate() -> GateStatus {
        GateStatus {
            state: GateState::Open,
            bound_ns: 10_000_000,
            groups: vec!["/sys/fs/cgroup/workload.slice".into()],
            frozen: 0,
            trouble: Some("no process can watch the gate".into()),
        }
    }

    #[test]
    fn a_page_is_within_80_columns_whatever_the_names() {
        let long = format!("ntp {}.example", "a-very-long-label.".repeat(6));
        let status = DaemonStatus {
            version: "0.2.0".into(),
            pid: 7,
            dry_run: true,
            would_have_moved_ns: 2_000_000_000,
            at_unix_ns: Some(1),
            running_s: 90_000.0,
            clock: ClockReport {
                state: KeeperClockState::Synchronised,
                selected: Some("phc /dev/ptp0 (KVM virtual PTP)".into()),
                offset_ns: Some(-1_234),
                bound_ns: Some(3_400),
                kernel: Some(KernelStatus {
                    synchronised: true,
                    max_error_ns: 8_004_000,
                    estimated_error_ns: 1_000,
                    frequency_ppm: -12.5,
                }),
            },
            sources: vec![
                source("phc /dev/ptp0", SourceState::Selected, Some((-1_234, 3_400))),
                source("ntp b.example", SourceState::Falseticker, Some((9_000_000_000_000, 5))),
                source(&long, SourceState::Unreachable, None),
                source("rtc", SourceState::TimeAway, None),
            ],
            beside: serde_json::from_value(serde_json::json!({
                "kind": "ntpd", "installed": false, "running": true,
                "unit": "ntpsec.service", "by_unit_alone": true,
            }))
            .unwrap(),
            chronyd_error: Some("burst: chronyd refused: not authorised".into()),
            gate: Some(unwatched_gate()),
            next: NextStatus {
                action: NextAction::Refuse,
                by_ns: Some(5),
                why: Some("rate limit".into()),
            },
            recent: [Recent {
                at_unix_ns: Some(1_795_242_707_509_631_641),
                event: "step".into(),
                message: "+2.000 s, selected source ntp a; cause: pause\u{1b}[2J".into(),
            }]
            .into(),
            disrupted_age_s: std::collections::BTreeMap::new(),
            counts: keeper::event::KeeperSummary::default(),
        };
        let page = page(&status);
        let too_wide = |line: &&str| line.chars().count() > 80 && !line.contains("a-very-long");
        assert_eq!(page.lines().find(too_wide), None);
        assert!(!page.contains('\u{1b}'), "{page}");
        assert_eq!(
            page.lines().take(9).collect::<Vec<_>>(),
            [
                "clock: synchronised; offset -1.23 µs ± 3.40 µs, selected phc /dev/ptp0 (KVM",
                "  virtual PTP)",
                "dry run: nothing is corrected; it would have moved the clock by +2.00 s so far",
                "parachron 0.2.0, process 7, running 1 d 1 h",
                "kernel: synchronised, error at most 8.00 ms, frequency -12.500 ppm",
                "beside: ntpd (ntpsec.service; only its unit is visible): only steps",
                "chronyd: burst: chronyd refused: not authorised",
                "gate: open; control groups: 1, bound 10.0 ms; no process can watch the gate",
                "next: +5.00 ns not corrected: rate limit",
            ]
        );
        assert!(page.contains("unreachable: ntp"), "{page}");
        assert!(page.contains("2026-11-21 06:31:47.509 step: +2.000 s"), "{page}");
    }
}
