//! Beside chronyd, in a machine that is saved and put back, copied, and moved to
//! another QEMU: right each time, both of a fork.

use std::mem::swap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::checks::Check;
use crate::deeds::server::Server;
use crate::deeds::{Done, Place, migration, snapshot};
use crate::machine::Machine;
use crate::outcome::Result;
use crate::qmp::Qmp;

use super::frequency::{kept, learnt};
use super::other::{CHRONYD, follows};
use super::right::{PATIENCE, between, corrected, steps_s};
use super::setup::{INSTALL, RIGHT_S, configuration, configure};

/// How long it runs on after it was saved.
const BETWEEN: Duration = Duration::from_secs(5);

/// How long saving, loading or moving all of its memory may take.
const MEMORY: Duration = Duration::from_secs(120);

/// chronyd's first readings of a machine that was just loaded are hundreds of ms off, and
/// it slews by them: until less is left than what the doctor finds, or half a minute.
const SLEWED: &str = "chronyc waitsync 30 0.05 0 1 >/dev/null; true";

const CLOCKSOURCE: &str = "cat /sys/devices/system/clocksource/clocksource0/current_clocksource";

/// A reading known less well, s, does not show what a second of a loss leaves.
const EXACT_S: f64 = 0.2;

pub(crate) fn run(place: &Place<'_>, machine: &mut Machine, done: &mut Done) -> Result {
    let servers = Server::two(place.workshop)?;
    done.checks.push(follows(machine, &CHRONYD, &servers[0])?);
    machine.execute(INSTALL)?;
    configure(machine, &configuration(&servers))?;
    machine.execute("systemctl enable --now parachrond; sleep 3")?;
    let before = learnt(machine, &CHRONYD)?;

    let qmp = machine.qmp.as_mut().ok_or("a snapshot needs QMP")?;
    snapshot::create_disk(qmp, &place.folder.join("snapshots.qcow2").display().to_string())?;
    let arguments = json!({ "tag": "a", "vmstate": snapshot::DISK, "devices": [snapshot::DISK] });
    // What was logged before is not counted in the machines that are put back.
    steps_s(machine)?;
    let qmp = machine.qmp.as_mut().ok_or("a snapshot needs QMP")?;
    qmp.stops();
    qmp.job("snapshot-save", arguments.clone(), MEMORY)?;
    let mut stops = Vec::new();
    for time in ["once", "twice"] {
        sleep(BETWEEN);
        let qmp = machine.qmp.as_mut().ok_or("a snapshot needs QMP")?;
        qmp.job("snapshot-load", arguments.clone(), MEMORY)?;
        stops.extend(qmp.stops());
        let on_tsc = machine.execute(CLOCKSOURCE)?.trim() == "tsc";
        let when = format!("beside chronyd, savevm, {} s later loadvm, {time}", BETWEEN.as_secs());
        done.checks.push(lost(&when, machine, put_back_s(&stops, on_tsc)?)?);
    }
    // The memory of before the save is what chronyd knew then: it measures first.
    kept(", put back,", &CHRONYD, machine, &before, done)?;

    machine.execute(SLEWED)?;
    done.checks.push(super::found_by_the_doctor(place, machine)?);
    steps_s(machine)?;
    let uri = format!("unix:{}", place.folder.join("moves").display());
    let mut other = incoming(place, "moved", &uri)?;
    let stopped_s = stopped_by(machine, |qmp| qmp.migrate(&uri, MEMORY).map(drop))?;
    swap(machine, &mut other);
    drop(other);
    let away_s = resumed_s(machine)? - stopped_s;
    done.checks.push(lost("beside chronyd, live migration", machine, away_s)?);
    kept(", moved,", &CHRONYD, machine, &before, done)?;

    steps_s(machine)?;
    let uri = format!("file:{}", place.folder.join("memory").display());
    let stopped_s = stopped_by(machine, |qmp| {
        qmp.stop()?;
        qmp.migrate(&uri, MEMORY).map(drop)
    })?;
    sleep(BETWEEN);
    let (mut first, mut second) = (copy(place, "first", &uri)?, copy(place, "second", &uri)?);
    for (one, name) in [(&mut first, "first"), (&mut second, "second")] {
        let when = format!("beside chronyd, the {name} of a fork");
        let away_s = resumed_s(one)? - stopped_s;
        done.checks.push(lost(&when, one, away_s)?);
    }
    for (one, name) in [(&mut first, "first"), (&mut second, "second")] {
        kept(&format!(", the {name} of a fork,"), &CHRONYD, one, &before, done)?;
    }
    swap(machine, &mut first);
    Ok(())
}

/// Right by steps of what it lost, and as it then stays: by the best of several looks.
fn lost(when: &str, machine: &mut Machine, lost_s: f64) -> Result<Check, String> {
    let away = Duration::try_from_secs_f64(lost_s)
        .map_err(|_| format!("{when}: by QEMU it lost {lost_s} s"))?;
    let mut check = corrected(when, machine, between(away, away))?;
    // What is too little for a step chronyd slews, once it has measured anew.
    let (begun, first) = (Instant::now(), machine.ahead_s()?);
    let mut best = first;
    while !is_exact(best) && begun.elapsed() < PATIENCE {
        best = machine.ahead_s()?;
    }
    check.found += &format!(
        "; lost {lost_s:.3} s by QEMU; then {:.3} ± {:.3} s, and {:.1} s later {:.3} ± {:.3} s",
        first.0,
        first.1,
        begun.elapsed().as_secs_f64(),
        best.0,
        best.1
    );
    check.passed &= is_exact(best);
    Ok(check)
}

/// A clock that is known to be right.
fn is_exact((ahead_s, bound_s): (f64, f64)) -> bool {
    bound_s <= EXACT_S && ahead_s.abs() <= bound_s + RIGHT_S
}

/// What a machine lost that was put back, s, from when QEMU stopped it and let it go on: to
/// be saved, and each time to be loaded. QEMU's TSC goes forward only (cpu_get_ticks,
/// softmmu/cpu-timers.c) and so shows what it ran since it was saved; other clocks do not.
fn put_back_s(stops: &[(f64, f64)], on_tsc: bool) -> Result<f64, String> {
    let (Some((saved_s, _)), Some((_, last_s))) = (stops.first(), stops.last()) else {
        return Err("QEMU did not stop it to save it".to_owned());
    };
    let stood_s = stops.iter().map(|(from_s, to_s)| to_s - from_s).sum();
    Ok(if on_tsc { stood_s } else { last_s - saved_s })
}

/// When QEMU stopped it for the last time, as something was done, s.
fn stopped_by(
    machine: &mut Machine,
    stops: impl FnOnce(&mut Qmp) -> Result<(), String>,
) -> Result<f64, String> {
    let qmp = machine.qmp.as_mut().ok_or("a migration needs QMP")?;
    stops(qmp)?;
    qmp.stopped_s().ok_or_else(|| "QEMU did not stop it".to_owned())
}

/// When the QEMU that it was moved to had it go on, s.
fn resumed_s(machine: &mut Machine) -> Result<f64, String> {
    let qmp = machine.qmp.as_mut().ok_or("a migration needs QMP")?;
    let begun = Instant::now();
    loop {
        // An event is read with the next reply.
        qmp.execute("query-status", json!({}))?;
        if let Some(resumed_s) = qmp.resumed_s() {
            return Ok(resumed_s);
        }
        if begun.elapsed() > PATIENCE {
            return Err("QEMU does not let it go on".to_owned());
        }
        sleep(Duration::from_millis(100));
    }
}

/// Another QEMU, which waits for a machine's memory.
fn incoming(place: &Place<'_>, name: &str, uri: &str) -> Result<Machine, String> {
    let folder = place.folder.join(name);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Machine::start(&migration::twin(place.start, &folder.join("qmp"), uri)?, &folder)
}

/// One that runs on from a file.
fn copy(place: &Place<'_>, name: &str, uri: &str) -> Result<Machine, String> {
    let mut machine = incoming(place, name, uri)?;
    let qmp = machine.qmp.as_mut().ok_or("a fork needs QMP")?;
    qmp.loaded(MEMORY)?;
    qmp.cont()?;
    Ok(machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_back_lost_is_of_its_stops() {
        // Saved for 1 s, it ran for 5 s, and was loaded within 2 s.
        let stops = [(10.0, 11.0), (16.0, 18.0)];
        let is =
            |on_tsc, expected: f64| (put_back_s(&stops, on_tsc).unwrap() - expected).abs() < 1e-9;
        assert!(is(true, 3.0) && is(false, 8.0));
        assert!(put_back_s(&[], true).is_err());
    }

    /// Readings of the row that counted as right.
    #[test]
    fn a_clock_that_may_be_half_a_second_off_is_not_known_to_be_right() {
        assert!(!is_exact((0.34, 0.49)) && !is_exact((0.38, 0.49)) && !is_exact((0.28, 0.39)));
        assert!(!is_exact((0.3, 0.1)) && is_exact((-0.02, 0.03)));
    }
}
