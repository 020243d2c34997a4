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

use super::chronyd::follows;
use super::host::{Host, Reason};
use super::right::{from_now, soon_right};
use super::setup::{BY_THE_PORT, INSTALL, RIGHT_S, configure};
use super::{cold_boot, frequency};
use crate::deeds::server::Server;

/// How often it is stopped.
const RUNS: usize = 20;

/// For how long it is stopped, and how long it is looked at then.
const STOP: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_secs(3);

/// Right within this, s: alone, and beside another daemon.
const ALONE_S: f64 = 0.3;
const BESIDE_S: f64 = 1.0;

/// The service in a machine whose host answers on a port: alone, and beside
/// chronyd, which follows a server.
pub(crate) fn by_the_port(place: &Place<'_>, machine: &mut Machine, done: &mut Done) -> Result {
    let checks = &mut done.checks;
    let since = from_now(machine)?;
    let mut host = start(place, machine)?;
    host.notice(Reason::Periodic)?;
    checks.push(soon_right("by the host's word, at the start", machine, since)?);
    cold_boot::run(machine, &mut host, checks)?;
    let mut output = printed(place, machine, "/dev/virtio-ports/output")?;
    let took = stops(machine, &mut output, 0.0, || host.notice(Reason::Resumed))?;
    checks.push(each("the host's word, alone", &took, ALONE_S));
    checks.push(super::found_by_the_doctor(place, machine)?);
    super::leap::run(machine, &mut host, checks)?;
    let server = Server::start(&place.workshop.programs.join("ntp-server"))?;
    machine.execute("systemctl stop parachrond")?;
    checks.push(follows(machine, &server)?);
    machine.execute("systemctl start parachrond; sleep 2")?;
    let learnt = frequency::learnt(machine)?;
    let took = stops(machine, &mut output, 0.0, || host.notice(Reason::Resumed))?;
    checks.push(each("the host's word, beside chronyd", &took, BESIDE_S));
    frequency::kept(machine, &learnt, done)
}

/// What the host says, in its shell. Nobody synchronises its clock.
const TELL: &str = "parachron tell --error 1ms --reason resumed vsock:3\n";

/// So far off that it is stepped at the start: where the clock is then shows where its host's
/// is. A slew would take minutes to get there.
const OFF: &str = "date -s @$(($(date +%s) - 2))";
const STEPPED: &str = "\"how\":\"step\"";

/// chronyd follows a clock that it asks each four seconds.
const CHRONYD_S: f64 = 0.05;

/// `parachron keep` with the clock that KVM pairs with its own, in a machine of
/// KVM: alone, and beside a chronyd that follows the same clock. Right is what
/// its host's clock shows.
pub(crate) fn by_ptp(place: &Place<'_>, machine: &mut Machine, done: &mut Done) -> Result {
    let mut output = printed(place, machine, "/dev/vport0p2")?;
    let keep = "parachron keep --format json --min-interval 1s --burst 100 >/tmp/keep 2>&1 & sleep 5; \
        cat /tmp/keep";
    machine.execute(OFF)?;
    let said = machine.execute(keep)?;
    let is_right = said.contains(STEPPED) && said.contains("synchronised") && said.contains("phc");
    done.checks.push(Check::new("service: it is right by ptp_kvm", said, is_right));
    let ahead_s = ticks::ahead_s(&looked(&mut output, now_ns() - 1_000_000_000)?, 0);
    let ahead_s = ahead_s.ok_or("no ticks")?;
    let took = stops(machine, &mut output, ahead_s, || Ok(()))?;
    done.checks.push(each("ptp_kvm, alone", &took, ALONE_S));
    if place.row.programs.iter().any(|name| tools::find_program(name).is_none()) {
        let why = "ptp_kvm beside chronyd: chronyd is not installed here";
        done.skipped.push(Unavailable::new(why, "install it: apt-get install chrony"));
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
    done.checks.push(each("ptp_kvm, beside chronyd", &took, BESIDE_S));
    let thinks = machine.execute("chronyc -c tracking")?;
    let is_right = is_right_by_chronyd(&thinks);
    done.checks.push(Check::new("service: chronyd reports that it is right", thinks, is_right));
    Ok(())
}

/// By a line of `chronyc -c tracking`: the fifth figure is what it still has to slew, s, and the last
/// is the leap status, which of a chronyd without a source is "Not synchronised".
fn is_right_by_chronyd(tracking: &str) -> bool {
    let left_s = tracking.split(',').nth(4).and_then(|left| left.parse::<f64>().ok());
    left_s.is_some_and(|left_s| left_s.abs() < CHRONYD_S) && tracking.trim().ends_with(",Normal")
}

/// `parachron keep` in a machine of KVM, which its host's `parachron tell` reaches
/// over AF_VSOCK as soon as it goes on. Right is what that host's clock shows.
pub(crate) fn by_vsock(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let mut shell = wire::connect(&place.folder.join("shell"))?;
    let mut tell = || shell.write_all(TELL.as_bytes()).map_err(|why| format!("a shell: {why}"));
    let mut output = printed(place, machine, "/dev/vport0p2")?;
    machine.execute(OFF)?;
    machine.execute(
        "parachron keep --format json --min-interval 1s --burst 100 --host-vsock \
         >/tmp/keep 2>&1 & sleep 3",
    )?;
    tell()?;
    let said = machine.execute("sleep 3; cat /tmp/keep")?;
    let is_right = said.contains(STEPPED) && said.contains("host vsock:");
    checks.push(Check::new(
        "service: it is right by the host's word over AF_VSOCK",
        said,
        is_right,
    ));
    let ahead_s = ticks::ahead_s(&looked(&mut output, now_ns() - 1_000_000_000)?, 0);
    let took = stops(machine, &mut output, ahead_s.ok_or("no ticks")?, tell)?;
    checks.push(each("the host's word over AF_VSOCK", &took, ALONE_S));
    Ok(())
}

/// The service, alone, with the host's port, and its host at the other end of that.
fn start(place: &Place<'_>, machine: &mut Machine) -> Result<Host, String> {
    machine.execute("systemctl stop chrony")?;
    machine.execute(INSTALL)?;
    machine.execute("udevadm trigger --settle -s virtio-ports")?;
    configure(machine, BY_THE_PORT)?;
    machine.execute("systemctl enable parachrond; systemctl restart parachrond; sleep 1")?;
    Host::connect(&place.folder.join("host"))
}

/// The clock that the machine prints to a port, each 20 ms.
pub(super) fn printed(
    place: &Place<'_>,
    machine: &mut Machine,
    port: &str,
) -> Result<Output, String> {
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

/// What stops came to.
#[derive(Debug, Default)]
struct Took {
    /// How long it took each time until the clock was right, s.
    took_s: Vec<f64>,
    /// What was told where it was not right in the end.
    wrong: String,
}

/// Stops it again and again.
fn stops(
    machine: &mut Machine,
    output: &mut Output,
    ahead_s: f64,
    mut resumed: impl FnMut() -> Result,
) -> Result<Took, String> {
    let mut took = Took::default();
    for _ in 0..RUNS {
        let one = stopped(machine, output, STOP, LOOK, &mut resumed)?.seen(ahead_s, RIGHT_S)?;
        took.took_s.push(one.took_s);
        if one.took_s.is_infinite() && took.wrong.is_empty() {
            let told = "journalctl -u parachrond -n 8 -o cat 2>/dev/null || tail -n 5 /tmp/keep; \
                chronyc -c tracking; journalctl -u chrony -n 5 -o cat 2>/dev/null";
            let told = machine.line.run("told", 30, told)?.stdout;
            took.wrong = format!("; {:.3} s ahead in the end: {told}", one.left_s);
        }
    }
    Ok(took)
}

/// The ticks before and after a stop.
#[derive(Debug)]
pub(super) struct Stopped {
    ticks: Vec<Tick>,
    stopped_ns: i64,
    resumed_ns: i64,
}

/// What they show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    /// From the last tick before to the first of those that are all right, by the
    /// machine's own clock, which stands with it, s.
    pub(super) took_s: f64,
    /// How far it is ahead in the end, s, by the tick with the least delay.
    pub(super) left_s: f64,
    /// What was added to its time of day meanwhile, s.
    pub(super) stepped_s: f64,
}

/// Stops a machine that prints its clock, and looks at it for a while.
pub(super) fn stopped(
    machine: &mut Machine,
    output: &mut Output,
    pause: Duration,
    look: Duration,
    resumed: impl FnOnce() -> Result,
) -> Result<Stopped, String> {
    // In a busy machine the last tick before may be seconds old.
    let from_ns = now_ns() - 5_000_000_000;
    let qmp = machine.qmp.as_mut().ok_or("a pause needs QMP")?;
    qmp.stop()?;
    let stopped_ns = now_ns();
    sleep(pause);
    let resumed_ns = now_ns();
    qmp.cont()?;
    resumed()?;
    sleep(look);
    Ok(Stopped { ticks: looked(output, from_ns)?, stopped_ns, resumed_ns })
}

impl Stopped {
    /// Right is a clock as far ahead as its host's, to so much.
    pub(super) fn seen(self, ahead_s: f64, within_s: f64) -> Result<Seen, String> {
        let Self { ticks, stopped_ns, resumed_ns } = self;
        let monotonic_ns = |tick: &Tick| tick.clocks_ns[1];
        let begins = ticks.iter().rfind(|tick| tick.at_ns <= stopped_ns);
        let begins = *begins.ok_or("no tick before the stop")?;
        let after: Vec<Tick> = ticks.into_iter().filter(|tick| tick.at_ns > resumed_ns).collect();
        let left_s = ticks::left_s(&after) - ahead_s;
        let set_ns = |tick: &Tick| tick.realtime_ns() - monotonic_ns(tick);
        let last_ns = after.last().map_or(0, set_ns);
        let is_right = |tick: &&Tick| seconds(set_ns(tick) - last_ns).abs() < within_s;
        let right = after.iter().rev().take_while(is_right).last();
        let right = right.filter(|_| left_s.abs() <= within_s);
        let took_s =
            right.map_or(f64::INFINITY, |tick| seconds(monotonic_ns(tick) - monotonic_ns(&begins)));
        let stepped_s = after.last().map_or(0.0, |_| seconds(last_ns - set_ns(&begins)));
        Ok(Seen { took_s, left_s, stepped_s })
    }
}

fn each(by: &str, took: &Took, within_s: f64) -> Check {
    let mut sorted = took.took_s.clone();
    sorted.sort_by(f64::total_cmp);
    let listed = sorted.iter().map(|s| format!("{s:.2}")).collect::<Vec<_>>().join(", ");
    Check::new(
        format!("service: by {by}: stop, cont, {RUNS} times: each right within {within_s} s"),
        format!("{} runs: {listed}{}", sorted.len(), took.wrong),
        sorted.len() == RUNS && sorted.iter().all(|took_s| *took_s <= within_s),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that stood for two seconds, and is stepped then, or not.
    fn of_two_seconds(stepped_ms: Option<i64>) -> Stopped {
        let tick = |at_ms: i64, monotonic_ms: i64, set_ms: i64| {
            let ns = |ms: i64| ms * 1_000_000;
            let clocks_ns = [ns(monotonic_ms + set_ms), ns(monotonic_ms), 0, 0];
            Tick { at_ns: ns(at_ms + 1), clocks_ns }
        };
        let before = (0..50).map(|i| tick(20 * i, 20 * i, 0));
        let after = (50..150).map(|i| {
            let is_stepped = stepped_ms.is_some_and(|ms| 20 * i - 980 >= ms);
            tick(20 * i + 2000, 20 * i, if is_stepped { 2000 } else { 0 })
        });
        let (stopped_ns, resumed_ns) = (990_000_000, 2_990_000_000);
        Stopped { ticks: before.chain(after).collect(), stopped_ns, resumed_ns }
    }

    #[test]
    fn one_stop_that_is_late_or_never_right_is_wrong() {
        let passed = |last_s: f64, runs: usize| {
            let mut took_s = vec![0.1; runs - 1];
            took_s.push(last_s);
            each("x", &Took { took_s, wrong: String::new() }, 0.3).passed
        };
        assert!(passed(0.2, RUNS));
        assert!(!passed(0.4, RUNS) && !passed(f64::INFINITY, RUNS));
        assert!(!passed(0.2, RUNS - 1), "one was not made");
    }

    #[test]
    fn a_chronyd_without_a_source_is_not_right() {
        let normal = "50484330,PHC0,1,1795000000.1,-0.000012,0.000001,0.000002,-9.8,0.0,0.1,0.0,\
            0.00001,4.0,Normal\n";
        assert!(is_right_by_chronyd(normal));
        assert!(!is_right_by_chronyd(&normal.replace("-0.000012", "-0.06")));
        let none = "00000000,,0,0.0,0.000000000,0.000000000,0.000000000,-9.8,0.0,0.0,1.0,1.0,0.0,\
            Not synchronised\n";
        assert!(!is_right_by_chronyd(none) && !is_right_by_chronyd(""));
    }

    #[test]
    fn ticks_show_the_step_and_when_it_was_made() {
        let seen = of_two_seconds(Some(200)).seen(0.0, RIGHT_S).unwrap();
        assert!((seen.took_s - 0.2).abs() < 1e-9 && (seen.stepped_s - 2.0).abs() < 1e-9);
        assert!((seen.left_s + 0.001).abs() < 1e-9, "{seen:?}");
        let never = of_two_seconds(None).seen(0.0, RIGHT_S).unwrap();
        assert!(never.took_s.is_infinite() && never.stepped_s.abs() < 1e-9, "{never:?}");
        assert!((never.left_s + 2.001).abs() < 1e-9, "{never:?}");
        let mut none = of_two_seconds(None);
        none.ticks.retain(|tick| tick.at_ns > none.resumed_ns);
        assert!(none.seen(0.0, RIGHT_S).is_err());
    }
}
