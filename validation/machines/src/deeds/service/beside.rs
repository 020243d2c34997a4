//! Beside chronyd, which disciplines the clock by the first server: after each
//! pause the time of day is right, and chronyd neither fights nor forgets.

use std::thread::sleep;
use std::time::Instant;

use serde_json::Value;

use crate::checks::{Check, is_within};
use crate::deeds::server::Server;
use crate::deeds::{Done, Place};
use crate::machine::Machine;
use crate::outcome::Result;

use super::chronyd::{POLLS, follows, thinks};
use super::frequency;
use super::right;
use super::setup::{INSTALL, PAUSES, RIGHT_S, configuration, configure};
use super::writes;

/// A step is due this soon after the first sample that shows a pause, ms.
const FIRST_ANSWER_MS: f64 = 1000.0;

pub(crate) fn run(place: &Place<'_>, machine: &mut Machine, done: &mut Done) -> Result {
    let servers = Server::two(place.workshop)?;
    let checks = &mut done.checks;
    checks.push(follows(machine, &servers[0])?);
    writes::watch(machine)?;
    machine.execute(INSTALL)?;
    configure(machine, &configuration(&servers))?;
    machine.execute("systemctl enable --now parachrond; sleep 3")?;
    let said = machine.execute("journalctl -u parachrond -o cat")?;
    let steps = said.contains("only steps");
    checks.push(Check::new(
        "service: its log states that it only steps beside chronyd",
        said,
        steps,
    ));
    writes::check_calm(machine, checks)?;
    let learnt = frequency::learnt(machine)?;
    for pause in PAUSES {
        let before = entries(machine)?.len();
        let when = format!("beside chronyd, stop for {} s, cont", pause.as_secs());
        right::steps_s(machine)?;
        let stopped_ms = monotonic_ms(machine)?;
        let begun = Instant::now();
        machine.pause(pause)?;
        let resumed = Instant::now();
        let away_s = right::between(pause, begun.elapsed());
        checks.push(right::corrected(&when, machine, away_s)?);
        let all = entries(machine)?;
        let since = all.get(before..).unwrap_or_default();
        checks.push(after_the_first_answer(&when, stopped_ms, since));
        sleep(POLLS);
        checks.push(was_told(&when, machine, resumed)?);
        // Until then the kernel's status and its bound are of the daemon before its poll.
        checks.push(super::views::agree(&when, machine, true)?);
        let (ahead_s, bound_s) = machine.ahead_s()?;
        let thinks = thinks(machine)?;
        checks.push(Check::new(
            format!("service: {when}: still right {} s later; chronyd thinks", POLLS.as_secs()),
            format!("{ahead_s:.3} ± {bound_s:.3} s ahead; {thinks}"),
            is_within(RIGHT_S, (ahead_s, bound_s)),
        ));
    }
    checks.push(writes::check_steps(machine)?);
    checks.push(stepped_once_each(machine)?);
    checks.push(super::found_by_the_doctor(place, machine)?);
    frequency::kept(machine, &learnt, done)
}

/// What chronyd is told by is its Unix socket, which its own user and root may open.
const TOLD: &str = "chronyc -c sources | grep '^^'; \
    stat -c %U /proc/$(systemctl show -p MainPID --value parachrond); \
    ls -ld /run/chrony /run/chrony/chronyd.sock; \
    journalctl -u parachrond -o cat | grep 'command socket'; true";

/// chronyd, which asks its server each 64 s by itself, dropped its measurements and took new
/// ones since the machine went on, as it was told.
fn was_told(when: &str, machine: &mut Machine, resumed: Instant) -> Result<Check, String> {
    let said = machine.execute(TOLD)?;
    let within_s = resumed.elapsed().as_secs_f64();
    Ok(Check::new(
        format!("service: {when}: chronyd obeyed: it was reset and measured again"),
        format!("{within_s:.0} s after it: {said}"),
        has_obeyed(&said, within_s),
    ))
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

/// The time of day was stepped: by ours; or by another, which is what two that fight do.
const SET: &str = "set";

/// chronyd's own that it finishes as it is told to is of what it was slewing, ns.
const SET_BY_OTHERS_NS: f64 = 1e8;

fn is_step((what, _): &&(String, f64)) -> bool {
    what == "corrected"
}

/// The entries of the daemon's log, oldest first: what happened, and when, ms.
fn entries(machine: &mut Machine) -> Result<Vec<(String, f64)>, String> {
    let said = machine.execute("journalctl -u parachrond -o json")?;
    let entries = said.lines().filter_map(|line| {
        let entry: Value = serde_json::from_str(line).ok()?;
        let word = |name: &str| entry[name].as_str();
        let size_ns = word("PARACHRON_SIZE_NS").and_then(|ns| ns.parse::<f64>().ok());
        let is_set = word("PARACHRON_KIND") == Some("clock-set")
            && size_ns.is_none_or(|ns| ns.abs() >= SET_BY_OTHERS_NS);
        let seen = if is_set { SET } else { "disruption" };
        let what = word("PARACHRON_EVENT").or(word("PARACHRON_EVIDENCE").map(|_| seen))?;
        let at_ns: f64 = word("PARACHRON_AT_MONOTONIC_NS")?.parse().ok()?;
        Some((what.to_owned(), at_ns / 1e6))
    });
    Ok(entries.collect())
}

/// The machine's CLOCK_MONOTONIC, which stands with it, ms.
fn monotonic_ms(machine: &mut Machine) -> Result<f64, String> {
    let tick = machine.execute("guest-clock print 10 | head -n 1")?;
    let ns = tick.split(' ').nth(2).and_then(|ns| ns.parse::<f64>().ok());
    ns.map(|ns| ns / 1e6).ok_or_else(|| format!("guest-clock printed {tick:?}"))
}

/// From the disruption that showed the pause, among the entries since then, to the step,
/// for which servers had to answer. No answer comes before the machine goes on: where no
/// disruption tells of the pause earlier than the step, it counts from the reading before
/// the stop.
fn after_the_first_answer(when: &str, stopped_ms: f64, since: &[(String, f64)]) -> Check {
    let since = || since.iter().filter(|(_, at_ms)| *at_ms >= stopped_ms);
    let stepped_ms = since().find(is_step).map(|(_, at_ms)| *at_ms);
    let shown = since().filter(|(what, _)| what == "disruption").map(|(_, at_ms)| *at_ms);
    let shown_ms = shown.reduce(f64::min).filter(|at_ms| stepped_ms.is_some_and(|it| *at_ms < it));
    let took_ms = stepped_ms.map(|at_ms| at_ms - shown_ms.unwrap_or(stopped_ms));
    let from = if shown_ms.is_some() { "what showed it" } else { "the last look before the stop" };
    Check::new(
        format!("service: {when}: stepped within {FIRST_ANSWER_MS} ms of what showed the pause"),
        took_ms.map_or("no step".to_owned(), |ms| format!("{ms:.0} ms after {from}")),
        took_ms.is_some_and(|ms| ms <= FIRST_ANSWER_MS),
    )
}

/// Two daemons that fight step to and fro.
fn stepped_once_each(machine: &mut Machine) -> Result<Check, String> {
    let entries = entries(machine)?;
    let steps = entries.iter().filter(is_step).count();
    let sets = entries.iter().filter(|(what, _)| what == SET).count();
    Ok(Check::new(
        "service: one step a pause, all of ours, none at the start, beside chronyd",
        format!("{steps} steps, {} pauses; {sets} steps of others", PAUSES.len()),
        steps == PAUSES.len() && sets == 0,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_not_held_against_itself() {
        let entry = |what: &str, at_ms: f64| (what.to_owned(), at_ms);
        let of = |since: &[(String, f64)]| after_the_first_answer("x", 1000.0, since);
        let step = entry("corrected", 2900.0);
        // Recorded as "after 0 ms": nothing before the step told of the pause.
        let alone = of(&[step.clone(), entry("disruption", 3100.0)]);
        assert!(!alone.passed && alone.found.starts_with("1900 ms after the last look"));
        assert!(of(&[entry("corrected", 1800.0)]).passed);
        let shown = of(&[entry("disruption", 2700.0), step.clone()]);
        assert!(shown.passed && shown.found == "200 ms after what showed it", "{}", shown.found);
        assert!(!of(&[entry("disruption", 1500.0), step.clone()]).passed);
        assert!(!of(&[entry("synchronised", 2800.0), step]).passed, "it shows no pause");
        assert!(!of(&[entry("disruption", 1500.0), entry(SET, 1800.0)]).passed, "not by ours");
        // Logged late, of before the stop.
        assert!(!of(&[entry("disruption", 900.0), entry("corrected", 950.0)]).passed);
        assert!(!of(&[]).passed);
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
