//! A leap second, which the kernel inserts and the host counts: nothing steps
//! against it.

use crate::checks::{Check, Checks, is_within};
use crate::deeds::disruptions::channel::now_ns;
use crate::machine::Machine;
use crate::outcome::Result;

use super::host::{Host, Reason};
use super::right::{from_now, soon_right, steps_s};
use super::setup::RIGHT_S;

/// 2027-01-01 00:00:00 UTC, ns since 1970.
const MIDNIGHT_NS: i64 = 1_798_761_600_000_000_000;

/// How long before it the machine's clock is set, ns.
const BEFORE_NS: i64 = 60_000_000_000;

/// The host speaks each second until so long after it.
const SECONDS: i32 = 70;

pub(super) fn run(machine: &mut Machine, host: &mut Host, checks: &mut Checks) -> Result {
    host.live_at(MIDNIGHT_NS - BEFORE_NS - now_ns(), MIDNIGHT_NS);
    // Before a step of ours, by which the kernel would lose it (ntp_clear, kernel/time/ntp.c,
    // leaves TIME_INS without a second for it), and the host announces none.
    steps_s(machine)?;
    machine.execute(
        "systemctl stop parachrond; date -u -s '2026-12-31 23:58:50' >/dev/null && \
        guest-clock leap insert; sleep 2; systemctl start parachrond; sleep 1",
    )?;
    host.notice(Reason::Periodic)?;
    machine.execute("sleep 4")?;
    let stepped_s: f64 = steps_s(machine)?.iter().sum();
    let mut largest_s: f64 = 0.0;
    let mut told = String::new();
    for _ in 0..SECONDS {
        host.notice(Reason::Periodic)?;
        let (ahead_s, bound_s) = machine.ahead_at_once_s()?;
        let off_s = (ahead_s - host.ahead_s()).abs() - bound_s;
        // Its first seconds are those of the start.
        if told.is_empty() {
            told = machine.execute("journalctl -u parachrond -n 1 -o cat")?;
        } else {
            largest_s = largest_s.max(off_s);
        }
        std::thread::sleep(std::time::Duration::from_millis(700));
    }
    let (ahead_s, bound_s) = machine.ahead_s()?;
    let off_s = ahead_s - host.ahead_s();
    let line = "journalctl -u parachrond -o cat --since '2026-12-31 23:59:30' | \
        grep -vE 'slew|synchronised'; true";
    let said = machine.execute(line)?;
    checks.push(Check::new(
        "service: a leap second that is due, a step of ours, then it: right after it, and no \
         step against it",
        format!(
            "stepped by {stepped_s:.3} s before it; {off_s:.3} ± {bound_s:.3} s ahead after it, \
             {largest_s:.3} s beyond what was known at most; {said}"
        ),
        (5.0..15.0).contains(&stepped_s)
            && is_within(RIGHT_S, (off_s, bound_s))
            && !said.contains("step: "),
    ));
    // Back to this system's time.
    let since = from_now(machine)?;
    host.live_at(0, i64::MAX);
    machine.execute(&format!(
        "systemctl stop parachrond; guest-clock leap none; date -u -s @{} >/dev/null; hwclock -w -u; \
        systemctl start parachrond; sleep 1",
        now_ns() / 1_000_000_000,
    ))?;
    host.notice(Reason::Periodic)?;
    checks.push(soon_right("back in the present", machine, since)?);
    Ok(())
}
