//! What servers may do to a service: one of three lies, one alone lies, none is there
//! at the boot. And what the rest of the system knows of the clock that it keeps.

use std::slice;
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use crate::checks::{Check, Checks, is_within};
use crate::deeds::Place;
use crate::deeds::keep::STEPPED_S;
use crate::deeds::server::Server;
use crate::machine::Machine;
use crate::outcome::Result;

use super::right::{after_a_stop, corrected, right_after};
use super::{ENABLE, INSTALL, PAUSES, RESTART, WAIT, configuration, configure, views};

/// How far off the liar is, and how much further it goes then, s.
const LIE_S: f64 = 5.0;
const MORE_S: f64 = 300.0;

/// What one server may move the clock by, alone (docs/design/keep.md), s: a lie of
/// half that is believed.
const LONE_S: f64 = 1.0;

/// What the clock is behind at a boot, s.
const BEHIND_S: f64 = 40.0;

/// The system's programs end and start again, all of them, under the same kernel.
const BOOT: Duration = Duration::from_secs(150);

pub(crate) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let [first, second] = Server::two(place.workshop)?;
    let mut liar = Server::start(&place.workshop.programs.join("ntp-server"))?;
    liar.step(LIE_S)?;
    let with_lone = configuration(slice::from_ref(&liar));
    let mut all = [first, second, liar];
    let right = configuration(&all[..2]);
    machine.execute(INSTALL)?;
    configure(machine, &configuration(&all))?;
    checks.push(right_after("one of three servers lies by 5 s, at the start", machine, ENABLE)?);
    checks.push(falseticker(all[2].port, machine)?);
    checks.push(after_a_stop("one of three servers lies, stop, cont", machine, PAUSES[0], "true")?);
    checks.push(views::agree("after a correction", machine)?);
    all[2].step(MORE_S)?;
    let when = "one of three servers goes off by 5 minutes more";
    checks.push(moved(when, machine, 0.0, waits(WAIT))?);
    checks.push(super::found_by_the_doctor(place, machine)?);
    booted_without_network(machine, checks)?;
    stopped(machine, checks)?;

    configure(machine, &with_lone)?;
    machine.execute(RESTART)?;
    let when = "alone, a server that lies by 305 s";
    checks.push(moved(when, machine, 0.0, waits(WAIT))?);
    let what = "service: alone, a server that lies by 305 s: refused";
    let log = "journalctl -u parachrond -n 4 -o cat";
    checks.push(machine.says(what, log, |said| said.contains("one server"))?);
    all[2].step(LONE_S / 2.0 - LIE_S - MORE_S)?;
    let when = "alone, a server that lies by half a second, believed";
    checks.push(moved(when, machine, LONE_S, waits(WAIT * 2))?);
    configure(machine, &right)?;
    checks.push(right_after("two right servers in the liar's place", machine, RESTART)?);
    Ok(())
}

/// What happened already has its effect.
fn waits(wait: Duration) -> impl FnOnce(&mut Machine) -> Result {
    move |_| {
        sleep(wait);
        Ok(())
    }
}

/// While something happens, the clock is moved by no more than `most_s`.
fn moved(
    when: &str,
    machine: &mut Machine,
    most_s: f64,
    happens: impl FnOnce(&mut Machine) -> Result,
) -> Result<Check, String> {
    let (by_s, bound_s) = machine.moved_s(happens)?;
    Ok(Check::new(
        format!("service: {when}: moves it by {most_s} s at most"),
        format!("by {by_s:.3} ± {bound_s:.3} s"),
        is_within(most_s + STEPPED_S, (by_s, bound_s)),
    ))
}

/// The status names the liar, and it alone.
fn falseticker(port: u16, machine: &mut Machine) -> Result<Check, String> {
    let what = "service: the status names the liar as a falseticker";
    machine.says(what, "parachron status | grep -E '^(ntp|host|rtc) '", |said| {
        let mut liars = said.lines().filter(|line| line.contains("falseticker"));
        liars.next().is_some_and(|one| one.contains(&format!(":{port} "))) && liars.next().is_none()
    })
}

/// All of systemd starts anew with a clock that is behind and a card that is not
/// connected: the service runs and moves nothing, its RTC shows otherwise though.
/// Connected, it is right.
fn booted_without_network(machine: &mut Machine, checks: &mut Checks) -> Result {
    link(machine, false)?;
    machine.execute(&format!("guest-clock step -{BEHIND_S}"))?;
    let boots = |machine: &mut Machine| {
        machine.execute("systemd-run -q --on-active=1 systemctl soft-reboot")?;
        machine.line.ready(BOOT)?;
        sleep(WAIT);
        Ok(())
    };
    checks.push(moved("a boot without a network, 40 s behind", machine, 0.0, boots)?);
    let line = "systemctl is-active parachrond; systemctl is-enabled parachrond; \
        systemctl show -p SoftRebootsCount --value; parachron status | sed -n '2p;4p'";
    let what = "service: without a network it runs, and reports that it is unsynchronised";
    checks.push(machine.says(what, line, |said| {
        said.starts_with("active\nenabled\n1\n") && said.contains("unsynchronised")
    })?);
    link(machine, true)?;
    let away_s = BEHIND_S - 1.0..=BEHIND_S + 1.0;
    checks.push(corrected("a network that comes after the boot", machine, away_s)?);
    Ok(())
}

/// The card's cable.
fn link(machine: &mut Machine, is_up: bool) -> Result {
    let qmp = machine.qmp.as_mut().ok_or("a link needs QMP")?;
    qmp.execute("set_link", json!({ "name": "net", "up": is_up })).map(drop)
}

/// It ends with a summary and without a failure, and leaves the kernel what it
/// learnt; who asks then is told that nobody is there.
fn stopped(machine: &mut Machine, checks: &mut Checks) -> Result {
    let line = "f() { adjtimex | grep -E 'freq.adjust|tick:'; }; before=$(f); \
        systemctl stop parachrond; [ \"$before\" = \"$(f)\" ] && echo kept; \
        systemctl show -p ActiveState,Result,ExecMainStatus parachrond; \
        parachron status >/dev/null 2>&1; echo asked $?; \
        journalctl -u parachrond -n 8 -o cat | grep -i summary";
    let words =
        ["kept", "ActiveState=inactive", "Result=success", "ExecMainStatus=0", "asked 2", "ummary"];
    let what = "service: stopped, it exits with success and leaves the rate";
    checks.push(machine.says(what, line, |said| words.iter().all(|word| said.contains(word)))?);
    let start = "systemctl start parachrond";
    checks.push(right_after("stopped, and started", machine, start)?);
    Ok(())
}
