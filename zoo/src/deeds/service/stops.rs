//! With a source of the host: how soon the clock is right, tick by tick.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::checks::Check;
use crate::deeds::disruptions::channel::{Output, now_ns};
use crate::deeds::disruptions::ticks::{self, Tick, seconds};
use crate::deeds::{Done, Place};
use crate::machine::Machine;
use crate::outcome::Unavailable;
use crate::{table::Base, tools};

use super::beside::{self, CHRONYD};
use super::host::{Host, Reason};
use super::setup::{INSTALL, RIGHT_S, configure};
use super::world::soon_right;
use crate::deeds::server::Server;

/// How often and for how long it is stopped, and how long it is looked at then.
const RUNS: u32 = 20;
const STOP: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_secs(3);

/// Right within this, s: alone, and beside another daemon.
const ALONE_S: f64 = 0.3;
const BESIDE_S: f64 = 1.0;

/// The long one.
const LONG: Duration = Duration::from_secs(600);

/// What the service is told: the port, and steps at any time.
const BY_THE_PORT: &str = "host-port = \"/dev/virtio-ports/org.parachron.time\"\n\
    min-interval = \"1s\"\nburst = 100\n";

/// The service in a machine whose host answers on a port: alone, and beside
/// chronyd, which follows a server.
pub(crate) fn by_the_port(
    place: &Place<'_>,
    machine: &mut Machine,
    done: &mut Done,
) -> Result<(), String> {
    let checks = &mut done.checks;
    let mut host = start(place, machine)?;
    host.notice(Reason::Periodic)?;
    checks.push(soon_right("by the host's word, at the start", machine)?);
    let mut output = printed(place, machine, "/dev/virtio-ports/output")?;
    let took = stops(machine, &mut output, 0.0, || host.notice(Reason::Resumed))?;
    checks.push(each("the host's word, alone", &took, ALONE_S));
    checks.push(super::found_by_the_doctor(place, machine)?);
    super::leap::run(machine, &mut host, checks)?;
    let server = Server::start(&place.workshop.programs.join("ntp-server"))?;
    machine.execute("systemctl stop parachrond && systemctl enable chrony 2>&1")?;
    checks.push(beside::follows(machine, &CHRONYD, &server)?);
    machine.execute("systemctl start parachrond; sleep 2")?;
    let before_ppm = beside::frequency_ppm(machine)?;
    let took = stops(machine, &mut output, 0.0, || host.notice(Reason::Resumed))?;
    checks.push(each("the host's word, beside chronyd", &took, BESIDE_S));
    checks.push(beside::kept(&CHRONYD, machine, before_ppm)?);
    Ok(())
}

/// Ten minutes, at the end of which the host says so.
pub(crate) fn for_long(
    place: &Place<'_>,
    machine: &mut Machine,
    checks: &mut Vec<Check>,
) -> Result<(), String> {
    let mut host = start(place, machine)?;
    host.notice(Reason::Periodic)?;
    checks.push(soon_right("by the host's word, at the start", machine)?);
    let mut output = printed(place, machine, "/dev/virtio-ports/output")?;
    let took = stop(machine, &mut output, 0.0, LONG, || host.notice(Reason::Resumed))?;
    checks.push(each("the host's word, after 10 minutes", &[took], ALONE_S));
    Ok(())
}

/// `parachron keep` with the clock that KVM pairs with its own, in a machine of
/// KVM: alone, and beside a chronyd that follows the same clock. Right is what
/// its host's clock shows.
pub(crate) fn by_ptp(
    place: &Place<'_>,
    machine: &mut Machine,
    done: &mut Done,
) -> Result<(), String> {
    let mut output = printed(place, machine, "/dev/vport0p2")?;
    let keep = "parachron keep --format json --min-interval 1s --burst 100 >/tmp/keep 2>&1 & sleep 5; \
        cat /tmp/keep";
    let said = machine.execute(keep)?;
    let is_right = said.contains("synchronised") && said.contains("phc");
    done.checks.push(Check::new("service: it is right by ptp_kvm", said, is_right));
    let ahead_s = ticks::ahead_s(&looked(&mut output, now_ns() - 1_000_000_000)?, 0);
    let ahead_s = ahead_s.ok_or("no ticks")?;
    let took = stops(machine, &mut output, ahead_s, || Ok(()))?;
    done.checks.push(each("ptp_kvm, alone", &took, ALONE_S));
    if place.row.programs.iter().any(|name| tools::find_program(name).is_none()) {
        let why = "ptp_kvm beside chronyd: chronyd is not installed here";
        done.skipped.push(Unavailable::new(why, "apt-get install chrony"));
        return Ok(());
    }
    let chronyd = "echo 'refclock PHC /dev/ptp0 poll 2 dpoll -2\nmakestep 1 -1\nuser root\n\
        cmdport 0\nbindcmdaddress /tmp/chronyd.sock\npidfile /tmp/chronyd.pid' \
        >/tmp/chrony.conf && chronyd -f /tmp/chrony.conf && sleep 20; \
        chronyc -h /tmp/chronyd.sock -c tracking";
    let follows = machine.line.run("chronyd", 60, &chronyd.replace("\n", "\\n"))?;
    let is_there = follows.stdout.contains("PHC");
    done.checks.push(Check::new("service: chronyd follows ptp_kvm", follows.stdout, is_there));
    machine.execute("killall -TERM parachron; sleep 0.5; true")?;
    let said = machine.execute(keep)?;
    let steps = said.contains("chrony");
    done.checks.push(Check::new("service: keep steps beside chronyd", said, steps));
    let took = stops(machine, &mut output, ahead_s, || Ok(()))?;
    done.checks.push(each("ptp_kvm, beside chronyd", &took, BESIDE_S));
    let thinks =
        machine.execute("chronyc -h /tmp/chronyd.sock -c tracking; tail -n 3 /tmp/keep")?;
    done.checks.push(Check::new("service: chronyd thinks", thinks, true));
    Ok(())
}

/// The service, alone, with the host's port.
fn start(place: &Place<'_>, machine: &mut Machine) -> Result<Host, String> {
    machine.execute("systemctl disable --now chrony 2>&1")?;
    machine.execute(INSTALL)?;
    machine.execute("udevadm trigger --settle -s virtio-ports")?;
    configure(machine, BY_THE_PORT)?;
    machine.execute("systemctl enable --now parachrond; sleep 1")?;
    Host::connect(&place.folder.join("host"))
}

/// The clock that the machine prints to a port, each 20 ms.
fn printed(place: &Place<'_>, machine: &mut Machine, port: &str) -> Result<Output, String> {
    let folder = if place.row.base == Base::Kvm { "output-inside" } else { "output" };
    let output = Output::connect(Path::new(&place.folder.join(folder)))?;
    machine.execute(&format!("(guest-clock print 20 >{port}) 2>/tmp/ticks.err & sleep 1"))?;
    Ok(output)
}

/// All ticks from a moment on.
fn looked(output: &mut Output, from_ns: i64) -> Result<Vec<Tick>, String> {
    let lines = output.lines().iter().filter(|line| line.at_ns >= from_ns);
    let ticks: Vec<Tick> = lines.filter_map(Tick::parse).collect();
    if ticks.is_empty() { Err("the machine printed no time".to_owned()) } else { Ok(ticks) }
}

/// Stopped again and again: how long it took each time until the clock was right, s.
fn stops(
    machine: &mut Machine,
    output: &mut Output,
    ahead_s: f64,
    mut resumed: impl FnMut() -> Result<(), String>,
) -> Result<Vec<f64>, String> {
    (0..RUNS).map(|_| stop(machine, output, ahead_s, STOP, &mut resumed)).collect()
}

fn stop(
    machine: &mut Machine,
    output: &mut Output,
    ahead_s: f64,
    pause: Duration,
    resumed: impl FnOnce() -> Result<(), String>,
) -> Result<f64, String> {
    let qmp = machine.qmp.as_mut().ok_or("a pause needs QMP")?;
    qmp.stop()?;
    let stopped = Instant::now();
    sleep(pause);
    let from_ns = now_ns();
    qmp.cont()?;
    resumed()?;
    sleep(LOOK);
    let mut ticks = looked(output, from_ns)?;
    // By its host's clock.
    ticks.iter_mut().for_each(|tick| tick.at_ns += (ahead_s * 1e9) as i64);
    let right = ticks::correct_from(&ticks, RIGHT_S);
    let found = right.map(|tick| seconds(tick.at_ns - from_ns) - ahead_s);
    Ok(found.unwrap_or(f64::INFINITY).min(stopped.elapsed().as_secs_f64()))
}

fn each(by: &str, took: &[f64], within_s: f64) -> Check {
    let mut sorted = took.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (median, most) = (sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
    let all: Vec<String> = sorted.iter().map(|s| format!("{s:.2}")).collect();
    Check::new(
        format!(
            "service: by {by}: stop, cont, {} times: each right within {within_s} s",
            took.len()
        ),
        format!("{median:.2} s in the median, {most:.2} s at most: {}", all.join(", ")),
        most <= within_s,
    )
}
