//! What is known of the clock each minute, for questions to a fleet.

use std::collections::BTreeMap;

use daemon::fleet::Snapshot;
use daemon::status::DaemonStatus;
use serde::Serialize;

/// One minute of a machine's clock, a line of JSON. What is not known is none, and left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Minute {
    /// When, by this clock: Unix time, s.
    pub(super) unix_s: i64,
    /// Version of Parachron.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    /// The hypervisor, or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) platform: Option<String>,
    /// The product, by the firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) product: Option<String>,
    /// The kernel's release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kernel: Option<String>,
    /// The kernel's clock source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) clocksource: Option<String>,
    /// `synchronised`, `holdover` or `unsynchronised`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<String>,
    /// The selected source of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
    /// What to add to the clock: positive where it is behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) offset_ns: Option<i64>,
    /// The offset's error is at most this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bound_ns: Option<i64>,
    /// The clock is off by at most this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error_ns: Option<i64>,
    /// How long ago the selected source was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) measured_age_s: Option<i64>,
    /// By how much the kernel corrects the clock's frequency, in parts per 10^9.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) frequency_ppb: Option<i64>,
    /// What reading the clock takes, at the least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) read_ns: Option<i64>,
    /// Unix time of the last restore, by a source that saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) restored_unix_s: Option<i64>,
    /// CPU time that the host gave to others, of all CPUs, since the row before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) steal_ms: Option<i64>,
    /// CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpus: Option<i64>,
    /// Errors and warnings of doctor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) findings: Option<i64>,
    /// By their names: disruptions and corrections since the row before. One that may have
    /// been of several kinds counts in each.
    #[serde(flatten)]
    pub(super) counts: BTreeMap<&'static str, i64>,
}

/// The names of counts: disruptions of all kinds and by kind, corrections, and those that were
/// refused or failed.
const COUNTS: [&str; 17] = [
    "disruptions",
    "steered",
    "clock_set",
    "leap_second",
    "suspend",
    "pause",
    "snapshot_restored",
    "migrated",
    "source_switched",
    "long_steal",
    "host_stepped",
    "counter_disrupted",
    "step",
    "slew",
    "makestep",
    "refused",
    "failed",
];

impl Minute {
    /// As JSON, with its end.
    pub(super) fn line(&self) -> Vec<u8> {
        // Numbers and texts become JSON whatever they are.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

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
    if let Some(name) = column(name) {
        let sum = row.counts.entry(name).or_default();
        *sum = sum.saturating_add(count);
    }
}

/// The name of its count.
fn column(name: &str) -> Option<&'static str> {
    let name = name.replace('-', "_");
    COUNTS.into_iter().find(|column| *column == name)
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
            sources: vec![daemon::fleet::Source {
                name: "ntp a".into(),
                state: "selected".into(),
                ..daemon::fleet::Source::default()
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
            (
                first.counts.get("pause").copied(),
                first.counts.get("snapshot_restored").copied(),
                first.counts.get("migrated").copied()
            ),
            (Some(2), Some(1), Some(1))
        );
        assert_eq!(
            (first.counts.get("disruptions").copied(), first.counts.get("step").copied()),
            (Some(3), Some(1))
        );
        assert_eq!((first.restored_unix_s, first.steal_ms), (Some(910), None));
        assert_eq!(
            (first.state.as_deref(), first.source.as_deref()),
            (Some("synchronised"), Some("ntp a"))
        );
        let mut next = known();
        next.disruptions.insert("pause".to_owned(), 5);
        next.steal_s = Some(10.25);
        let (row, before) = minute(&next, None, &before, 1_060);
        assert_eq!(
            (
                row.counts.get("pause").copied(),
                row.counts.get("disruptions").copied(),
                row.steal_ms
            ),
            (Some(3), Some(3), Some(250))
        );
        // No reply, and a daemon that began again.
        let (silent, before) = minute(&Snapshot::default(), None, &before, 1_120);
        assert_eq!(
            (silent.counts.get("pause").copied(), silent.state, silent.error_ns),
            (None, None, None)
        );
        let (again, _) = minute(&known(), None, &before, 1_180);
        assert_eq!(
            (again.counts.get("pause").copied(), again.counts.get("snapshot_restored").copied()),
            (Some(2), Some(0))
        );
    }

    #[test]
    fn every_kind_and_correction_has_a_column() {
        // An RTC that may have been set is reported with what else may have happened, which
        // has columns: another column would be another format.
        let set = Kinds::from(Kind::RtcSet).to_string();
        let kinds = Kinds::reported().map(|kinds| kinds.to_string()).filter(|it| *it != set);
        let others = ["disruptions", "makestep", "slew", "step", "failed", "refused"];
        for name in kinds.chain(others.map(str::to_owned)) {
            for kind in name.split('|').filter(|kind| *kind != set) {
                assert!(column(kind).is_some(), "{kind}");
            }
        }
    }
}
