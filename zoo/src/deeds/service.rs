//! `parachrond` as a service of a real systemd, installed as packaging/README.md
//! says: what an operator does to it, and what a host does to the machine.
//!
//! Right is what this system's clock says, read from outside.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::checks::Check;
use crate::machine::Machine;

use super::server::Server;
use super::{Place, chrony};

/// The configuration, with the servers' ports.
const CONFIGURATION: &str = "ntp = [{servers}]\npoll = \"8s\"\nmin-interval = \"1s\"\nburst = 20\n";
const CONFIGURATION_FILE: &str = "/etc/parachron/parachrond.toml";

/// As packaging/README.md has it, from where the machine has those files.
const INSTALL: &str = "cd /opt/packaging && \
    install -D -m 644 parachrond.toml /etc/parachron/parachrond.toml && \
    install -m 644 parachron.sysusers /usr/lib/sysusers.d/parachron.conf && \
    install -m 644 90-parachron.rules /usr/lib/udev/rules.d/ && \
    install -m 644 parachrond.service /etc/systemd/system/ && \
    systemd-sysusers && udevadm control --reload && systemctl daemon-reload";

/// How far off a clock that is right may be, beside what is known of it from
/// outside, s: the round trips of an emulated network card.
const RIGHT_S: f64 = 0.05;

/// The service has this long to find the sources, poll and correct, in a machine
/// that is slow.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long the machine is stopped, one after the other.
const PAUSES: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(30)];

/// Times in which nothing may happen.
const WAIT: Duration = Duration::from_secs(8);

/// A clock that nobody steps gains less than this in that time, s.
const STEPPED_S: f64 = 0.2;

pub(super) fn run(
    place: &Place<'_>,
    machine: &mut Machine,
    checks: &mut Vec<Check>,
) -> Result<(), String> {
    let program = place.workshop.programs.join("ntp-server");
    let servers = [Server::start(&program)?, Server::start(&program)?];
    let configuration = configuration(&servers);
    machine.execute(INSTALL)?;
    configure(machine, &configuration)?;
    checks.push(verified(machine)?);
    machine.execute("systemctl enable --now parachrond")?;
    checks.push(soon_right("it starts", machine)?);
    checks.push(known_to_others(machine)?);
    checks.push(found_by_the_doctor(machine)?);
    for pause in PAUSES {
        stopped(machine, pause)?;
        checks.push(soon_right(&format!("stop for {} s, cont", pause.as_secs()), machine)?);
    }
    reloaded(machine, &configuration, checks)?;
    killed(machine, checks)?;
    left_alone(machine, checks)?;
    without_network(machine, checks)?;
    checks.push(out_of_users_reach(machine)?);
    mistyped(machine, &configuration, checks)
}

/// Beside chronyd, which follows the first server: after each pause the time of
/// day is right, chronyd does not fight, and keeps its frequency.
pub(super) fn beside_chronyd(
    place: &Place<'_>,
    machine: &mut Machine,
    checks: &mut Vec<Check>,
) -> Result<(), String> {
    let program = place.workshop.programs.join("ntp-server");
    let servers = [Server::start(&program)?, Server::start(&program)?];
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
        stopped(machine, pause)?;
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

fn configuration(servers: &[Server]) -> String {
    let named: Vec<String> =
        servers.iter().map(|server| format!("\"10.0.2.2:{}\"", server.port)).collect();
    CONFIGURATION.replace("{servers}", &named.join(", "))
}

fn configure(machine: &mut Machine, text: &str) -> Result<(), String> {
    // The line takes one line.
    let text = text.replace('\n', "\\n");
    machine.execute(&format!("printf '%b' '{text}' >{CONFIGURATION_FILE}")).map(drop)
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

/// The time of day becomes right; how long that took, and how far it was off.
fn soon_right(when: &str, machine: &mut Machine) -> Result<Check, String> {
    let start = Instant::now();
    let mut largest_s: f64 = 0.0;
    loop {
        let (ahead_s, bound_s) = machine.ahead_s()?;
        let took_s = start.elapsed().as_secs_f64();
        largest_s = if ahead_s.abs() > largest_s.abs() { ahead_s } else { largest_s };
        let right = ahead_s.abs() <= bound_s + RIGHT_S;
        if right || start.elapsed() > PATIENCE {
            let what = format!("service: {when}: right within {} s", PATIENCE.as_secs());
            let found = format!(
                "{ahead_s:.3} ± {bound_s:.3} s ahead after {took_s:.1} s; {largest_s:.3} s at most"
            );
            return Ok(Check::new(what, found, right));
        }
    }
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
    let line = "parachron doctor --format json --only clock-steered,unsynchronised,keepers-fight \
        2>/dev/null || parachron doctor --format json";
    let said = machine.execute(line)?;
    let report: serde_json::Value =
        serde_json::from_str(&said).map_err(|error| error.to_string())?;
    let findings = crate::checks::list(&report["diagnosis"]["findings"]);
    let rules: Vec<&str> = findings.iter().filter_map(|one| one["rule"].as_str()).collect();
    let passed = !rules.contains(&"clock-steered");
    Ok(Check::new("service: the doctor finds that the clock is kept", rules.join(", "), passed))
}

fn stopped(machine: &mut Machine, pause: Duration) -> Result<(), String> {
    let qmp = machine.qmp.as_mut().ok_or("a pause needs QMP")?;
    qmp.stop()?;
    sleep(pause);
    qmp.cont()
}

/// A good file is taken over by a reload, a bad one is refused by line, and the
/// service goes on.
fn reloaded(machine: &mut Machine, good: &str, checks: &mut Vec<Check>) -> Result<(), String> {
    let pid = process(machine)?;
    configure(machine, &good.replace("burst = 20", "brust = 20"))?;
    machine.line.run("reload", 30, "systemctl reload parachrond; sleep 1")?;
    let said = machine.execute("journalctl -u parachrond -n 5 -o cat")?;
    checks.push(Check::new(
        "service: a reload refuses an unknown key by its line, and names the nearest",
        &said,
        said.contains("parachrond.toml:4") && said.contains("burst"),
    ));
    configure(machine, &good.replace("poll = \"8s\"", "poll = \"9s\""))?;
    machine.execute("systemctl reload parachrond; sleep 1")?;
    let after = process(machine)?;
    checks.push(Check::new(
        "service: reloads keep its process",
        format!("{pid} and {after}"),
        pid == after && pid != "0",
    ));
    configure(machine, good)?;
    machine.execute("systemctl restart parachrond")?;
    checks.push(soon_right("restarted", machine)?);
    Ok(())
}

fn process(machine: &mut Machine) -> Result<String, String> {
    machine.execute("systemctl show -p MainPID --value parachrond")
}

/// What it was killed in the middle of is gone on with.
fn killed(machine: &mut Machine, checks: &mut Vec<Check>) -> Result<(), String> {
    let line = "systemctl kill -s KILL parachrond; \
        for i in $(seq 30); do sleep 0.5; systemctl is-active -q parachrond && break; done; \
        systemctl show -p NRestarts --value parachrond; systemctl is-active parachrond";
    let said = machine.line.run("killed", 60, line)?.stdout;
    let passed = said.split_whitespace().eq(["1", "active"]);
    checks.push(Check::new("service: killed, it is started again, once", said.trim(), passed));
    stopped(machine, PAUSES[0])?;
    checks.push(soon_right("killed, started again, and stop, cont", machine)?);
    Ok(())
}

/// A date that an administrator set is not undone; the next disruption ends that.
fn left_alone(machine: &mut Machine, checks: &mut Vec<Check>) -> Result<(), String> {
    machine.execute("date -s @$(($(date +%s) + 3600)) >/dev/null")?;
    sleep(WAIT);
    let (ahead_s, bound_s) = machine.ahead_s()?;
    checks.push(Check::new(
        "service: a date that was set stays",
        format!("{ahead_s:.3} ± {bound_s:.3} s ahead"),
        (ahead_s - 3600.0).abs() < 2.0 + bound_s,
    ));
    machine.execute("systemctl restart parachrond")?;
    checks.push(soon_right("started again after a date was set", machine)?);
    Ok(())
}

/// Stopped without a network: what the RTC alone shows. With it back, right.
fn without_network(machine: &mut Machine, checks: &mut Vec<Check>) -> Result<(), String> {
    machine.execute("ip link set eth0 down")?;
    let (before_s, _) = machine.ahead_s()?;
    sleep(WAIT);
    let (after_s, bound_s) = machine.ahead_s()?;
    checks.push(Check::new(
        "service: without a network the clock is not stepped",
        format!("moved by {:.3} ± {bound_s:.3} s", after_s - before_s),
        (after_s - before_s).abs() <= STEPPED_S + bound_s,
    ));
    stopped(machine, PAUSES[0])?;
    machine.execute(
        "ip link set eth0 up; networkctl reconfigure eth0 2>/dev/null; \
        ip addr add 10.0.2.15/24 dev eth0 2>/dev/null; ip route add default via 10.0.2.2 \
        2>/dev/null; true",
    )?;
    checks.push(soon_right("stop, cont without a network, which comes back", machine)?);
    Ok(())
}

/// What an ordinary user tries against it.
fn out_of_users_reach(machine: &mut Machine) -> Result<Check, String> {
    let tries = [
        "kill -KILL $(systemctl show -p MainPID --value parachrond)",
        "rm -f /run/parachron/keep.lock",
        ": >/run/parachron/keep.lock",
        "mv /run/parachron /run/other",
        "ln -sf /dev/null /run/parachron/host.sock",
        "echo x >/etc/parachron/parachrond.toml",
        "systemctl stop parachrond",
        "systemctl reload parachrond",
        "busybox nc local:/run/parachron/host.sock </dev/null",
    ];
    let pid = process(machine)?;
    let mut allowed = Vec::new();
    for attempt in tries {
        let line = format!("setpriv --reuid 65534 --regid 65534 --clear-groups sh -c '{attempt}'");
        let record = machine.line.run("user", 30, &format!("{line} 2>&1 </dev/null"))?;
        if record.status == 0 {
            allowed.push(attempt);
        }
    }
    let same = process(machine)? == pid;
    let found = format!("{} tried, allowed: {}", tries.len(), allowed.join("; "));
    Ok(Check::new(
        "service: an ordinary user stops and moves nothing",
        found,
        allowed.is_empty() && same,
    ))
}

/// A wrong file at the start: it is not started again and again.
fn mistyped(machine: &mut Machine, good: &str, checks: &mut Vec<Check>) -> Result<(), String> {
    configure(machine, &good.replace("poll =", "pole ="))?;
    let line = "systemctl restart parachrond; sleep 5; \
        systemctl show -p NRestarts,ActiveState,ExecMainStatus parachrond; \
        journalctl -u parachrond -n 3 -o cat";
    let said = machine.line.run("mistyped", 60, line)?.stdout;
    let passed = said.contains("ActiveState=failed") && said.contains("NRestarts=0");
    checks.push(Check::new("service: a wrong file fails once, with its line", said, passed));
    configure(machine, good)?;
    machine.execute("systemctl restart parachrond")?;
    checks.push(soon_right("its file corrected", machine)?);
    Ok(())
}
