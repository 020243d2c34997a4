//! chronyd in the machine follows a server outside, whose clock then steps by
//! more and by less than chronyd steps for.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::checks::{Check, Checks, list};
use crate::machine::Machine;
use crate::outcome::Result;

use super::Place;
use super::server::Server;
use super::watching::{self, Caused};

/// Until chronyd knows the frequency to 100 ppm: at first it tries far more.
/// chronyd asks each second, and steps by more than half a second at any time.
/// The line `makestep` of Debian's file allows that for the first three
/// answers only.
const CONFIGURE: &str = "sed -i '/^pool/d; /^server/d; /^sourcedir/d; /^makestep/d' /etc/chrony/chrony.conf && \
    echo 'server 10.0.2.2 port {port} iburst minpoll 0 maxpoll 0' >>/etc/chrony/chrony.conf && \
    echo 'makestep 0.5 -1' >>/etc/chrony/chrony.conf && systemctl restart chrony && \
    sleep 1; chronyc waitsync 90 0 100 1 >/dev/null && chronyc -c tracking";

/// The server's steps, s.
const STEP_S: f64 = 30.0;
const SLEW_S: f64 = 0.1;

/// Waits until the time of day has stepped against the time since boot.
const STEPPED: &str = "ahead() { echo $(($(date +%s) - $(cut -d . -f 1 /proc/uptime))); }; \
    before=$(ahead); while [ $(ahead) -lt $((before + 15)) ]; do usleep 50000; done";

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let mut server = Server::start(&place.workshop.programs.join("ntp-server"))?;
    let tracking = follow(machine, &server)?;
    checks.push(Check::new("chronyd: follows the server", &tracking, !tracking.is_empty()));
    checks.push(nothing_but_the_truth(place, machine)?);

    let (before_s, before_bound_s) = machine.ahead_s()?;
    watching::start(machine)?;
    machine.line.send("stepped", 60, STEPPED)?;
    server.step(STEP_S)?;
    machine.line.record("stepped", std::time::Duration::from_secs(90))?;
    let (soon, late) = watching::told(machine)?;
    watching::end(machine)?;
    let (after_s, after_bound_s) = machine.ahead_s()?;
    let caused = Caused {
        what: "chronyd steps",
        kinds: &["clock-set"],
        besides: &["steered"],
        // It slews by what it finds later.
        size_s: Some((after_s - before_s, before_bound_s + after_bound_s + SLEW_S)),
    };
    checks.push(watching::judge(&caused, &soon, &late));

    watching::start(machine)?;
    server.step(SLEW_S)?;
    machine.execute("sleep 6")?;
    let (soon, late) = watching::told(machine)?;
    let caused = Caused { what: "chronyd slews", kinds: &["steered"], besides: &[], size_s: None };
    checks.push(watching::judge(&caused, &soon, &late));
    watching::end(machine)
}

/// Has chronyd follow a server; what it then prints of `tracking`, or nothing
/// if it does not follow it.
fn follow(machine: &mut Machine, server: &Server) -> Result<String, String> {
    let configure = CONFIGURE.replace("{port}", &server.port.to_string());
    let tracking = machine.line.run("chronyd", 120, &configure)?;
    Ok(if tracking.status == 0 { tracking.stdout.trim().to_owned() } else { String::new() })
}

/// The doctor finds what the row states while chronyd follows a server.
fn nothing_but_the_truth(place: &Place<'_>, machine: &mut Machine) -> Result<Check, String> {
    let report = machine.execute("parachron doctor --format json")?;
    let report: Value = serde_json::from_str(&report).map_err(|error| error.to_string())?;
    let rules = list(&report["diagnosis"]["findings"]).iter().map(|one| one["rule"].as_str());
    let found: BTreeSet<&str> = rules.flatten().collect();
    let stated = place.row.truth()?.findings.iter();
    let rule = |line: &'_ String| line.split([' ', ':']).nth(1).map(str::to_owned);
    let expected: BTreeSet<String> = stated.filter_map(rule).collect();
    let passed = found.iter().copied().eq(expected.iter().map(String::as_str));
    let what = "doctor: finds the same while chronyd follows the server";
    Ok(Check::new(what, found.into_iter().collect::<Vec<_>>().join(", "), passed))
}
