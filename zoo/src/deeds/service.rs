//! `parachrond` as a service of a real systemd, installed as packaging/README.md
//! says: what an operator does to it, and what a host does to the machine.
//!
//! Right is what this system's clock says, read from outside.

mod operator;
mod setup;
mod world;

use std::thread::sleep;

use crate::checks::Check;
use crate::machine::Machine;

use super::server::Server;
use super::{Place, chrony};
use operator::{killed, left_alone, mistyped, out_of_users_reach, read_only, reloaded};
use setup::{INSTALL, PAUSES, RIGHT_S, WAIT, configuration, configure};
use world::{soon_right, without_network};

pub(super) fn run(
    place: &Place<'_>,
    machine: &mut Machine,
    checks: &mut Vec<Check>,
) -> Result<(), String> {
    let servers = Server::two(place.workshop)?;
    let configuration = configuration(&servers);
    machine.execute(INSTALL)?;
    configure(machine, &configuration)?;
    checks.push(verified(machine)?);
    machine.execute("systemctl enable --now parachrond")?;
    checks.push(soon_right("it starts", machine)?);
    checks.push(known_to_others(machine)?);
    checks.push(found_by_the_doctor(machine)?);
    for pause in PAUSES {
        machine.pause(pause)?;
        checks.push(soon_right(&format!("stop for {} s, cont", pause.as_secs()), machine)?);
    }
    checks.push(world::stopped_often(machine)?);
    checks.push(world::slept(machine)?);
    checks.push(world::without_room(machine)?);
    reloaded(machine, &configuration, checks)?;
    killed(machine, checks)?;
    left_alone(machine, checks)?;
    without_network(machine, checks)?;
    checks.push(out_of_users_reach(machine)?);
    read_only(machine, checks)?;
    mistyped(machine, &configuration, checks)
}

/// Beside chronyd, which follows the first server: after each pause the time of
/// day is right, chronyd does not fight, and keeps its frequency.
pub(super) fn beside_chronyd(
    place: &Place<'_>,
    machine: &mut Machine,
    checks: &mut Vec<Check>,
) -> Result<(), String> {
    let servers = Server::two(place.workshop)?;
    let follows = chrony::follow(machine, &servers[0])?;
    checks.push(Check::new("service: chronyd follows the server", &follows, !follows.is_empty()));
    let frequency_ppm = |tracking: &str| tracking.split(',').nth(7)?.parse::<f64>().ok();
    machine.execute(INSTALL)?;
    configure(machine, &configuration(&servers))?;
    machine.execute("systemctl enable --now parachrond; sleep 3")?;
    let said = machine.execute("journalctl -u parachrond -o cat")?;
    let steps = said.contains("only steps");
    checks.push(Check::new("service: it says that it only steps beside chronyd", said, steps));
    for pause in PAUSES {
        machine.pause(pause)?;
        let when = format!("beside chronyd, stop for {} s, cont", pause.as_secs());
        checks.push(soon_right(&when, machine)?);
        sleep(WAIT);
        let (ahead_s, bound_s) = machine.ahead_s()?;
        checks.push(Check::new(
            format!("service: {when}: still right {} s later", WAIT.as_secs()),
            format!("{ahead_s:.3} ± {bound_s:.3} s ahead"),
            ahead_s.abs() <= bound_s + RIGHT_S,
        ));
    }
    let now = machine.execute("chronyc -c tracking")?;
    let moved = frequency_ppm(&follows).zip(frequency_ppm(&now)).map(|(was, is)| is - was);
    checks.push(Check::new(
        "service: chronyd keeps its frequency, to 50 ppm",
        format!("{follows}, then {now}"),
        moved.is_some_and(|ppm| ppm.abs() < 50.0),
    ));
    Ok(())
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
        [ $(timedatectl show -p NTPSynchronized --value) = yes ] && break; sleep 0.5; done; \
        timedatectl show -p NTPSynchronized --value; adjtimex | grep -E 'maxerror|status'; \
        parachron status | head -n 20";
    let said = machine.execute(line)?;
    let passed = said.starts_with("yes") && !said.contains("UNSYNC");
    Ok(Check::new(
        "service: timedatectl and the kernel know the clock as synchronised",
        said,
        passed,
    ))
}

/// Its advice was followed, so that it has none left on who keeps the clock.
fn found_by_the_doctor(machine: &mut Machine) -> Result<Check, String> {
    let said = machine.execute("parachron doctor --format json")?;
    let report: serde_json::Value =
        serde_json::from_str(&said).map_err(|error| error.to_string())?;
    let findings = crate::checks::list(&report["diagnosis"]["findings"]);
    let rules: Vec<&str> = findings.iter().filter_map(|one| one["rule"].as_str()).collect();
    let passed = !rules.contains(&"clock-steered");
    Ok(Check::new("service: the doctor finds that the clock is kept", rules.join(", "), passed))
}
