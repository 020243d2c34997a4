//! `parachron keep` with three NTP servers outside: a leap second that they announce is
//! the kernel's to insert, a tick that somebody left is put back, and a rate beyond
//! the kernel's is told of once.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::checks::Check;
use crate::machine::Machine;

use super::Place;
use super::disruptions::channel::now_ns;
use super::keep::{RIGHT_S, end, start};
use super::server::Server;

/// 2027-01-01 00:00:00 UTC, s since 1970.
const MIDNIGHT_S: i64 = 1_798_761_600;

/// How long before it the servers' clocks are set: after a step the kernel is told
/// with the next poll at the soonest.
const BEFORE_S: i64 = 60;

/// How long after it the clock is judged: nothing is measured for 3 s, and a poll is 8.
const AFTER_S: i64 = 14;

/// The servers' clocks are fast by so much, ppm, and so often an interval of theirs shows it.
const FAST: &str = "20000";
const TOLD: Duration = Duration::from_secs(180);

pub(super) fn run(
    place: &Place<'_>,
    machine: &mut Machine,
    checks: &mut Vec<Check>,
) -> Result<(), String> {
    leap_second(place, machine, checks)?;
    wrong_rate(place, machine, checks)
}

fn three(place: &Place<'_>, words: &[&str]) -> Result<([Server; 3], String), String> {
    let program = place.workshop.programs.join("ntp-server");
    let one = || Server::with(&program, words);
    let servers = [one()?, one()?, one()?];
    let options = servers.each_ref().map(|server| format!(" --ntp 10.0.2.2:{}", server.port));
    Ok((servers, options.concat()))
}

fn leap_second(
    place: &Place<'_>,
    machine: &mut Machine,
    checks: &mut Vec<Check>,
) -> Result<(), String> {
    let (mut servers, options) = three(place, &[&format!("leap={MIDNIGHT_S}")])?;
    let by_s = (MIDNIGHT_S - BEFORE_S) as f64 - now_ns() as f64 / 1e9;
    servers.iter_mut().try_for_each(|server| server.step(by_s))?;
    let begun = Instant::now();
    let left = |until_s: i64| {
        let all = Duration::from_secs((BEFORE_S + until_s).unsigned_abs());
        all.saturating_sub(begun.elapsed())
    };
    start(machine, &options)?;
    let mut armed = String::new();
    while !armed.contains("INS") && !left(-2).is_zero() {
        armed = machine.execute("date -u +%H:%M:%S; adjtimex | grep status")?.replace('\n', ", ");
    }
    checks.push(Check::new(
        "keep: a leap second that three servers announce is armed in the kernel",
        &armed,
        armed.contains("INS"),
    ));
    sleep(left(AFTER_S));
    let (ahead_s, bound_s) = machine.ahead_s()?;
    let off_s = ahead_s - (by_s - 1.0);
    let line = "date -u +%Y; grep -c '\"how\":\"step\"' /tmp/keep; \
        grep '\"event\":\"disruption\"' /tmp/keep | grep -c '\"leap-second\"'; true";
    let said = machine.execute(line)?.replace('\n', ", ");
    checks.push(Check::new(
        "keep: after it the time of day is right, by no step except the one at the start; it is reported",
        format!("{off_s:.3} ± {bound_s:.3} s ahead; year, steps, reports: {said}"),
        off_s.abs() <= bound_s + RIGHT_S
            && said == "2027, 1, 1",
    )
    .read_to_s(bound_s));
    end(machine, checks)
}

fn wrong_rate(
    place: &Place<'_>,
    machine: &mut Machine,
    checks: &mut Vec<Check>,
) -> Result<(), String> {
    // 100 ppm, as a daemon may leave it that was killed in a slew.
    machine.execute("adjtimex -q -f 0 -t 10001")?;
    let (_servers, options) = three(place, &[FAST])?;
    start(machine, &options)?;
    let tick = "adjtimex | grep -E 'tick|freq.adjust'";
    // It is put back after keep has reported its start.
    let found = machine.execute(&format!(
        "for i in $(seq 40); do grep -q '\"tick-reset\"' /tmp/keep && break; usleep 50000; done; \
         {tick}; grep -o '\"tick-reset\".*' /tmp/keep; true"
    ))?;
    let is_reset = found.contains("\"frequency_ppm\":100.0") && found.contains("10000");
    checks.push(Check::new(
        "keep: a tick of 10001 us is put back to 10000, as 100 ppm of frequency",
        found.replace('\n', ", "),
        is_reset,
    ));
    let begun = Instant::now();
    let count = "grep -c '\"wrong-rate\"' /tmp/keep; true";
    while machine.execute(count)? == "0" && begun.elapsed() < TOLD {
        sleep(Duration::from_secs(2));
    }
    // Two polls more: it is not told again.
    sleep(Duration::from_secs(20));
    let said = machine.execute(&format!(
        "grep -c '\"wrong-rate\"' /tmp/keep; grep -o '\"wrong-rate\".*' /tmp/keep; {tick}; true"
    ))?;
    checks.push(Check::new(
        "keep: a rate of 2 % is reported once, and not corrected by the tick",
        format!("after {:.0} s: {}", begun.elapsed().as_secs_f64(), said.replace('\n', ", ")),
        said.starts_with("1\n") && said.contains("10000"),
    ));
    end(machine, checks)
}
