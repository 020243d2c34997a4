//! The other unit: chronyd corrects the clock, on command and by what it is fed.

use crate::checks::{Check, Checks};
use crate::deeds::Place;
use crate::deeds::server::Server;
use crate::machine::Machine;
use crate::outcome::Result;

use super::chronyd::follows;
use super::right::after_a_stop;
use super::setup::{PAUSES, configuration, configure};

/// As packaging/README.md has it, and as docs/guide/keep.md has chrony.conf.
const INSTALL: &str = "systemctl disable --now parachrond 2>&1; \
    install -m 644 /opt/packaging/parachrond-chrony.service /etc/systemd/system/ && \
    echo 'refclock SOCK /run/chrony.parachron.sock refid PRCH poll 0 filter 1 delay 1e-2' \
    >>/etc/chrony/chrony.conf && systemctl enable chrony 2>&1 && systemctl daemon-reload && \
    systemctl enable parachrond-chrony 2>&1 && systemctl restart chronyd; sleep 8";

const STATE: &str = "systemctl is-active parachrond-chrony; \
    stat -c %U /proc/$(systemctl show -p MainPID --value parachrond-chrony); chronyc -c sources; \
    journalctl -u parachrond-chrony -n 4 -o cat";

pub(crate) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let servers = Server::two(place.workshop)?;
    checks.push(follows(machine, &servers[0])?);
    let by_chronyd = "chrony = [\"makestep\", \"sock=/run/chrony.parachron.sock\"]\n";
    configure(machine, &format!("{}{by_chronyd}", configuration(&servers)))?;
    machine.line.run("install", 60, INSTALL)?;
    let said = machine.line.run("state", 30, STATE)?.stdout;
    let runs = said.starts_with("active\n_chrony") && said.contains(",PRCH,");
    checks.push(Check::new(
        "service: parachrond-chrony runs as chrony's user, and feeds it",
        said,
        runs,
    ));
    // By itself it would not ask its server for a minute, and not step.
    for pause in PAUSES {
        let when = format!("by chronyd at its command, stop for {} s, cont", pause.as_secs());
        checks.push(after_a_stop(&when, machine, pause)?);
    }
    let line = "systemctl restart chronyd; sleep 8; systemctl is-active parachrond-chrony; \
        systemctl stop chronyd; sleep 2; systemctl is-active parachrond-chrony; \
        systemctl start chronyd; sleep 8; systemctl is-active parachrond-chrony";
    let said = machine.line.run("with", 60, line)?.stdout;
    let passed = said.split_whitespace().eq(["active", "inactive", "active"]);
    checks.push(Check::new(
        "service: parachrond-chrony stops and starts with chronyd",
        said.trim(),
        passed,
    ));
    let when = "by chronyd that was started again, stop, cont";
    checks.push(after_a_stop(when, machine, PAUSES[0])?);
    Ok(())
}
