//! A leap second that the kernel inserts at the end of a year.

use crate::checks::Checks;
use crate::machine::Machine;
use crate::outcome::Result;

use super::doctor;
use super::watching::{self, Caused, Seen};

/// The doctor's rule.
const RULE: &str = "leap-second";

/// All of it in one command: in a machine whose idle time costs nothing, time
/// passes while it waits for the next.
const LINE: &str = "date -u -s '2026-12-31 23:59:50' >/dev/null && guest-clock leap {verb} && \
    parachron doctor --format json >/tmp/before; \
    parachron watch --format json >/tmp/watch 2>/tmp/watch.err & \
    while [ $(date -u +%Y) = 2026 ]; do usleep 10000; done; \
    sleep 1; grep -c disruption /tmp/watch; sleep 1.5; \
    killall -INT parachron; grep disruption /tmp/watch; true";

pub(super) fn run(machine: &mut Machine, checks: &mut Checks) -> Result {
    one(machine, "insert", "a second inserted at the year's end", checks)?;
    one(machine, "delete", "a second left out at the year's end", checks)
}

fn one(machine: &mut Machine, verb: &str, what: &str, checks: &mut Checks) -> Result {
    let text = machine.execute(&LINE.replace("{verb}", verb))?;
    let (soon, all) = text.split_once('\n').unwrap_or((&text, ""));
    let mut told = watching::parse(all);
    let late = told.split_off(soon.trim().parse().unwrap_or(0).min(told.len()));
    let seen = Seen { soon: told, late, ..Seen::default() };
    let leap = Caused { what, kinds: &["leap-second"], besides: &[], size_s: Some((1.0, 0.0)) };
    checks.push(watching::judge(&leap, &seen));
    checks.push(doctor::found(
        machine,
        "cat /tmp/before",
        RULE,
        &format!("to come: {what}"),
        true,
    )?);
    // STA_INS or STA_DEL stays until somebody clears it, and nothing more is done
    // (kernel/time/ntp.c, second_overflow: TIME_WAIT).
    let line = doctor::DOCTOR;
    checks.push(doctor::found(machine, line, RULE, &format!("has passed: {what}"), false)?);
    // At its next second the kernel is ready for another one (second_overflow:
    // TIME_WAIT to TIME_OK).
    machine.execute("guest-clock leap none; sleep 2").map(drop)
}
