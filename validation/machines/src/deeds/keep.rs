//! `parachron keep` in a machine that is paused: by the host's PTP clock the time of day is
//! right again. An RTC alone never sets it.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use crate::checks::{Check, Checks, is_within};
use crate::machine::Machine;
use crate::outcome::Result;

/// For how long the machine is stopped.
const PAUSE: Duration = Duration::from_secs(5);

/// How long keep may take to poll, confirm and step, and the reading of the
/// clock after it: the machine is slow.
const CORRECTED: Duration = Duration::from_secs(4);

/// How far off a clock that is right may be, beside what is known of it from
/// outside, s: twice the round trip through an emulated network card.
const RIGHT_S: f64 = 0.05;

const POLL: Duration = Duration::from_secs(8);

/// For how long an RTC that is wrong may try.
const ALONE: Duration = Duration::from_secs(15);

/// A clock that nobody steps gains less than this in that time, s: TCG's TSC by
/// the rate that the kernel found.
pub(crate) const STEPPED_S: f64 = 0.2;

/// The servers are silent, and the RTC is hours off: a clock that is right, as
/// this system's time was set, stays.
pub(super) fn with_rtc_alone(machine: &mut Machine, checks: &mut Checks) -> Result {
    let (ahead_s, _) = machine.ahead_s()?;
    machine.execute(&format!("guest-clock step {:.6}", -ahead_s))?;
    let (moved_s, bound_s) = machine.moved_s(|machine| {
        // TEST-NET-1 (RFC 5737): nobody replies.
        start(machine, " --ntp 192.0.2.1")?;
        sleep(ALONE);
        Ok(())
    })?;
    checks.push(Check::new(
        "keep: a wrong RTC and a silent server: the clock is not stepped",
        format!("moved by {moved_s:.3} ± {bound_s:.3} s in {} s", ALONE.as_secs()),
        is_within(STEPPED_S, (moved_s, bound_s)),
    ));
    end(machine, checks)
}

/// No server: the PTP clock that shows the host's time is found without being
/// named, and the doctor offers it to chronyd.
pub(super) fn by_phc(machine: &mut Machine, checks: &mut Checks) -> Result {
    let offered =
        "parachron doctor --only clock-steered | grep -c 'refclock PHC /dev/ptp0' || true";
    let found = machine.execute(offered)?;
    let what = "doctor: clock-steered offers the host's PTP clock as a refclock";
    checks.push(Check::new(what, format!("in {found} lines"), found != "0"));
    start(machine, "")?;
    sleep(CORRECTED);
    checks.push(right("by the host's PTP clock, at the start", machine)?);
    machine.pause(PAUSE)?;
    sleep(CORRECTED);
    checks.push(right("by the host's PTP clock, stop for 5 s, cont", machine)?);
    let corrected = machine.execute("grep '\"corrected\"' /tmp/keep || true")?;
    checks.push(corrected_by(&corrected, "phc /dev/ptp0"));
    end(machine, checks)
}

/// All corrections, of which there is one at least, are by one source.
fn corrected_by(events: &str, source: &str) -> Check {
    let events = events.lines().map(serde_json::from_str::<serde_json::Value>);
    let of = |event: serde_json::Value| event["source"].as_str().unwrap_or("none").to_owned();
    let sources: BTreeSet<String> = events.flatten().map(of).collect();
    let what = format!("keep: it corrects by {source}");
    let all = sources.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    Check::new(what, &all, all == source)
}

fn start(machine: &mut Machine, options: &str) -> Result {
    let line = format!(
        "parachron keep --format json --min-interval 1s --poll {}s{options} >/tmp/keep \
         2>/tmp/keep.err & until grep -q '\"started\"' /tmp/keep || [ -s /tmp/keep.err ]; \
         do usleep 50000; done",
        POLL.as_secs()
    );
    machine.execute(&line).map(drop)
}

/// Ends it, and shows what it wrote on standard error.
fn end(machine: &mut Machine, checks: &mut Checks) -> Result {
    let line = "killall -TERM parachron; sleep 0.3; cat /tmp/keep.err; tail -n 1 /tmp/keep";
    let said = machine.execute(line)?;
    let ended = said.starts_with('{') && said.contains("\"summary\"");
    checks.push(Check::new("keep: ends with a summary, and without an error", said, ended));
    Ok(())
}

fn right(when: &str, machine: &mut Machine) -> Result<Check, String> {
    let (ahead_s, bound_s) = machine.ahead_s()?;
    Ok(Check::new(
        format!("keep: {when}: the time of day is right within 4 s"),
        format!("{ahead_s:.3} ± {bound_s:.3} s ahead"),
        is_within(RIGHT_S, (ahead_s, bound_s)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_source_or_none_is_wrong() {
        let event = |source: &str| format!("{{\"event\":\"corrected\",\"source\":\"{source}\"}}\n");
        assert!(corrected_by(&event("phc a").repeat(2), "phc a").passed);
        assert!(!corrected_by("", "phc a").passed);
        assert!(!corrected_by(&(event("phc a") + &event("rtc")), "phc a").passed);
    }
}
