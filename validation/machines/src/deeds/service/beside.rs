//! Beside chronyd, which disciplines the clock by the first server: after each pause the time of
//! day is right, and chronyd neither fights nor forgets. And by the other unit, with which
//! chronyd corrects the clock, on command and by what it is fed.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::checks::{Check, Checks, is_within};
use crate::deeds::Place;
use crate::deeds::server::Server;
use crate::machine::Machine;
use crate::outcome::Result;

use super::right::after_a_stop;
use super::{ENABLE, INSTALL, PAUSES, RIGHT_S, configuration, configure, views, writes};

/// Configures chronyd for one server, `{port}`, and waits until it follows that. Until it knows
/// the frequency to 100 ppm it polls each second. Then it steps no more, as Debian's file allows
/// that for the first three answers, and acts so rarely that a step within a second is not its
/// own.
const FOLLOW: &str = "sed -i '/^pool/d; /^server/d; /^sourcedir/d' /etc/chrony/chrony.conf && \
    grep '^makestep 1 3' /etc/chrony/chrony.conf && \
    echo 'server 10.0.2.2 port {port} iburst minpoll 6 maxpoll 6' >>/etc/chrony/chrony.conf && \
    systemctl restart chrony && sleep 1; \
    chronyc minpoll 10.0.2.2 0 && chronyc maxpoll 10.0.2.2 0 && \
    chronyc waitsync 90 0 100 1 >/dev/null && \
    chronyc maxpoll 10.0.2.2 6 && chronyc minpoll 10.0.2.2 6 && echo follows";

/// What it thinks.
const THINKS: &str = "chronyc -c tracking; chronyc -c sources";

/// Until it has done as it is told.
const POLLS: Duration = Duration::from_secs(12);

/// Its frequency is what it was within this, ppm. It was known to 100; answers through an emulated
/// card, 20 ms late
/// one way, move the kernel's PLL by 60, a pause taken for a frequency by 500 (MAXFREQ,
/// include/linux/timex.h).
const KEPT_PPM: f64 = 100.0;

/// Has it follow a server.
pub(in crate::deeds) fn follows(machine: &mut Machine, server: &Server) -> Result<Check, String> {
    let follow = FOLLOW.replace("{port}", &server.port.to_string());
    machine.says("service: chronyd follows the server", &follow, |said| said.ends_with("follows"))
}

pub(super) fn thinks(machine: &mut Machine) -> Result<String, String> {
    Ok(machine.line.run("thinks", 30, THINKS)?.stdout)
}

/// Its frequency, ppm.
pub(super) fn frequency_ppm(machine: &mut Machine) -> Result<f64> {
    let tracking = machine.execute("chronyc -c tracking")?;
    let ppm = tracking.split(',').nth(7).and_then(|ppm| ppm.parse().ok());
    ppm.ok_or_else(|| format!("chronyc printed {tracking:?}"))
}

/// Whether it kept the frequency that it had, whatever happened meanwhile.
pub(super) fn frequency_kept(machine: &mut Machine, before_ppm: f64) -> Result<Check, String> {
    let after_ppm = frequency_ppm(machine)?;
    Ok(Check::new(
        format!("service: chronyd keeps its frequency to {KEPT_PPM} ppm"),
        format!("{before_ppm:.3} ppm, then {after_ppm:.3}; it thinks {}", thinks(machine)?),
        (after_ppm - before_ppm).abs() < KEPT_PPM,
    ))
}

pub(crate) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let servers = Server::two(place.workshop)?;
    checks.push(follows(machine, &servers[0])?);
    writes::watch(machine)?;
    machine.execute(INSTALL)?;
    configure(machine, &configuration(&servers))?;
    machine.execute(&format!("{ENABLE}; sleep 3"))?;
    let what = "service: its log states that it only steps beside chronyd";
    let log = "journalctl -u parachrond -o cat";
    checks.push(machine.says(what, log, |said| said.contains("only steps"))?);
    checks.push(writes::check_calm(machine)?);
    let before_ppm = frequency_ppm(machine)?;
    for pause in PAUSES {
        let when = format!("beside chronyd, stop for {} s, cont", pause.as_secs());
        let stopped = Instant::now();
        checks.push(after_a_stop(&when, machine, pause, "true")?);
        sleep(POLLS);
        checks.push(was_told(&when, machine, stopped.elapsed().saturating_sub(pause))?);
        // Until then the kernel's status and its bound are of the daemon before its poll.
        checks.push(views::agree(&when, machine)?);
        let (ahead_s, bound_s) = machine.ahead_s()?;
        checks.push(Check::new(
            format!("service: {when}: still right {} s later; chronyd thinks", POLLS.as_secs()),
            format!("{ahead_s:.3} ± {bound_s:.3} s ahead; {}", thinks(machine)?),
            is_within(RIGHT_S, (ahead_s, bound_s)),
        ));
    }
    checks.push(writes::check_steps(machine)?);
    checks.push(stepped_once_each(machine)?);
    checks.push(super::found_by_the_doctor(place, machine)?);
    checks.push(frequency_kept(machine, before_ppm)?);
    Ok(())
}

/// What chronyd is told by is its Unix socket, which its own user and root may open.
const TOLD: &str = "chronyc -c sources | grep '^^'; \
    stat -c %U /proc/$(systemctl show -p MainPID --value parachrond); \
    ls -ld /run/chrony /run/chrony/chronyd.sock; \
    journalctl -u parachrond -o cat | grep 'command socket'; true";

/// chronyd, which asks its server each 64 s by itself, dropped its measurements and took new
/// ones since the machine went on, as it was told.
fn was_told(when: &str, machine: &mut Machine, since: Duration) -> Result<Check, String> {
    let what = format!("service: {when}: chronyd obeyed: it was reset and measured again");
    machine.says(what, TOLD, |said| has_obeyed(said, since.as_secs_f64()))
}

/// A line of `chronyc -c sources`: the sixth is which of its last eight requests were
/// answered since it was reset, in octal, the seventh how long ago the last was, s.
fn has_obeyed(said: &str, within_s: f64) -> bool {
    let fields: Vec<&str> = said.lines().next().unwrap_or_default().split(',').collect();
    let reach = fields.get(5).and_then(|reach| u8::from_str_radix(reach, 8).ok());
    let ago_s = fields.get(6).and_then(|ago| ago.parse::<f64>().ok());
    reach.is_some_and(|reach| reach != 0 && reach != 0o377)
        && ago_s.is_some_and(|ago_s| ago_s < within_s)
        && !said.contains("unreachable")
}

/// chronyd's own that it finishes as it is told to is of what it was slewing, ns.
const SET_BY_OTHERS_NS: f64 = 1e8;

/// Two daemons that fight step to and fro.
fn stepped_once_each(machine: &mut Machine) -> Result<Check, String> {
    let log = machine.execute("journalctl -u parachrond -o json")?;
    let (steps, sets) = steps(&log);
    Ok(Check::new(
        "service: one step a pause, all of ours, none at the start, beside chronyd",
        format!("{steps} steps, {} pauses; {sets} steps of others", PAUSES.len()),
        steps == PAUSES.len() && sets == 0,
    ))
}

/// How many steps of its own the daemon logged, and how many of others it saw.
fn steps(log: &str) -> (usize, usize) {
    let (mut steps, mut sets) = (0, 0);
    for entry in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let word = |name: &str| entry[name].as_str();
        let size_ns = word("PARACHRON_SIZE_NS").and_then(|ns| ns.parse::<f64>().ok());
        let is_large = size_ns.is_none_or(|ns| ns.abs() >= SET_BY_OTHERS_NS);
        steps += usize::from(word("PARACHRON_EVENT") == Some("corrected"));
        sets += usize::from(word("PARACHRON_KIND") == Some("clock-set") && is_large);
    }
    (steps, sets)
}

/// The other unit, as packaging/README.md has it, and as docs/guide/keep.md has chrony.conf.
const INSTALL_OTHER: &str = "systemctl disable --now parachrond 2>&1; \
    install -m 644 /opt/packaging/parachrond-chrony.service /etc/systemd/system/ && \
    echo 'refclock SOCK /run/chrony.parachron.sock refid PRCH poll 0 filter 1 delay 1e-2' \
    >>/etc/chrony/chrony.conf && systemctl enable chrony 2>&1 && systemctl daemon-reload && \
    systemctl enable parachrond-chrony 2>&1 && systemctl restart chronyd; sleep 8";

const STATE: &str = "systemctl is-active parachrond-chrony; \
    stat -c %U /proc/$(systemctl show -p MainPID --value parachrond-chrony); chronyc -c sources; \
    journalctl -u parachrond-chrony -n 4 -o cat";

pub(crate) fn by_chronyd(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let servers = Server::two(place.workshop)?;
    checks.push(follows(machine, &servers[0])?);
    let by_chronyd = "chrony = [\"makestep\", \"sock=/run/chrony.parachron.sock\"]\n";
    configure(machine, &format!("{}{by_chronyd}", configuration(&servers)))?;
    machine.line.run("install", 60, INSTALL_OTHER)?;
    let what = "service: parachrond-chrony runs as chrony's user, and feeds it";
    checks.push(machine.says(what, STATE, |said| {
        said.starts_with("active\n_chrony") && said.contains(",PRCH,")
    })?);
    // By itself it would not ask its server for a minute, and not step.
    for pause in PAUSES {
        let when = format!("by chronyd at its command, stop for {} s, cont", pause.as_secs());
        checks.push(after_a_stop(&when, machine, pause, "true")?);
    }
    let line = "systemctl restart chronyd; sleep 8; systemctl is-active parachrond-chrony; \
        systemctl stop chronyd; sleep 2; systemctl is-active parachrond-chrony; \
        systemctl start chronyd; sleep 8; systemctl is-active parachrond-chrony";
    let what = "service: parachrond-chrony stops and starts with chronyd";
    checks.push(machine.says(what, line, |said| said == "active\ninactive\nactive")?);
    let when = "by chronyd that was started again, stop, cont";
    checks.push(after_a_stop(when, machine, PAUSES[0], "true")?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_others_is_not_of_ours() {
        let entry = |fields: &str| format!("{{{fields}}}\n");
        let ours = entry("\"PARACHRON_EVENT\":\"corrected\"");
        let other = |ns: &str| {
            entry(&format!("\"PARACHRON_KIND\":\"clock-set\",\"PARACHRON_SIZE_NS\":\"{ns}\""))
        };
        assert_eq!(steps(&format!("{ours}-- no json\n{ours}")), (2, 0));
        assert_eq!(steps(&(ours + &other("-2000000000") + &other("20000000"))), (1, 1));
    }

    #[test]
    fn a_chronyd_that_was_not_reset_or_not_asked_to_measure_did_not_obey() {
        let said = |reach: &str, ago: &str| {
            has_obeyed(&format!("^,*,10.0.2.2,1,6,{reach},{ago},0.001,0.001,0.02\n_chrony\n"), 14.0)
        };
        assert!(said("7", "6") && said("17", "2"));
        assert!(!said("377", "6"), "it has all that it measured before");
        assert!(!said("7", "40"), "of before");
        assert!(!said("0", "6") && !has_obeyed("", 14.0));
        let refused = "^,*,10.0.2.2,1,6,7,6,0,0,0\nsource unreachable: chronyd's command socket";
        assert!(!has_obeyed(refused, 14.0));
    }
}
