//! `parachrond` as a service of a real systemd, installed as packaging/README.md
//! says: what an operator does to it, and what a host does to the machine.
//!
//! Right is what this system's clock says, read from outside.

pub(crate) mod beside;
pub(crate) mod disk;
pub(super) mod host;
mod operator;
mod right;
pub(crate) mod servers;
pub(crate) mod stops;
mod users;
mod views;
mod world;
mod writes;

use std::time::Duration;

use crate::checks::{self, Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;
use crate::table::Truth;

use super::Place;
use super::server::Server;
use right::{after_a_stop, right_after};

/// The configuration, with the servers' ports.
const CONFIGURATION: &str = "ntp = [{servers}]\npoll = \"8s\"\nmin-interval = \"1s\"\nburst = 20\n";
const CONFIGURATION_FILE: &str = "/etc/parachron/parachrond.toml";

/// As packaging/README.md has it, from where the machine has those files.
const INSTALL: &str = "cd /opt/packaging && \
    install -D -m 644 parachrond.toml /etc/parachron/parachrond.toml && \
    install -m 644 parachron.sysusers /usr/lib/sysusers.d/parachron.conf && \
    install -m 644 90-parachron.rules /usr/lib/udev/rules.d/ && \
    install -m 644 parachrond.service /etc/systemd/system/ && \
    install -D -m 755 parachrond-generator /etc/systemd/system-generators/parachrond && \
    systemd-sysusers && udevadm control --reload && systemctl daemon-reload";
const ENABLE: &str = "systemctl enable --now parachrond";
const RESTART: &str = "systemctl restart parachrond";

/// How far off a clock that is right may be, beside what is known of it from
/// outside, s: the round trips of an emulated network card.
const RIGHT_S: f64 = 0.05;

/// How long the machine is stopped, one after the other.
const PAUSES: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(30)];

/// Times in which nothing may happen.
const WAIT: Duration = Duration::from_secs(8);

fn configuration(servers: &[Server]) -> String {
    let named: Vec<String> =
        servers.iter().map(|server| format!("\"10.0.2.2:{}\"", server.port)).collect();
    CONFIGURATION.replace("{servers}", &named.join(", "))
}

fn configure(machine: &mut Machine, text: &str) -> Result {
    // The line takes one line.
    let text = text.replace('\n', "\\n");
    machine.execute(&format!("printf '%b' '{text}' >{CONFIGURATION_FILE}")).map(drop)
}

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let servers = Server::two(place.workshop)?;
    let good = configuration(&servers);
    machine.execute(INSTALL)?;
    configure(machine, &good)?;
    // systemd's own judgement of the unit, and ours of the file. Verifying loads other units
    // too, which are not ours to judge.
    let verify = "systemd-analyze verify --man=no /etc/systemd/system/parachrond.service 2>&1 && \
        parachrond --check 2>&1 && echo verified";
    let what = "service: systemd finds nothing in the unit, --check nothing";
    checks.push(machine.says(what, verify, |said| {
        said.ends_with("verified") && !said.contains("parachrond.service:")
    })?);
    checks.push(right_after("it starts", machine, ENABLE)?);
    checks.push(views::agree("it starts", machine)?);
    checks.push(found_by_the_doctor(place, machine)?);
    for pause in PAUSES {
        let when = format!("stop for {} s, cont", pause.as_secs());
        checks.push(after_a_stop(&when, machine, pause, "true")?);
    }
    world::run(machine, checks)?;
    operator::run(machine, &good, checks)?;
    checks.push(users::out_of_reach(machine)?);
    checks.push(users::floods(place, machine)?);
    operator::mistyped(machine, &good, checks)
}

/// Its advice was followed, so that nothing is left but what the machine is.
fn found_by_the_doctor(place: &Place<'_>, machine: &mut Machine) -> Result<Check, String> {
    let findings = checks::findings(&machine.execute(super::doctor::DOCTOR)?)?;
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
