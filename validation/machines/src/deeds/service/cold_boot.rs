//! A machine that is started in 1980 without an RTC: the host's first word is its date,
//! though two servers are named, and neither is there.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::checks::Checks;
use crate::machine::Machine;
use crate::outcome::Result;

use super::host::{Host, Reason};
use super::right::{corrected, from_now, soon_right, steps_s};
use super::setup::{BY_THE_PORT, configure};

/// 1980-01-06 00:00:00 UTC, s since 1970: where GPS' weeks begin, and with them a clock
/// that knows no date.
const STARTED_S: f64 = 315_964_800.0;

/// It runs on from there until it is given its date, s.
const RUNS_S: f64 = 60.0;

/// Nobody replies (RFC 5737). Of three voices two have to agree, but for a clock without
/// a date.
const SILENT: &str = "ntp = [\"192.0.2.1\", \"198.51.100.1\"]\n";

/// The machine has an RTC, which would agree with the host.
const WITHOUT_RTC: &str = "no-source = [\"rtc\"]\n";

pub(super) fn run(machine: &mut Machine, host: &mut Host, checks: &mut Checks) -> Result {
    configure(machine, &format!("{SILENT}{BY_THE_PORT}{WITHOUT_RTC}"))?;
    machine.execute("systemctl stop parachrond")?;
    steps_s(machine)?;
    machine.execute(&format!(
        "date -u -s @{STARTED_S} >/dev/null && systemctl start parachrond; sleep 1"
    ))?;
    host.notice(Reason::Periodic)?;
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|why| why.to_string())?;
    let away_s = now_s.as_secs_f64() - STARTED_S;
    let when = "started in 1980 without an RTC, two servers silent, by the host's first word";
    checks.push(corrected(when, machine, away_s - RUNS_S..=away_s + RUNS_S)?);
    configure(machine, BY_THE_PORT)?;
    let since = from_now(machine)?;
    machine.execute("systemctl restart parachrond; sleep 1")?;
    host.notice(Reason::Periodic)?;
    checks.push(soon_right("by the host's word, started again", machine, since)?);
    Ok(())
}
