//! Beside chronyd, what happens to a machine besides pauses: it is suspended, an
//! administrator sets its date, a server lies, its network is gone, a second is inserted.
//! When the clock is right again, by which steps of ours, and what chronyd thinks of it.

use std::slice;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::checks::{Check, Checks};
use crate::deeds::disruptions::channel::now_ns;
use crate::deeds::server::Server;
use crate::deeds::{Place, suspend};
use crate::machine::Machine;
use crate::outcome::Result;

use super::other::{CHRONYD, follows, thinks};
use super::right::{self, Reading, TELLING_S, from_now, look, soon_right, steps_s};
use super::servers::{LIE_S, falseticker, link};
use super::setup::{INSTALL, PAUSES, RIGHT_S, WAIT, configuration, configure};

/// chronyd, which polls each second for that, has to see a date that was set, and to measure
/// anew. Debian's file lets it step in its first three answers only.
const BY_CHRONYD: Duration = Duration::from_secs(60);
const MAY_STEP: &str = "chronyc makestep 0.5 -1";
const MAY_NOT_STEP: &str = "chronyc makestep 1 0";

/// What an administrator is wrong by, s.
const SET_S: f64 = 3600.0;

/// 2027-01-01 00:00:00 UTC, s since 1970; how long before it the machine is put there,
/// which chronyd needs to follow its server again; and when it is judged.
const MIDNIGHT_S: i64 = 1_798_761_600;
const BEFORE_S: i64 = 170;
const AFTER_S: i64 = 14;

/// What corrects a pause has so long before it, s.
const STEPPED_BEFORE_S: i64 = 15;

/// Debian's chronyd believes a list of leap seconds, which has none for the future, rather
/// than its servers. It is put where they are, and follows them.
const TO_THE_SERVERS: &str = "systemctl stop parachrond chrony; \
    sed -i '/^leap/d' /etc/chrony/chrony.conf; date -u -s @{now} >/dev/null";

pub(crate) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let program = place.workshop.programs.join("ntp-server");
    let right = [Server::start(&program)?, Server::start(&program)?];
    checks.push(follows(machine, &CHRONYD, &right[0])?);
    machine.execute(INSTALL)?;
    configure(machine, &configuration(&right))?;
    let since = from_now(machine)?;
    machine.execute("systemctl enable --now parachrond")?;
    checks.push(soon_right("beside chronyd, it starts", machine, since)?);
    suspended(machine, checks)?;
    date_set(machine, checks)?;
    without_network(machine, checks)?;
    beside_a_liar(&program, right, machine, checks)?;
    leap_second(&program, machine, checks)
}

/// The check, with what chronyd thinks a poll later, when the clock is right still.
fn with_chronyd(mut check: Check, machine: &mut Machine, checks: &mut Checks) -> Result {
    sleep(CHRONYD.polls);
    let (ahead_s, bound_s) = machine.ahead_s()?;
    let thinks = thinks(machine, &CHRONYD)?;
    check.found += &format!(
        "; {} s later {ahead_s:.3} ± {bound_s:.3} s ahead, and chronyd thinks {thinks}",
        CHRONYD.polls.as_secs()
    );
    check.passed &= ahead_s.abs() <= bound_s + RIGHT_S;
    checks.push(check.read_to_s(bound_s));
    Ok(())
}

fn suspended(machine: &mut Machine, checks: &mut Checks) -> Result {
    let since = from_now(machine)?;
    suspend::suspended(machine)?;
    let check = soon_right("beside chronyd, suspend to RAM, wake-up", machine, since)?;
    with_chronyd(check, machine, checks)
}

/// chronyd, which may step at any time, takes it back. Ours leaves it.
fn date_set(machine: &mut Machine, checks: &mut Checks) -> Result {
    machine.execute(&format!("{MAY_STEP} && {}", CHRONYD.hurry))?;
    steps_s(machine)?;
    machine.execute(&format!("date -s @$(($(date +%s) + {SET_S})) >/dev/null"))?;
    let readings = look(machine, BY_CHRONYD)?;
    sleep(WAIT);
    let steps = steps_s(machine)?;
    machine.execute(&format!("{MAY_NOT_STEP} && {}", CHRONYD.calm))?;
    let check = of_a_date(&readings, &steps);
    with_chronyd(check, machine, checks)
}

fn of_a_date(readings: &[Reading], steps: &[f64]) -> Check {
    let took_s = readings.last().filter(|one| one.is_right()).map(|one| one.after_s);
    let took = took_s.map_or("never".to_owned(), |s| format!("after {s:.1} s"));
    Check::new(
        format!(
            "service: beside chronyd, a date that was set: left to chronyd, which takes it back \
             within {} s",
            BY_CHRONYD.as_secs()
        ),
        format!("{SET_S} s ahead, right {took}; steps of ours: {}", steps.len()),
        took_s.is_some() && steps.is_empty(),
    )
}

/// Stopped without a network, which comes back.
fn without_network(machine: &mut Machine, checks: &mut Checks) -> Result {
    link(machine, false)?;
    sleep(WAIT);
    let since = from_now(machine)?;
    machine.pause(PAUSES[0])?;
    sleep(WAIT);
    let (ahead_s, bound_s) = machine.ahead_s()?;
    link(machine, true)?;
    let when = "beside chronyd, stop, cont without a network, which comes back";
    let mut check = soon_right(when, machine, since)?;
    check.found += &format!("; without it {ahead_s:.3} ± {bound_s:.3} s ahead");
    with_chronyd(check, machine, checks)
}

/// One of three servers lies; chronyd follows a right one.
fn beside_a_liar(
    program: &std::path::Path,
    right: [Server; 2],
    machine: &mut Machine,
    checks: &mut Checks,
) -> Result {
    let mut liar = Server::start(program)?;
    liar.step(LIE_S)?;
    let port = liar.port;
    let [first, second] = right;
    let all = [first, second, liar];
    configure(machine, &configuration(&all))?;
    let since = from_now(machine)?;
    machine.execute("systemctl restart parachrond")?;
    sleep(WAIT);
    let steps = steps_s(machine)?;
    let when = "beside chronyd, one of three servers lies by 5 s";
    let mut check = soon_right(when, machine, since)?;
    check.passed &= steps.is_empty();
    check.found += &format!("; at the start steps: {}", steps.len());
    with_chronyd(check, machine, checks)?;
    checks.push(falseticker(port, machine)?);
    let when = "beside chronyd, one of three servers lies, stop, cont";
    let check = right::after_a_stop(when, machine, PAUSES[0])?;
    with_chronyd(check, machine, checks)
}

/// Servers announce a second: chronyd arms it, a pause is corrected by a step of ours, the
/// kernel inserts it still (`ntp_clear`, kernel/time/ntp.c, would have lost it, and chronyd
/// would not have noticed), and nothing steps against it.
fn leap_second(program: &std::path::Path, machine: &mut Machine, checks: &mut Checks) -> Result {
    let mut server = Server::with(program, &[&format!("leap={MIDNIGHT_S}")])?;
    let by_s = (MIDNIGHT_S - BEFORE_S) as f64 - now_ns() as f64 / 1e9;
    server.step(by_s)?;
    let begun = Instant::now();
    let left = |until_s: i64| {
        let all = Duration::from_secs((BEFORE_S + until_s).unsigned_abs());
        all.saturating_sub(begun.elapsed())
    };
    machine.execute(&TO_THE_SERVERS.replace("{now}", &(MIDNIGHT_S - BEFORE_S).to_string()))?;
    checks.push(follows(machine, &CHRONYD, &server)?);
    // chronyd slews what `date` is off by.
    while (machine.ahead_s()?.0 - by_s).abs() > RIGHT_S && left(-90) > Duration::ZERO {
        sleep(Duration::from_secs(1));
    }
    configure(machine, &configuration(slice::from_ref(&server)))?;
    machine.execute("systemctl start parachrond; sleep 3")?;
    steps_s(machine)?;
    let mut armed = String::new();
    while !armed.contains("INS") && !left(-STEPPED_BEFORE_S).is_zero() {
        armed = machine.execute("date -u +%H:%M:%S; adjtimex | grep status")?.replace('\n', ", ");
        sleep(Duration::from_secs(1));
    }
    // Debian's may in its first three answers.
    machine.execute(MAY_NOT_STEP)?;
    machine.pause(PAUSES[0])?;
    sleep(left(AFTER_S));
    let (ahead_s, bound_s) = machine.ahead_s()?;
    let off_s = ahead_s - (by_s - 1.0);
    let steps = steps_s(machine)?;
    let date = machine.execute("date -u +%Y; chronyc -c tracking")?.replace('\n', ", ");
    checks.push(of_a_leap_second((off_s, bound_s), &armed, &steps, &date));
    Ok(())
}

fn of_a_leap_second((off_s, bound_s): (f64, f64), armed: &str, steps: &[f64], date: &str) -> Check {
    Check::new(
        "service: beside chronyd, a leap second that it arms, then a pause: right after it, and no \
         step of ours but the pause's",
        format!(
            "armed: {armed}; {off_s:.3} ± {bound_s:.3} s ahead after it; steps of ours: \
             {steps:.3?} s; in {date}",
        ),
        armed.contains("INS")
            && date.starts_with("2027")
            && bound_s < TELLING_S
            && off_s.abs() <= bound_s + RIGHT_S
            && matches!(steps, [by_s] if (by_s - PAUSES[0].as_secs_f64()).abs() < 0.5),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(ahead_s: f64, bound_s: f64) -> Reading {
        Reading { ahead_s, bound_s, after_s: 7.0 }
    }

    #[test]
    fn a_date_that_stays_or_that_we_take_back_is_wrong() {
        let right = [reading(SET_S, 0.1), reading(0.01, 0.1)];
        assert!(of_a_date(&right, &[]).passed);
        assert!(!of_a_date(&right, &[-SET_S]).passed);
        assert!(!of_a_date(&right[..1], &[]).passed && !of_a_date(&[], &[]).passed);
    }

    #[test]
    fn a_leap_second_that_was_not_inserted_or_was_stepped_is_wrong() {
        let armed = "23:58:20, status: 16 (INS)";
        let of = |off, armed, steps: &[f64]| of_a_leap_second(off, armed, steps, "2027, x").passed;
        assert!(of((0.01, 0.1), armed, &[2.01]));
        assert!(!of((1.01, 0.1), armed, &[2.01]), "not inserted");
        assert!(!of((0.01, 0.1), armed, &[2.01, -1.0]), "stepped against it");
        assert!(!of((0.01, 0.1), armed, &[]), "not stepped before it");
        assert!(!of((0.01, 0.1), "23:59:57, status: 0 ()", &[2.01]), "by nobody's arming");
        assert!(!of((0.6, 2.5), armed, &[2.01]), "a reading that tells nothing");
    }
}
