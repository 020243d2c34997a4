//! What its control domain does to a domain of Xen: `xl pause` and `unpause`, `xl save` and
//! `restore`. How long it stood is known by this system's clock.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::checks::Checks;
use crate::machine::Machine;
use crate::outcome::Result;
use crate::shell::Shell;

use super::Place;
use super::watching::{self, Caused, Seen};

/// For how long it stands between two commands of `xl`.
const AWAY: Duration = Duration::from_secs(4);

/// How long one command may take in an emulated control domain: it saves or loads all of
/// the domain's memory.
const COMMAND: Duration = Duration::from_secs(120);

/// Until `watch` has seen what a machine does that has nothing to do.
const LEARNING: &str = "sleep 15";

/// Xen's clock takes its rate from the emulated timer anew each second, s in half a minute.
const KNOWN_S: f64 = 0.2;

/// Xen counts what a domain was paused for as stolen (xen_steal_clock,
/// drivers/xen/time.c): nothing else shows it.
const PAUSED: &[&str] = &["pause|long-steal"];

/// Xen has the kernel suspend itself, which logs no suspend of its own
/// (drivers/xen/manage.c): it moved, or went on from a saved state.
const SAVED: &[&str] = &["suspend|snapshot-restored|migrated"];

/// A vCPU that is made anew was not run until then, which Xen counts as stolen as well.
const BESIDES_SAVED: &[&str] = &["pause|long-steal", "long-steal"];

/// Where the saved domain is, in memory.
const FILE: &str = "/tmp/saved";

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let mut control = Shell::connect(place.folder)?;
    let name = &place.row.name;
    pause(name, &mut control, machine, checks)?;
    save(name, &mut control, machine, checks)
}

/// It stood for longer than between the two commands, and less than from the beginning of
/// the first to the end of the second.
fn pause(name: &str, control: &mut Shell, machine: &mut Machine, checks: &mut Checks) -> Result {
    let ((least_s, most_s), seen) = watching::during(machine, |machine| {
        machine.execute(LEARNING)?;
        let most = Instant::now();
        control.execute(&format!("xl pause {name}"), COMMAND)?;
        let least = Instant::now();
        sleep(AWAY);
        let least_s = least.elapsed().as_secs_f64();
        control.execute(&format!("xl unpause {name}"), COMMAND)?;
        Ok((least_s, most.elapsed().as_secs_f64()))
    })?;
    let what = format!("xl pause for {} s, unpause", AWAY.as_secs());
    let size_s = Some((f64::midpoint(least_s, most_s), (most_s - least_s) / 2.0));
    let caused = Caused { what: &what, kinds: PAUSED, besides: &[], size_s };
    checks.push(watching::judge(&caused, &seen));
    behind_if_stated(&what, &seen, checks);
    Ok(())
}

/// It stood for as long as its CLOCK_MONOTONIC lost: the kernel stops that while it is
/// suspended, and adds to the time of day what Xen says that this took.
fn save(name: &str, control: &mut Shell, machine: &mut Machine, checks: &mut Checks) -> Result {
    let (_, seen) = watching::during(machine, |machine| {
        machine.execute(LEARNING)?;
        control.execute(&format!("xl save {name} {FILE}"), COMMAND)?;
        sleep(AWAY);
        // Its console is another one, and nothing is sent over the line until that is joined.
        control.execute(&format!("xl restore -e {FILE} && rm {FILE} && join"), COMMAND)
    })?;
    let what = format!("xl save, {} s later restore", AWAY.as_secs());
    let size_s = Some((seen.stood.0, seen.stood.1 + KNOWN_S));
    let caused = Caused { what: &what, kinds: SAVED, besides: BESIDES_SAVED, size_s };
    checks.push(watching::judge(&caused, &seen));
    behind_if_stated(&what, &seen, checks);
    Ok(())
}

/// Without an RTC, and by a clock that Xen runs on or sets right, it need not be stated.
fn behind_if_stated(what: &str, seen: &Seen, checks: &mut Checks) {
    if seen.all().any(|told| told.behind_s.is_some()) {
        checks.push(watching::behind(what, seen, KNOWN_S));
    }
}
