//! With a source of the host: how soon the clock is right, tick by tick.

use std::thread::sleep;
use std::time::Duration;

use crate::checks::{Check, Checks};
use crate::deeds::Place;
use crate::deeds::ticks::{self, Tick, Ticks, now_ns, seconds};
use crate::machine::Machine;
use crate::outcome::Result;
use crate::shell::Shell;
use crate::table::Base;

use super::RIGHT_S;

/// How often it is stopped.
const RUNS: usize = 20;

/// For how long it is stopped, and how long it is looked at then.
const STOP: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_secs(3);

/// Right within this, s: alone, and beside another daemon.
pub(super) const ALONE_S: f64 = 0.3;
pub(super) const BESIDE_S: f64 = 1.0;

/// What the host says, in its shell. Nobody synchronises its clock.
const TELL: &str = "parachron tell --error 1ms --reason resumed vsock:3";

/// The host's answer.
const REPLY: Duration = Duration::from_secs(30);

/// So far off that it is stepped at the start: where the clock is then shows where its host's
/// is. A slew would take minutes to get there.
const OFF: &str = "date -s @$(($(date +%s) - 2))";
const STEPPED: &str = "\"how\":\"step\"";

/// `parachron keep` with the clock that KVM pairs with its own, in a machine of KVM. Right is what
/// its host's clock shows.
pub(crate) fn by_ptp(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let mut output = printed(place, machine, "/dev/vport0p2")?;
    let keep = "parachron keep --format json --min-interval 1s --burst 100 >/tmp/keep 2>&1 & sleep 5; \
        cat /tmp/keep";
    machine.execute(OFF)?;
    checks.push(machine.says("service: it is right by ptp_kvm", keep, |said| {
        [STEPPED, "synchronised", "phc"].iter().all(|word| said.contains(word))
    })?);
    let took = stops(machine, &mut output, true, || Ok(()))?;
    checks.push(each("ptp_kvm, alone", &took, ALONE_S));
    Ok(())
}

/// `parachron keep` in a machine of KVM, which its host's `parachron tell` reaches
/// over AF_VSOCK as soon as it goes on. Right is what that host's clock shows.
pub(crate) fn by_vsock(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let mut shell = Shell::connect(place.folder)?;
    let mut tell = || shell.execute(TELL, REPLY).map(drop);
    let mut output = printed(place, machine, "/dev/vport0p2")?;
    machine.execute(OFF)?;
    machine.execute(
        "parachron keep --format json --min-interval 1s --burst 100 --host-vsock \
         >/tmp/keep 2>&1 & sleep 3",
    )?;
    tell()?;
    let what = "service: it is right by the host's word over AF_VSOCK";
    checks.push(machine.says(what, "sleep 3; cat /tmp/keep", |said| {
        said.contains(STEPPED) && said.contains("host vsock:")
    })?);
    let took = stops(machine, &mut output, true, tell)?;
    checks.push(each("the host's word over AF_VSOCK", &took, ALONE_S));
    Ok(())
}

/// The clock that the machine prints to a port, each 20 ms.
pub(super) fn printed(
    place: &Place<'_>,
    machine: &mut Machine,
    port: &str,
) -> Result<Ticks, String> {
    let folder = if place.row.base == Base::Kvm { "output-inside" } else { "output" };
    let output = Ticks::connect(&place.folder.join(folder))?;
    machine.execute(&format!("(guest-clock print 20 >{port}) 2>/tmp/ticks.err & sleep 1"))?;
    Ok(output)
}

/// Stops it again and again: how long it took each time until the clock was right, s. Right is this system's time, or where the clock is at first.
pub(super) fn stops(
    machine: &mut Machine,
    output: &mut Ticks,
    by_its_own: bool,
    mut resumed: impl FnMut() -> Result,
) -> Result<Vec<f64>> {
    let ahead_s = ticks::ahead_s(&output.since(now_ns() - 1_000_000_000)?).unwrap_or_default();
    let ahead_s = if by_its_own { ahead_s } else { 0.0 };
    let mut took_s = Vec::new();
    for _ in 0..RUNS {
        let stopped = stopped(machine, output, STOP, LOOK, &mut resumed)?;
        took_s.push(stopped.seen(ahead_s, RIGHT_S)?.took_s);
    }
    Ok(took_s)
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
    output: &mut Ticks,
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
    Ok(Stopped { ticks: output.since(from_ns)?, stopped_ns, resumed_ns })
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
        let set_ns = |tick: &Tick| tick.clocks_ns[0] - monotonic_ns(tick);
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

pub(super) fn each(by: &str, took_s: &[f64], within_s: f64) -> Check {
    let mut sorted = took_s.to_vec();
    sorted.sort_by(f64::total_cmp);
    let listed = sorted.iter().map(|s| format!("{s:.2}")).collect::<Vec<_>>().join(", ");
    Check::new(
        format!("service: by {by}: stop, cont, {RUNS} times: each right within {within_s} s"),
        format!("{} runs: {listed}", sorted.len()),
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
            each("x", &took_s, 0.3).passed
        };
        assert!(passed(0.2, RUNS));
        assert!(!passed(0.4, RUNS) && !passed(f64::INFINITY, RUNS));
        assert!(!passed(0.2, RUNS - 1), "one was not made");
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
