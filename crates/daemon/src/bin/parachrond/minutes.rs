//! What is known of the clock, as a row of the records.

use std::collections::BTreeMap;

use daemon::status::DaemonStatus;
use fleet::Snapshot;
use records::Minute;

/// Counts at the row before: rows have what was added since.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PreviousMinute {
    counts: BTreeMap<String, u64>,
    steal_s: Option<f64>,
}

/// The row of now, and what the next one is counted from.
pub(crate) fn minute(
    now: &Snapshot,
    status: Option<&DaemonStatus>,
    before: &PreviousMinute,
    unix_s: i64,
) -> (Minute, PreviousMinute) {
    // Without an offset of the daemon's the machine's figures are those of another daemon.
    let clock = status.map(|status| &status.clock);
    let offset_ns = clock.and_then(|clock| clock.offset_ns);
    let bound_ns = clock.and_then(|clock| clock.bound_ns).map(|ns| ns.cast_signed());
    let error_ns = offset_ns
        .zip(bound_ns)
        .map(|(offset, bound)| offset.saturating_abs().saturating_add(bound));

    let selected = now.sources.iter().find(|source| source.state == "selected");
    let restored_age_s = now
        .disrupted_age_s
        .iter()
        .filter(|(kinds, _)| kinds.split('|').any(|kind| kind == "snapshot-restored"))
        .map(|(_, age_s)| *age_s)
        .reduce(f64::min);
    let stolen_s = now.steal_s.zip(before.steal_s).map(|(now_s, then_s)| now_s - then_s);
    let machine = now.machine.clone();
    let mut row = Minute {
        unix_s,
        version: Some(now.version.clone()),
        platform: machine.platform,
        product: machine.product,
        kernel: machine.kernel,
        clocksource: now.clocksource.clone(),
        state: state(now).map(str::to_owned),
        source: selected.map(|source| source.name.clone()),
        offset_ns: offset_ns.or(now.offset_s.map(|s| scaled(s, 1e9))),
        bound_ns: bound_ns.or(now.offset_bound_s.map(|s| scaled(s, 1e9))),
        error_ns: error_ns.or(now.error_bound_s.map(|s| scaled(s, 1e9))),
        measured_age_s: now.measured_age_s.map(|s| scaled(s, 1.0)),
        frequency_ppb: now.frequency_correction.map(|ratio| scaled(ratio, 1e9)),
        read_ns: now.read_s.map(|s| scaled(s, 1e9)),
        restored_unix_s: restored_age_s.map(|age_s| unix_s.saturating_sub(scaled(age_s, 1.0))),
        steal_ms: stolen_s.map(|s| scaled(s.max(0.0), 1e3)),
        cpus: now.cpus.map(i64::from),
        findings: Some(now.findings.iter().filter(|it| it.severity != "note").count() as i64),
        ..Minute::default()
    };
    let mut counts = BTreeMap::new();
    for (kinds, count) in &now.disruptions {
        let added = added(&before.counts, kinds, *count);
        // One that may have been of several kinds counts in each.
        for kind in kinds.split('|').chain(["disruptions"]) {
            add(&mut row, kind, added);
        }
        counts.insert(kinds.clone(), *count);
    }
    for (how, count) in now.corrections.iter().chain(&now.not_corrected) {
        add(&mut row, how, added(&before.counts, how, *count));
        counts.insert(how.clone(), *count);
    }
    // A daemon that did not reply has the same counts as before.
    let counts = if counts.is_empty() { before.counts.clone() } else { counts };
    (row, PreviousMinute { counts, steal_s: now.steal_s.or(before.steal_s) })
}

fn state(now: &Snapshot) -> Option<&'static str> {
    Some(match (now.synchronised?, now.holdover) {
        (false, _) => "unsynchronised",
        (true, Some(true)) => "holdover",
        (true, _) => "synchronised",
    })
}

/// Since the row before; a count that began again is all new.
fn added(before: &BTreeMap<String, u64>, name: &str, count: u64) -> i64 {
    let then = before.get(name).copied().filter(|then| *then <= count).unwrap_or(0);
    i64::try_from(count - then).unwrap_or(i64::MAX)
}

fn add(row: &mut Minute, name: &str, count: i64) {
    if let Some(number) = row.number(&name.replace('-', "_")) {
        *number = Some(number.unwrap_or(0).saturating_add(count));
    }
}

/// 1.5 s are 1,500,000,000 ns.
fn scaled(value: f64, by: f64) -> i64 {
    (value * by).round() as i64
}

#[cfg(test)]
mod tests {
    use disruptions::{Kind, Kinds};

    use super::*;

    fn known() -> Snapshot {
        let disruptions =
            BTreeMap::from([("pause".to_owned(), 2), ("snapshot-restored|migrated".to_owned(), 1)]);
        Snapshot {
            synchronised: Some(true),
            offset_s: Some(-1.5e-3),
            error_bound_s: Some(2.5e-3),
            sources: vec![fleet::Source {
                name: "ntp a".into(),
                state: "selected".into(),
                ..fleet::Source::default()
            }],
            disruptions,
            disrupted_age_s: BTreeMap::from([("snapshot-restored|migrated".to_owned(), 90.2)]),
            corrections: BTreeMap::from([("step".to_owned(), 1)]),
            steal_s: Some(10.0),
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_row_has_what_was_added_since_the_one_before() {
        let (first, before) = minute(&known(), None, &PreviousMinute::default(), 1_000);
        assert_eq!((first.offset_ns, first.error_ns), (Some(-1_500_000), Some(2_500_000)));
        assert_eq!(
            (first.pause, first.snapshot_restored, first.migrated),
            (Some(2), Some(1), Some(1))
        );
        assert_eq!((first.disruptions, first.step), (Some(3), Some(1)));
        assert_eq!((first.restored_unix_s, first.steal_ms), (Some(910), None));
        assert_eq!(
            (first.state.as_deref(), first.source.as_deref()),
            (Some("synchronised"), Some("ntp a"))
        );
        let mut next = known();
        next.disruptions.insert("pause".to_owned(), 5);
        next.steal_s = Some(10.25);
        let (row, before) = minute(&next, None, &before, 1_060);
        assert_eq!((row.pause, row.disruptions, row.steal_ms), (Some(3), Some(3), Some(250)));
        // No reply, and a daemon that began again.
        let (silent, before) = minute(&Snapshot::default(), None, &before, 1_120);
        assert_eq!((silent.pause, silent.state, silent.error_ns), (None, None, None));
        let (again, _) = minute(&known(), None, &before, 1_180);
        assert_eq!((again.pause, again.snapshot_restored), (Some(2), Some(0)));
    }

    #[test]
    fn every_kind_and_correction_has_a_column() {
        let mut row = Minute::default();
        // An RTC that may have been set is reported with what else may have happened, which
        // has columns: another column would be another format.
        let set = Kinds::from(Kind::RtcSet).to_string();
        let kinds = Kinds::reported().map(|kinds| kinds.to_string()).filter(|it| *it != set);
        let others = ["disruptions", "makestep", "slew", "step", "failed", "refused"];
        for name in kinds.chain(others.map(str::to_owned)) {
            for kind in name.split('|').filter(|kind| *kind != set) {
                assert!(row.number(&kind.replace('-', "_")).is_some(), "{kind}");
            }
        }
    }
}
