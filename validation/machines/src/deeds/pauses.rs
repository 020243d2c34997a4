//! QEMU stops a machine for a while, and lets it run again: `stop`, `cont`.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::checks::Checks;
use crate::machine::Machine;
use crate::outcome::Result;
use crate::table::Base;

use super::Place;
use super::watching::{self, Caused};

/// For how long, one after another.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(300), Duration::from_secs(2), Duration::from_secs(60)];

/// For how long its process is stopped, and how well that is known, s: what `watch`
/// takes for a part of it is the time since its last sample.
const NOT_RUN: Duration = Duration::from_secs(2);
const KNOWN_S: f64 = 0.1;

/// Until `watch` has seen what a machine does that has nothing to do: it counts that
/// as seldom as an emulated CPU makes it dear.
const LEARNING: &str = "sleep 15";

/// Under KVM the TSC runs on while kvm-clock stands, which QEMU then sets back
/// (hw/i386/kvm/clock.c): only a pause does that, and any is seen.
const BESIDE_THE_TSC: &[&str] = &["pause"];

/// Under emulation all clocks stand but the RTC. It counts whole seconds, and
/// gains in the same way by a restored snapshot or a migration; and, where nothing else
/// shows, by being set.
const BESIDE_THE_RTC: &[&str] =
    &["pause|snapshot-restored|migrated|rtc-set", "pause|snapshot-restored|migrated"];

/// Less than this does not show in an RTC of whole seconds.
const RTC_SEES: Duration = Duration::from_secs(1);

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let on_kvm_clock = place.row.truth()?.clocksource == "kvm-clock";
    for pause in PAUSES {
        let ((least_s, most_s), seen) = watching::during(machine, |machine| {
            let qmp = machine.qmp.as_mut().ok_or("a pause needs QMP")?;
            let stopping = Instant::now();
            qmp.stop()?;
            let stopped = Instant::now();
            sleep(pause);
            let least_s = stopped.elapsed().as_secs_f64();
            qmp.cont()?;
            // On a busy system QEMU's replies take their time as well.
            Ok((least_s, stopping.elapsed().as_secs_f64()))
        })?;
        let what = format!("stop for {} s, cont", pause.as_secs_f64());
        let size_s = Some((f64::midpoint(least_s, most_s), f64::midpoint(most_s, -least_s)));
        let kinds = if on_kvm_clock {
            BESIDE_THE_TSC
        } else if pause < RTC_SEES {
            &[]
        } else {
            BESIDE_THE_RTC
        };
        let caused = Caused { what: &what, kinds, besides: &[], size_s };
        checks.push(watching::judge(&caused, &seen));
    }
    if place.row.base == Base::Emulated {
        not_run(machine, checks)?
    }
    Ok(())
}

/// Its process is stopped: the machine is not run, and all of its clocks go on, as
/// QEMU has them from this system's.
fn not_run(machine: &mut Machine, checks: &mut Checks) -> Result {
    let pid = i32::try_from(machine.hypervisor()?).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or("the hypervisor's number is none")?;
    let (most_s, seen) = watching::during(machine, |machine| {
        machine.execute(LEARNING)?;
        let stopping = Instant::now();
        kill_process(pid, Signal::STOP).map_err(|error| format!("SIGSTOP: {error}"))?;
        sleep(NOT_RUN);
        kill_process(pid, Signal::CONT).map_err(|error| format!("SIGCONT: {error}"))?;
        Ok(stopping.elapsed().as_secs_f64())
    })?;
    let size_s = Some((f64::midpoint(NOT_RUN.as_secs_f64(), most_s), KNOWN_S));
    let what = format!("SIGSTOP for {} s, SIGCONT", NOT_RUN.as_secs());
    let caused = Caused { what: &what, kinds: &["pause"], besides: &[], size_s };
    checks.push(watching::judge(&caused, &seen));
    Ok(())
}
