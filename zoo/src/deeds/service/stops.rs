//! With a source of the host: how soon the clock is right, tick by tick.

use std::io::Write as _;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use crate::checks::{Check, Checks};
use crate::deeds::disruptions::channel::{Output, now_ns};
use crate::deeds::disruptions::chrony;
use crate::deeds::disruptions::ticks::{self, Tick, seconds};
use crate::deeds::{Done, Place};
use crate::machine::Machine;
use crate::outcome::{Result, Unavailable};
use crate::{table::Base, tools, wire};

use super::beside::{self, CHRONYD};
use super::host::{Host, Reason};
use super::setup::{INSTALL, RIGHT_S, configure};
use super::world::soon_right;
use crate::deeds::server::Server;

/// How often and for how long it is stopped, and how long it is looked at then.
const RUNS: usize = 20;
const STOP: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_secs(3);

/// Right within this, s: alone, and beside another daemon.
const ALONE_S: f64 = 0.3;
const BESIDE_S: f64 = 1.0;

/// Two ticks this far apart show that this system is busy, s.
const GAP_S: f64 = 0.1;

/// The long one.
const LONG: Duration = Duration::from_secs(600);
const LONG_S: f64 = 3.0;

/// What the service is told: the port, and steps at any time.
const BY_THE_PORT: &str = "host-port = \"/dev/virtio-ports/org.parachron.time\"\n\
    min-interval = \"1s\"\nburst = 100\n";

/// The service in a machine whose host answers on a port: alone, and beside
/// chronyd, which follows a server.
pub(crate) fn by_the_port(place: &Place<'_>, machine: &mut Machine, done: &mut Done) -> Result {
    let checks = &mut done.checks;
    let mut host = start(place, machine)?;
    host.notice(Reason::Periodic)?;
    checks.push(soon_right("by the host's word, at the start", machine)?);
    let mut output = printed(place, machine, "/dev/virtio-ports/output")?;
    let took = stops(machine, &mut output, 0.0, || host.notice(Reason::Resumed))?;
    checks.push(each("the host's word, alone", &took, RUNS, ALONE_S));
    checks.push(super::found_by_the_doctor(place, machine)?);
    super::leap::run(machine, &mut host, checks)?;
    let server = Server::start(&place.workshop.programs.join("ntp-server"))?;
    machine.execute("systemctl stop parachrond")?;
    checks.push(beside::follows(machine, &CHRONYD, &server)?);
    machine.execute("systemctl start parachrond; sleep 2")?;
    let before_ppm = beside::frequency_ppm(machine, &CHRONYD)?;
    let took = stops(machine, &mut output, 0.0, || host.notice(Reason::Resumed))?;
    checks.push(each("the host's word, beside chronyd", &took, RUNS, BESIDE_S));
    checks.push(beside::kept(&CHRONYD, machine, before_ppm)?);
    Ok(())
}

/// Ten minutes, at the end of which the host says so; and eleven, in which the kernel
/// sets the RTC.
pub(crate) fn for_long(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let mut host = start(place, machine)?;
    host.notice(Reason::Periodic)?;
    checks.push(soon_right("by the host's word, at the start", machine)?);
    let mut output = printed(place, machine, "/dev/virtio-ports/output")?;
    let mut took = Took::default();
    stop(machine, &mut output, 0.0, LONG, || host.notice(Reason::Resumed), &mut took)?;
    // By one that may be disturbed: its memory has been cold for ten minutes.
    took.calm_s.append(&mut took.disturbed_s);
    checks.push(each("the host's word, after 10 minutes", &took, 1, LONG_S));
    checks.push(super::rtc::in_eleven_minutes(machine)?);
    Ok(())
}

/// What the host says, in its shell. Nobody synchronises its clock.
const TELL: &str = "parachron tell --error 1ms --reason resumed vsock:3\n";

/// chronyd follows a clock that it asks each four seconds.
const CHRONYD_S: f64 = 0.05;

/// `parachron keep` with the clock that KVM pairs with its own, in a machine of
/// KVM: alone, and beside a chronyd that follows the same clock. Right is what
/// its host's clock shows.
pub(crate) fn by_ptp(place: &Place<'_>, machine: &mut Machine, done: &mut Done) -> Result {
    let mut output = printed(place, machine, "/dev/vport0p2")?;
    let keep = "parachron keep --format json --min-interval 1s --burst 100 >/tmp/keep 2>&1 & sleep 5; \
        cat /tmp/keep";
    let said = machine.execute(keep)?;
    let is_right = said.contains("synchronised") && said.contains("phc");
    done.checks.push(Check::new("service: it is right by ptp_kvm", said, is_right));
    let ahead_s = ticks::ahead_s(&looked(&mut output, now_ns() - 1_000_000_000)?, 0);
    let ahead_s = ahead_s.ok_or("no ticks")?;
    let took = stops(machine, &mut output, ahead_s, || Ok(()))?;
    done.checks.push(each("ptp_kvm, alone", &took, RUNS, ALONE_S));
    if place.row.programs.iter().any(|name| tools::find_program(name).is_none()) {
        let why = "ptp_kvm beside chronyd: chronyd is not installed here";
        done.skipped.push(Unavailable::new(why, "apt-get install chrony"));
        return Ok(());
    }
    let sources = "refclock PHC /dev/ptp0 poll 2 dpoll -2";
    let chronyd = format!("{}; sleep 17; chronyc -c tracking", chrony::line(sources));
    let follows = machine.line.run("chronyd", 60, &chronyd)?;
    let is_there = follows.stdout.contains("PHC");
    let said = format!("{} {}", follows.stdout.trim(), follows.stderr.trim());
    done.checks.push(Check::new("service: chronyd follows ptp_kvm", said, is_there));
    machine.execute("killall -TERM parachron; sleep 0.5; true")?;
    let said = machine.execute(keep)?;
    let steps = said.contains("\"other_daemons\":[\"chrony\"]");
    done.checks.push(Check::new("service: keep steps beside chronyd", said, steps));
    let took = stops(machine, &mut output, ahead_s, || Ok(()))?;
    done.checks.push(each("ptp_kvm, beside chronyd", &took, RUNS, BESIDE_S));
    let thinks = machine.execute("chronyc -c tracking")?;
    // The fifth: what it still has to slew, s.
    let left_s = thinks.split(',').nth(4).and_then(|left| left.parse::<f64>().ok());
    let is_right = left_s.is_some_and(|left_s| left_s.abs() < CHRONYD_S);
    done.checks.push(Check::new("service: chronyd thinks that it is right", thinks, is_right));
    Ok(())
}

/// `parachron keep` in a machine of KVM, which its host's `parachron tell` reaches
/// over AF_VSOCK as soon as it goes on. Right is what that host's clock shows.
pub(crate) fn by_vsock(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let mut shell = wire::connect(&place.folder.join("shell"))?;
    let mut tell = || shell.write_all(TELL.as_bytes()).map_err(|why| format!("a shell: {why}"));
    let mut output = printed(place, machine, "/dev/vport0p2")?;
    machine.execute(
        "parachron keep --format json --min-interval 1s --burst 100 --host-vsock \
         >/tmp/keep 2>&1 & sleep 3",
    )?;
    tell()?;
    let said = machine.execute("sleep 3; cat /tmp/keep")?;
    let is_right = said.contains("\"corrected\"") && said.contains("host vsock:");
    checks.push(Check::new(
        "service: it is right by the host's word over AF_VSOCK",
        said,
        is_right,
    ));
    let ahead_s = ticks::ahead_s(&looked(&mut output, now_ns() - 1_000_000_000)?, 0);
    let took = stops(machine, &mut output, ahead_s.ok_or("no ticks")?, tell)?;
    checks.push(each("the host's word over AF_VSOCK", &took, RUNS, ALONE_S));
    Ok(())
}

/// The service, alone, with the host's port.
fn start(place: &Place<'_>, machine: &mut Machine) -> Result<Host, String> {
    machine.execute("systemctl stop chrony")?;
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

/// What stops came to: how long it took each time until the clock was right, s; and
/// apart from them those while which this system did not run the machine.
#[derive(Debug, Default)]
struct Took {
    calm_s: Vec<f64>,
    disturbed_s: Vec<f64>,
    /// What was told where it was not right in the end.
    wrong: String,
}

/// Stopped until so many were calm, but twice as often at most.
fn stops(
    machine: &mut Machine,
    output: &mut Output,
    ahead_s: f64,
    mut resumed: impl FnMut() -> Result,
) -> Result<Took, String> {
    let mut took = Took::default();
    while took.calm_s.len() < RUNS && took.calm_s.len() + took.disturbed_s.len() < 2 * RUNS {
        stop(machine, output, ahead_s, STOP, &mut resumed, &mut took)?;
    }
    Ok(took)
}

/// By the machine's own clock, which stands with it: from the last tick before to
/// the first of those that are all right. What this system did not run it for shows
/// as a gap between two ticks.
fn stop(
    machine: &mut Machine,
    output: &mut Output,
    ahead_s: f64,
    pause: Duration,
    resumed: impl FnOnce() -> Result,
    took: &mut Took,
) -> Result {
    let from_ns = now_ns() - 1_000_000_000;
    let qmp = machine.qmp.as_mut().ok_or("a pause needs QMP")?;
    qmp.stop()?;
    let stopped_ns = now_ns();
    sleep(pause);
    let resumed_ns = now_ns();
    qmp.cont()?;
    resumed()?;
    sleep(LOOK);
    let ticks = looked(output, from_ns)?;
    let monotonic_ns = |tick: &Tick| tick.clocks_ns[1];
    let begins = ticks.iter().rfind(|tick| tick.at_ns <= stopped_ns);
    let begins = *begins.ok_or("no tick before the stop")?;
    let after: Vec<Tick> = ticks.into_iter().filter(|tick| tick.at_ns > resumed_ns).collect();
    // By its host's clock, and what it shows at the end by the tick with the least
    // delay.
    let left_s = ticks::left_s(&after) - ahead_s;
    let set_ns = |tick: &Tick| tick.realtime_ns() - monotonic_ns(tick);
    let last_ns = after.last().map_or(0, set_ns);
    let is_right = |tick: &&Tick| seconds(set_ns(tick) - last_ns).abs() < RIGHT_S;
    let right = after.iter().rev().take_while(is_right).last();
    let right = right.filter(|_| left_s.abs() <= RIGHT_S);
    let took_s =
        right.map_or(f64::INFINITY, |tick| seconds(monotonic_ns(tick) - monotonic_ns(&begins)));
    let until = right.map_or(i64::MAX, monotonic_ns);
    let is_gap = |pair: &[Tick]| {
        let (from, to) = (monotonic_ns(&pair[0]), monotonic_ns(&pair[1]));
        to <= until && seconds(to - from) > GAP_S
    };
    let of = if after.windows(2).any(is_gap) { &mut took.disturbed_s } else { &mut took.calm_s };
    of.push(took_s);
    if took_s.is_infinite() && took.wrong.is_empty() {
        let told = "journalctl -u parachrond -n 8 -o cat 2>/dev/null || tail -n 5 /tmp/keep; \
            chronyc -c tracking; journalctl -u chrony -n 5 -o cat 2>/dev/null";
        let told = machine.line.run("told", 30, told)?.stdout;
        took.wrong = format!("; {left_s:.3} s ahead in the end: {told}");
    }
    Ok(())
}

fn each(by: &str, took: &Took, runs: usize, within_s: f64) -> Check {
    let listed = |all: &[f64]| {
        let mut sorted = all.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.iter().map(|s| format!("{s:.2}")).collect::<Vec<_>>().join(", ")
    };
    let (calm_s, disturbed_s) = (&took.calm_s, &took.disturbed_s);
    Check::new(
        format!("service: by {by}: stop, cont, {runs} times: each right within {within_s} s"),
        format!(
            "{} runs: {}; while this system was busy {} more: {}{}",
            calm_s.len(),
            listed(calm_s),
            disturbed_s.len(),
            listed(disturbed_s),
            took.wrong
        ),
        calm_s.len() >= runs && calm_s.iter().all(|took_s| *took_s <= within_s),
    )
}
