//! `parachrond` as a service of a real systemd, installed as packaging/README.md
//! says: what an operator does to it, and what a host does to the machine.
//!
//! Right is what this system's clock says, read from outside.

pub(crate) mod beside;
pub(crate) mod chrony_unit;
mod chronyd;
mod cold_boot;
pub(crate) mod disk;
mod floods;
mod frequency;
pub(super) mod host;
mod leap;
pub(crate) mod no_source;
mod operator;
mod right;
mod rtc;
pub(crate) mod servers;
mod setup;
pub(crate) mod stops;
mod users;
mod views;
mod world;
mod writes;

use crate::checks::{self, Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;
use crate::table::Truth;

use super::Place;
use super::server::Server;
use operator::{killed, left_alone, mistyped, read_only, reloaded, run_is_read_only};
use right::{after_a_stop, from_now, soon_right};
use setup::{INSTALL, PAUSES, configuration, configure};
use users::out_of_users_reach;
use world::without_network;

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let servers = Server::two(place.workshop)?;
    let configuration = configuration(&servers);
    machine.execute(INSTALL)?;
    configure(machine, &configuration)?;
    checks.push(verified(machine)?);
    let since = from_now(machine)?;
    machine.execute("systemctl enable --now parachrond")?;
    checks.push(soon_right("it starts", machine, since)?);
    checks.push(known_to_others(machine)?);
    checks.push(found_by_the_doctor(place, machine)?);
    for pause in PAUSES {
        let when = format!("stop for {} s, cont", pause.as_secs());
        checks.push(after_a_stop(&when, machine, pause)?);
    }
    checks.push(world::stopped_often(machine)?);
    checks.push(world::slept(machine)?);
    disk::full(machine, checks)?;
    checks.push(world::rtc_in_local_time(machine)?);
    world::without_memory(machine, checks)?;
    operator::upgraded(machine, checks)?;
    reloaded(machine, &configuration, checks)?;
    killed(machine, checks)?;
    left_alone(machine, checks)?;
    without_network(machine, checks)?;
    checks.push(out_of_users_reach(machine)?);
    checks.push(floods::run(place, machine)?);
    run_is_read_only(machine, checks)?;
    read_only(machine, checks)?;
    no_source::run(machine, &configuration, checks)?;
    mistyped(machine, &configuration, checks)
}

/// systemd's own judgement of the unit, and ours of the file.
fn verified(machine: &mut Machine) -> Result<Check, String> {
    let line = "systemd-analyze verify --man=no /etc/systemd/system/parachrond.service 2>&1 && \
        parachrond --check 2>&1";
    let record = machine.line.run("verify", 30, line)?;
    let said = format!("{}{}", record.stdout, record.stderr);
    // Verifying loads other units too, which are not ours to judge.
    let passed = record.status == 0 && !said.contains("parachrond.service:");
    Ok(Check::new("service: systemd finds nothing in the unit, --check nothing", said, passed))
}

/// What the rest of the system knows: the kernel, systemd, the status.
fn known_to_others(machine: &mut Machine) -> Result<Check, String> {
    let line = "for i in $(seq 40); do \
        [ $(timedatectl show -p NTPSynchronized --value) = yes ] && \
        parachron status | grep -q '^clock: synchronised' && break; sleep 0.5; done; \
        timedatectl show -p NTPSynchronized --value; adjtimex | grep -E 'maxerror|status'; \
        parachron status | head -n 20";
    let said = machine.execute(line)?;
    let passed =
        said.starts_with("yes") && !said.contains("UNSYNC") && said.contains("clock: synchronised");
    Ok(Check::new(
        "service: timedatectl, the kernel and its own status state that the clock is synchronised",
        said,
        passed,
    ))
}

/// Its advice was followed, so that nothing is left but what the machine is.
fn found_by_the_doctor(place: &Place<'_>, machine: &mut Machine) -> Result<Check, String> {
    let findings = checks::findings(&machine.execute(super::rules::DOCTOR)?)?;
    let rules: Vec<&str> = findings.iter().filter_map(|one| one["rule"].as_str()).collect();
    let truth = place.row.truth()?;
    let passed = rules.iter().all(|rule| is_the_machines(truth, rule));
    Ok(Check::new("service: the doctor finds no fault of the clock", rules.join(", "), passed))
}

/// Whether a finding is of what the row states of the machine, and not of a clock that
/// is kept.
pub(super) fn is_the_machines(truth: &Truth, rule: &str) -> bool {
    let mut all = truth.findings.iter().chain(&truth.may_find);
    rule != "clock-steered" && all.any(|one| one.split([' ', ':']).nth(1) == Some(rule))
}
