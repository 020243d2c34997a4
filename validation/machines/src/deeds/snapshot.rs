//! QEMU saves a machine and puts it back into the same process, later and at
//! once: what people do with `savevm` and `loadvm`.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use crate::checks::Checks;
use crate::machine::Machine;
use crate::outcome::Result;
use crate::qmp::Qmp;
use crate::table::Base;

use super::Place;
use super::watching::{self, Caused};

/// For how long it runs on after it was saved, one after another.
const BETWEEN: [Duration; 2] = [Duration::from_secs(5), Duration::ZERO];

/// Less than this does not show in an RTC of whole seconds (`limits`).
const RTC_SEES_S: f64 = 1.0;

/// How long saving or loading all of its memory may take.
const MEMORY: Duration = Duration::from_secs(90);

/// What the machine's clock loses beside that, s: it goes at its own rate.
const KNOWN_S: f64 = 0.1;

/// QEMU's emulation lets its TSC go forward only (cpu_get_ticks in softmmu/cpu-timers.c), unlike
/// any other restore: the clock is put on a timer, which goes back. That the TSC goes ahead may be
/// told, and names nothing that was done.
const ON_A_TIMER: &str = "echo hpet >$CLOCKSOURCE";
const BESIDES: &[&str] = &["counter-disrupted", "source-switched"];

/// What shows of the clocks that went back or stood, as seen from the RTC or a TSC that did not.
const NAMED: &[&str] =
    &["pause|snapshot-restored|migrated", "pause|snapshot-restored|migrated|rtc-set"];

/// Under KVM the TSC is set back, and the page rewritten.
const NAMED_BY_PAGE: &[&str] = &["snapshot-restored|migrated"];

/// Prints the RTC as it changes.
const AT_ITS_EDGE: &str = "a=$(cat $RTC/since_epoch); b=$a; while [ $b = $a ]; do \
    b=$(cat $RTC/since_epoch); done; echo $b";

/// Beside the line, reading the RTC until it changes takes so long, s.
const EDGE_S: f64 = 0.05;

/// What two readings of a clock beside the TSC are known to, s.
const TSC_STEP_S: f64 = 0.01;

/// Twice what `tsc-pairs` prints a line of, for as long as shows the TSC's rate to some 20 ppm.
const TSC_PAIRS: &str = "guest-clock tsc-pairs 2 2000";

/// The node that holds snapshots, and the file below it.
pub(super) const DISK: &str = "snapshots";
const DISK_FILE: &str = "snapshots-file";

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let qmp = machine.qmp.as_mut().ok_or("a snapshot needs QMP")?;
    // A host in between has a folder of its own.
    let folder = if place.row.base == Base::Kvm { Path::new("/tmp") } else { place.folder };
    create_disk(qmp, &folder.join("snapshots.qcow2").display().to_string())?;
    if place.row.base != Base::Kvm {
        machine.execute(ON_A_TIMER)?;
    }
    for between in BETWEEN {
        restore(place, machine, between, checks)?;
    }
    Ok(())
}

/// Saves it, and puts it back after a while.
fn restore(
    place: &Place<'_>,
    machine: &mut Machine,
    between: Duration,
    checks: &mut Checks,
) -> Result {
    let on_kvm = place.row.base == Base::Kvm;
    let rtc_before_s = rtc_ahead_s(machine)?;
    let pairs_before = if on_kvm { machine.execute(TSC_PAIRS)? } else { String::new() };
    let (_, seen) = watching::during(machine, |machine| save_and_load(machine, between))?;
    let what = match between.as_secs() {
        0 => "savevm, loadvm at once".to_owned(),
        s => format!("savevm, {s} s later loadvm"),
    };
    if on_kvm {
        let step_s = tsc_step_s(&pairs_before, &machine.execute(TSC_PAIRS)?)?;
        let size_s = Some((step_s, TSC_STEP_S));
        let caused = Caused { what: &what, kinds: NAMED_BY_PAGE, besides: &[], size_s };
        checks.push(watching::judge(&caused, &seen));
        checks.push(watching::behind(&what, &seen, KNOWN_S));
        return Ok(());
    }
    let lost = (seen.lost.0, seen.lost.1 + KNOWN_S);
    let rtc_gained_s = lost.0 + rtc_ahead_s(machine)? - rtc_before_s;
    // What tells of nothing where nothing shows is right.
    let is_silent = rtc_gained_s < RTC_SEES_S && seen.all().next().is_none();
    let caused = Caused {
        what: &what,
        kinds: if is_silent { &[] } else { NAMED },
        besides: BESIDES,
        size_s: Some(lost),
    };
    let mut check = watching::judge(&caused, &seen);
    check.found += &format!("; the RTC gained {rtc_gained_s:.2} s on it");
    checks.push(check);
    if !is_silent {
        checks.push(watching::behind(&what, &seen, KNOWN_S));
    }
    Ok(())
}

fn save_and_load(machine: &mut Machine, between: Duration) -> Result {
    let qmp = machine.qmp.as_mut().ok_or("a snapshot needs QMP")?;
    let tag = format!("after{}s", between.as_secs());
    let arguments = json!({ "tag": tag, "vmstate": DISK, "devices": [DISK] });
    qmp.job("snapshot-save", arguments.clone(), MEMORY)?;
    sleep(between);
    qmp.job("snapshot-load", arguments, MEMORY)
}

/// How far the RTC is ahead of this system's time, s, to what a command takes: as it changes.
fn rtc_ahead_s(machine: &mut Machine) -> Result<f64> {
    let start = Instant::now();
    machine.execute("true")?;
    let line_s = start.elapsed().as_secs_f64();
    let at = machine.execute(AT_ITS_EDGE)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let at_s: f64 = at.parse().map_err(|error| format!("the RTC reads {at:?}: {error}"))?;
    Ok(at_s + (line_s + EDGE_S) / 2.0 - now.as_secs_f64())
}

/// By how much the TSC stepped against CLOCK_MONOTONIC_RAW between two times that
/// [`TSC_PAIRS`] was printed, s.
fn tsc_step_s(before: &str, after: &str) -> Result<f64> {
    let pair = |line: &str| {
        let figures: Vec<f64> = line.split(' ').map_while(|word| word.parse().ok()).collect();
        let [ns_before, count, ns_after] = figures[..] else { return None };
        Some((count, f64::midpoint(ns_before, ns_after) / 1e9))
    };
    let pairs = before.lines().chain(after.lines()).map(pair).collect::<Option<Vec<_>>>();
    let Some(&[(count_0, s_0), (count_1, s_1), (count, s), _]) = pairs.as_deref() else {
        return Err(format!("guest-clock printed {before:?} and {after:?}"));
    };
    let hz = (count_1 - count_0) / (s_1 - s_0);
    Ok((count - count_1) / hz - (s - s_1))
}

/// A disk for snapshots, not visible to the machine.
pub(super) fn create_disk(qmp: &mut Qmp, file: &str) -> Result {
    let options = json!({ "driver": "file", "filename": file, "size": 0 });
    qmp.job("blockdev-create", json!({ "options": options }), MEMORY)?;
    let node = json!({ "driver": "file", "filename": file, "node-name": DISK_FILE });
    qmp.execute("blockdev-add", node)?;
    let options = json!({ "driver": "qcow2", "file": DISK_FILE, "size": 1 << 20 });
    qmp.job("blockdev-create", json!({ "options": options }), MEMORY)?;
    let node = json!({ "driver": "qcow2", "file": DISK_FILE, "node-name": DISK });
    qmp.execute("blockdev-add", node).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tscs_step_is_what_it_counts_beyond_the_clock() {
        let line = |count: u64, ns: u64| format!("{} {count} {}", ns - 50, ns + 50);
        let pairs = |lines: [String; 2]| lines.join("\n");
        // 1 GHz. The clock goes on for 3 s, and the TSC back by 5 s.
        let before =
            pairs([line(10_000_000_000, 1_000_000_000), line(12_000_000_000, 3_000_000_000)]);
        let after = pairs([line(7_000_000_000, 6_000_000_000), line(9_000_000_000, 8_000_000_000)]);
        let step_s = tsc_step_s(&before, &after).unwrap();
        assert!((step_s + 8.0).abs() < 1e-6, "{step_s}");
        assert!(tsc_step_s(&before, "").is_err() && tsc_step_s("1 2", &after).is_err());
    }
}
