//! What an administrator does that a rule of `doctor` is for: it is found while it is
//! so, and neither before nor after. Two daemons are no case: Debian's packages of them
//! conflict.

use std::collections::BTreeSet;

use crate::checks::{self, Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;

use super::Place;
use super::server::Server;
use super::service::beside;

/// All that it says.
pub(super) const DOCTOR: &str = "parachron doctor --format json";

/// A rule, what is done, the line that does it, and the one that ends it. The first
/// ends with what a program of the system's own says of it.
type Case = (&'static str, &'static str, &'static str, &'static str);

/// Beside a clock that is synchronised the kernel sets the RTC right.
const CASES: [Case; 3] = [
    (
        "rtc-off",
        "the date set ten minutes ahead, the RTC not",
        "systemctl stop chrony; busybox hwclock -u -w; guest-clock step 600; \
            busybox hwclock -u -r",
        "guest-clock step -600; busybox hwclock -u -w; systemctl start chrony",
    ),
    (
        "rtc-local-time",
        "timedatectl set-local-rtc 1, in New York",
        "timedatectl set-timezone America/New_York; timedatectl set-local-rtc 1; \
            timedatectl show -p LocalRTC --value",
        "timedatectl set-local-rtc 0; timedatectl set-timezone UTC",
    ),
    (
        "mixed-leap-smear",
        "Google's server in chrony.conf beside another",
        "cd /etc/chrony; cp chrony.conf /tmp/; echo 'server time.google.com' >>chrony.conf; \
            echo 'server ntp.example.org' >>chrony.conf; systemctl restart chrony; \
            grep -c ^server chrony.conf",
        "cp /tmp/chrony.conf /etc/chrony/; systemctl restart chrony",
    ),
];

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let server = Server::start(&place.workshop.programs.join("ntp-server"))?;
    checks.push(beside::follows(machine, &server)?);
    checks.push(same(place, machine)?);
    for (rule, what, begin, end) in CASES {
        checks.push(found(machine, DOCTOR, rule, &format!("before {what}"), false)?);
        let witness = machine.execute(begin)?;
        checks.push(found(machine, DOCTOR, rule, &format!("{what} ({witness})"), true)?);
        machine.execute(end)?;
        checks.push(found(machine, DOCTOR, rule, &format!("after {what}"), false)?);
    }
    Ok(())
}

/// The doctor finds what the row states while chronyd follows a server.
fn same(place: &Place<'_>, machine: &mut Machine) -> Result<Check, String> {
    let findings = checks::findings(&machine.execute(DOCTOR)?)?;
    let found: BTreeSet<&str> = findings.iter().filter_map(|one| one["rule"].as_str()).collect();
    let stated = place.row.truth()?.findings.iter();
    let expected: BTreeSet<&str> =
        stated.filter_map(|line| line.split([' ', ':']).nth(1)).collect();
    let what = "doctor: finds the same while chronyd follows the server";
    Ok(Check::new(what, found.iter().copied().collect::<Vec<_>>().join(", "), found == expected))
}

/// Whether a report, which a line prints, has a finding of a rule.
pub(super) fn found(
    machine: &mut Machine,
    line: &str,
    rule: &str,
    when: &str,
    expected: bool,
) -> Result<Check, String> {
    let findings = checks::findings(&machine.execute(line)?)?;
    let finding = findings.iter().find(|finding| finding["rule"] == rule);
    let found = finding.and_then(|finding| finding["what"].as_str()).unwrap_or("nothing");
    Ok(Check::new(format!("doctor: {rule}: {when}"), found, finding.is_some() == expected))
}
