//! QEMU saves a machine, lets it run on, and puts it back into the same
//! process: what people do with `savevm` and `loadvm`.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use crate::checks::Check;
use crate::machine::Machine;
use crate::qmp::Qmp;
use crate::table::Base;

use super::Place;
use super::watching::{self, Caused};

/// How long it runs on after it was saved.
const BETWEEN: Duration = Duration::from_secs(5);

/// How long saving or loading all of its memory may take.
const MEMORY: Duration = Duration::from_secs(90);

/// What the machine's clock loses beside that, s: it goes at its own rate.
const KNOWN_S: f64 = 0.1;

/// How late QEMU's replies to saving and loading come, s.
const REPLIES_S: f64 = 0.3;

/// The node that holds snapshots, and the file below it.
pub(super) const DISK: &str = "snapshots";
const DISK_FILE: &str = "snapshots-file";

pub(super) fn run(
    place: &Place<'_>,
    machine: &mut Machine,
    checks: &mut Vec<Check>,
) -> Result<(), String> {
    watching::start(machine)?;
    let (before_s, before_bound_s) = machine.ahead_s()?;
    let qmp = machine.qmp.as_mut().ok_or("a snapshot needs QMP")?;
    // A host in between has a folder of its own.
    let on_kvm = place.row.base == Base::Kvm;
    let folder = if on_kvm { Path::new("/tmp") } else { place.folder };
    create_disk(qmp, &folder.join("snapshots.qcow2").display().to_string())?;
    let arguments = json!({ "tag": "one", "vmstate": DISK, "devices": [DISK] });
    qmp.job("snapshot-save", arguments.clone(), MEMORY)?;
    sleep(BETWEEN);
    qmp.job("snapshot-load", arguments, MEMORY)?;
    let (soon, late) = watching::told(machine)?;
    let (after_s, after_bound_s) = machine.ahead_s()?;
    let on_tsc = place.row.truth()?.clocksource == "tsc";
    let kinds: &[&str] = if on_kvm {
        // The TSC was set back, and the page rewritten.
        &["snapshot-restored|migrated"]
    } else if on_tsc {
        // QEMU lets its TSC go forward only (cpu_get_ticks in
        // softmmu/cpu-timers.c): all clocks went ahead with it, and the kernel's
        // watchdog may give it up for that.
        &["pause|snapshot-restored|migrated", "counter-disrupted", "source-switched"]
    } else {
        // No marker: the clocks went back, or stood, as seen from the RTC. The TSC
        // that went ahead shows what a pause shows in which it ran on.
        &["pause|snapshot-restored|migrated", "pause"]
    };
    let what = "savevm, loadvm";
    let lost_s = before_s - after_s;
    let mut known_s = before_bound_s + after_bound_s + KNOWN_S;
    if !on_tsc {
        // While it was saved and loaded the TSC stood too, of which nothing tells
        // but the RTC, to a second; and QEMU's replies are late by up to that.
        known_s += (lost_s - BETWEEN.as_secs_f64()).max(0.0) + REPLIES_S;
    }
    // Under KVM the size is by how much the TSC moved against the page, of which
    // nothing is known from outside; what the time of day lost is.
    let size_s = (!on_kvm).then_some((lost_s, known_s));
    let caused = Caused { what, kinds, besides: &[], size_s };
    checks.push(watching::judge(&caused, &soon, &late));
    if on_kvm {
        checks.push(watching::behind(what, (lost_s, known_s), &soon, &late));
    }
    watching::end(machine)
}

/// A disk for snapshots, not visible to the machine.
pub(super) fn create_disk(qmp: &mut Qmp, file: &str) -> Result<(), String> {
    let options = json!({ "driver": "file", "filename": file, "size": 0 });
    qmp.job("blockdev-create", json!({ "options": options }), MEMORY)?;
    let node = json!({ "driver": "file", "filename": file, "node-name": DISK_FILE });
    qmp.execute("blockdev-add", node)?;
    let options = json!({ "driver": "qcow2", "file": DISK_FILE, "size": 1 << 20 });
    qmp.job("blockdev-create", json!({ "options": options }), MEMORY)?;
    let node = json!({ "driver": "qcow2", "file": DISK_FILE, "node-name": DISK });
    qmp.execute("blockdev-add", node).map(drop)
}
