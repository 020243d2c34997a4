//! Beside a daemon that disciplines the clock by the first server: after each
//! pause the time of day is right, and the other neither fights nor forgets.

use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::checks::Check;
use crate::deeds::server::Server;
use crate::deeds::{Done, Place};
use crate::machine::Machine;
use crate::outcome::{Result, Unavailable};

use super::setup::{INSTALL, PAUSES, RIGHT_S, configuration, configure};
use super::world::soon_right;

/// The other daemon, as Debian has it.
#[derive(Debug)]
pub(crate) struct Other {
    name: &'static str,
    /// Configures it for one server, `{port}`, and waits until it follows that.
    follow: &'static str,
    /// What it thinks.
    thinks: &'static str,
    /// Prints its frequency, ppm.
    frequency: &'static str,
    /// It can be told no other port than NTP's.
    at_ntps_port: bool,
    /// Until it has polled its server again, and has acted on that.
    polls: Duration,
}

pub(crate) const CHRONYD: Other = Other {
    name: "chronyd",
    follow: crate::deeds::chrony::CONFIGURE,
    thinks: "chronyc -c tracking; chronyc -c sources",
    frequency: "chronyc -c tracking | cut -d , -f 8",
    at_ntps_port: false,
    polls: Duration::from_secs(8),
};

pub(crate) const TIMESYNCD: Other = Other {
    name: "systemd-timesyncd",
    follow: "printf '[Time]\\nNTP=10.0.2.2\\nPollIntervalMinSec=16\\nPollIntervalMaxSec=16\\n' \
        >/etc/systemd/timesyncd.conf && systemctl restart systemd-timesyncd && \
        for i in $(seq 60); do [ $(timedatectl show -p NTPSynchronized --value) = yes ] && \
        sleep 20 && exit 0; sleep 1; done; exit 1",
    thinks: "timedatectl show-timesync | grep -E 'ServerName|Poll|NTPMessage|Freq'; \
        journalctl -u systemd-timesyncd -n 3 -o cat",
    frequency: OF_THE_KERNEL,
    at_ntps_port: true,
    polls: Duration::from_secs(20),
};

pub(crate) const NTPSEC: Other = Other {
    name: "ntpsec",
    follow: "sed -i '/^pool/d; /^tos/d' /etc/ntpsec/ntp.conf && \
        echo 'server 10.0.2.2 iburst minpoll 3 maxpoll 3' >>/etc/ntpsec/ntp.conf && \
        systemctl restart ntpsec && \
        for i in $(seq 80); do ntpq -pn 127.0.0.1 | grep -q '^[*]' && sleep 10 && exit 0; sleep 1; done; \
        ntpq -pn 127.0.0.1; exit 1",
    thinks: "ntpq -pn 127.0.0.1 | tail -n 1; ntpq -c 'rv 0 stratum,offset,frequency,sys_jitter,leap' 127.0.0.1; \
        journalctl -u ntpsec -n 2 -o cat",
    frequency: OF_THE_KERNEL,
    at_ntps_port: true,
    polls: Duration::from_secs(20),
};

pub(crate) const NTPD_RS: Other = Other {
    name: "ntpd-rs",
    follow: "printf '[observability]\\nobservation-path = \"/var/run/ntpd-rs/observe\"\\n\
        [[source]]\\nmode = \"server\"\\naddress = \"10.0.2.2:{port}\"\\n[source-defaults]\\n\
        initial-poll-interval = 4\\npoll-interval-limits = { min = 4, max = 4 }\\n\
        [synchronization]\\nminimum-agreeing-sources = 1\\n' >/etc/ntpd-rs/ntp.toml && \
        systemctl restart ntpd-rs && for i in $(seq 80); do \
        adjtimex | grep -q 'status:.*UNSYNC' || { sleep 40; exit 0; }; sleep 1; done; exit 1",
    thinks: "ntp-ctl status; journalctl -u ntpd-rs -n 2 -o cat",
    frequency: OF_THE_KERNEL,
    at_ntps_port: false,
    polls: Duration::from_secs(40),
};

impl Other {
    pub(super) fn is_chronyd(&self) -> bool {
        self.name == CHRONYD.name
    }
}

/// What it has given the kernel. chronyd slews by that as well.
const OF_THE_KERNEL: &str = "adjtimex | awk '/freq.adjust/{print $3/65536}'";

/// NTP's port.
const NTP: u16 = 123;
static AT_NTPS_PORT: Mutex<()> = Mutex::new(());

/// A step is due this soon after the first sample that shows a pause, ms.
const FIRST_ANSWER_MS: f64 = 1000.0;

/// The frequency moves by less than this, ppm: answers through an emulated card,
/// 20 ms late one way, move the kernel's PLL by 60, a pause taken for a frequency
/// by 500 (MAXFREQ, include/linux/timex.h).
const KEPT_PPM: f64 = 100.0;

pub(crate) fn run(
    place: &Place<'_>,
    machine: &mut Machine,
    other: &Other,
    done: &mut Done,
) -> Result {
    let program = place.workshop.programs.join("ntp-server");
    // Rows side by side take turns.
    let _alone = other.at_ntps_port.then(|| AT_NTPS_PORT.lock());
    let port = format!(":{}", if other.at_ntps_port { NTP } else { 0 });
    let Ok(first) = Server::with(&program, &[&port]) else {
        let why = format!("parachrond beside {}: no server on port {NTP} of loopback", other.name);
        done.skipped.push(Unavailable::new(why, "as root, and without an NTP server here"));
        return Ok(());
    };
    let servers = [first, Server::start(&program)?];
    let checks = &mut done.checks;
    let (name, polls_s) = (other.name, other.polls.as_secs());
    checks.push(follows(machine, other, &servers[0])?);
    machine.execute(INSTALL)?;
    configure(machine, &configuration(&servers))?;
    machine.execute("systemctl enable --now parachrond; sleep 3")?;
    let said = machine.execute("journalctl -u parachrond -o cat")?;
    let steps = said.contains("only steps");
    checks.push(Check::new(
        format!("service: it says that it only steps beside {name}"),
        said,
        steps,
    ));
    let before_ppm = frequency_ppm(machine, other)?;
    for pause in PAUSES {
        let before = entries(machine)?.len();
        machine.pause(pause)?;
        let when = format!("beside {name}, stop for {} s, cont", pause.as_secs());
        checks.push(soon_right(&when, machine)?);
        checks.push(after_the_first_answer(&when, machine, before)?);
        sleep(other.polls);
        // Until then the kernel's status and its bound are of the daemon before its poll.
        checks.push(super::views::agree(&when, machine, Some(other))?);
        let (ahead_s, bound_s) = machine.ahead_s()?;
        let thinks = thinks(machine, other)?;
        checks.push(Check::new(
            format!("service: {when}: still right {polls_s} s later; {name} thinks"),
            format!("{ahead_s:.3} ± {bound_s:.3} s ahead; {thinks}"),
            ahead_s.abs() <= bound_s + RIGHT_S,
        ));
    }
    checks.push(kept(other, machine, before_ppm)?);
    checks.push(stepped_once_each(name, machine)?);
    checks.push(super::found_by_the_doctor(place, machine)?);
    Ok(())
}

/// Has it follow a server.
pub(super) fn follows(
    machine: &mut Machine,
    other: &Other,
    server: &Server,
) -> Result<Check, String> {
    let follow = other.follow.replace("{port}", &server.port.to_string());
    let follows = machine.line.run("follow", 150, &follow)?;
    let thinks = thinks(machine, other)?;
    Ok(Check::new(
        format!("service: {} follows the server", other.name),
        format!("{}{thinks}", follows.stderr),
        follows.status == 0,
    ))
}

/// What it says of the clock.
pub(super) fn thinks(machine: &mut Machine, other: &Other) -> Result<String, String> {
    Ok(machine.line.run("thinks", 30, other.thinks)?.stdout)
}

/// The frequency is what it was, whatever it did meanwhile.
pub(super) fn kept(other: &Other, machine: &mut Machine, before_ppm: f64) -> Result<Check, String> {
    let after_ppm = frequency_ppm(machine, other)?;
    let thinks = thinks(machine, other)?;
    Ok(Check::new(
        format!("service: {} keeps its frequency, to {KEPT_PPM} ppm; it thinks", other.name),
        format!("{before_ppm:.3} ppm, then {after_ppm:.3} ppm; {thinks}"),
        (after_ppm - before_ppm).abs() < KEPT_PPM,
    ))
}

/// Its frequency, ppm.
pub(super) fn frequency_ppm(machine: &mut Machine, other: &Other) -> Result<f64, String> {
    let said = machine.execute(other.frequency)?;
    said.parse().map_err(|why| format!("{said}: {why}"))
}

/// The entries of the daemon's log, oldest first: what happened, and when, ms.
fn entries(machine: &mut Machine) -> Result<Vec<(String, f64)>, String> {
    let said = machine.execute("journalctl -u parachrond -o json")?;
    let entries = said.lines().filter_map(|line| {
        let entry: Value = serde_json::from_str(line).ok()?;
        let word = |name: &str| entry[name].as_str();
        let what = word("PARACHRON_EVENT").or(word("PARACHRON_EVIDENCE").map(|_| "disruption"))?;
        let at_ns: f64 = word("PARACHRON_AT_MONOTONIC_NS")?.parse().ok()?;
        Some((what.to_owned(), at_ns / 1e6))
    });
    Ok(entries.collect())
}

/// From what showed the pause, of the entries after those `before` it, to the
/// step, for which servers had to answer.
fn after_the_first_answer(
    when: &str,
    machine: &mut Machine,
    before: usize,
) -> Result<Check, String> {
    let entries = entries(machine)?;
    let since = entries.get(before..).unwrap_or_default();
    let seen = since.iter().map(|(_, at)| *at).reduce(f64::min);
    let done = since.iter().find(|(what, _)| what == "corrected").map(|(_, at)| *at);
    let took_ms = seen.zip(done).map(|(seen, done)| done - seen);
    Ok(Check::new(
        format!("service: {when}: stepped within {FIRST_ANSWER_MS} ms of what showed the pause"),
        took_ms.map_or("no step".to_owned(), |ms| format!("after {ms:.0} ms")),
        took_ms.is_some_and(|ms| ms <= FIRST_ANSWER_MS),
    ))
}

/// Two daemons that fight step to and fro.
fn stepped_once_each(name: &str, machine: &mut Machine) -> Result<Check, String> {
    let steps = entries(machine)?.iter().filter(|(what, _)| what == "corrected").count();
    Ok(Check::new(
        format!("service: one step a pause, and none at the start, beside {name}"),
        format!("{steps} steps, {} pauses", PAUSES.len()),
        steps == PAUSES.len(),
    ))
}
