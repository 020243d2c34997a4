//! QEMU saves a machine and puts it back into the same process, later and at
//! once: what people do with `savevm` and `loadvm`.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

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

/// Less than this does not show in an RTC of whole seconds, or does.
const RTC_SEES_S: f64 = 1.0;

/// How long saving or loading all of its memory may take.
const MEMORY: Duration = Duration::from_secs(90);

/// What the machine's clock loses beside that, s: it goes at its own rate.
const KNOWN_S: f64 = 0.1;

/// The node that holds snapshots, and the file below it.
pub(super) const DISK: &str = "snapshots";
const DISK_FILE: &str = "snapshots-file";

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let qmp = machine.qmp.as_mut().ok_or("a snapshot needs QMP")?;
    // A host in between has a folder of its own.
    let folder = if place.row.base == Base::Kvm { Path::new("/tmp") } else { place.folder };
    create_disk(qmp, &folder.join("snapshots.qcow2").display().to_string())?;
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
    // An earlier restore may have cost it the TSC.
    let on_tsc = machine.execute("cat $CLOCKSOURCE")? == "tsc";
    watching::start(machine)?;
    let (before_s, before_bound_s) = machine.ahead_s()?;
    let qmp = machine.qmp.as_mut().ok_or("a snapshot needs QMP")?;
    let tag = format!("after{}s", between.as_secs());
    let arguments = json!({ "tag": tag, "vmstate": DISK, "devices": [DISK] });
    let saving = Instant::now();
    qmp.job("snapshot-save", arguments.clone(), MEMORY)?;
    sleep(between);
    qmp.job("snapshot-load", arguments, MEMORY)?;
    let stood_s = saving.elapsed().saturating_sub(between).as_secs_f64();
    let (soon, late) = watching::told(machine)?;
    let (after_s, after_bound_s) = machine.ahead_s()?;
    let on_kvm = place.row.base == Base::Kvm;
    let lost_s = before_s - after_s;
    let kinds: &[&str] = if on_kvm {
        // The TSC was set back, and the page rewritten.
        &["snapshot-restored|migrated"]
    } else if lost_s < RTC_SEES_S && soon.is_empty() && late.is_empty() {
        // QEMU's TSC goes on from where it was, and every other clock stood.
        &[]
    } else if on_tsc {
        // QEMU lets its TSC go forward only (cpu_get_ticks in
        // softmmu/cpu-timers.c): all clocks went ahead with it, and the kernel's
        // watchdog may give it up for that.
        &["pause|snapshot-restored|migrated", "counter-disrupted", "source-switched"]
    } else {
        // No marker: the clocks went back, or stood, as seen from the RTC.
        &["pause|snapshot-restored|migrated"]
    };
    let what = match between.as_secs() {
        0 => "savevm, loadvm at once".to_owned(),
        s => format!("savevm, {s} s later loadvm"),
    };
    // What the RTC shows is what the time of day lost. A TSC that goes on tells how
    // long it ran since it was saved; of one that was set back, or is no clock source,
    // it is that or all that was lost: saving and loading too.
    let by_rtc = soon.iter().chain(&late).any(|told| told.behind_s.is_some());
    let (least_s, most_s) = match (on_tsc, by_rtc) {
        (true, true) => (lost_s, lost_s),
        (true, false) => (between.as_secs_f64(), between.as_secs_f64() + stood_s),
        (false, _) => (between.as_secs_f64().min(lost_s), lost_s),
    };
    let known_s = (most_s - least_s) / 2.0 + before_bound_s + after_bound_s + KNOWN_S;
    // Under KVM the size is by how much the TSC moved against the page, of which
    // nothing is known from outside; what the time of day lost is.
    let size_s = (!on_kvm).then_some((f64::midpoint(least_s, most_s), known_s));
    let caused = Caused { what: &what, kinds, besides: &[], size_s };
    checks.push(watching::judge(&caused, &soon, &late));
    if on_kvm {
        let known_s = before_bound_s + after_bound_s + KNOWN_S;
        checks.push(watching::behind(&what, (lost_s, known_s), &soon, &late));
    }
    watching::end(machine)
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
