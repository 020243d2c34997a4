//! What people and programs do to a machine's clocks from within, one after
//! another, while `watch` runs.

use crate::checks::Check;
use crate::machine::Machine;

use super::watching::{self, Caused};

/// A change: what it is called, the line that makes it, the name that fits (no
/// name: nothing may be told), and its size in seconds.
type Change = (&'static str, &'static str, Option<&'static str>, Option<f64>);

/// The RTC is no clock that Linux reads while it runs, and of a CPU's leave no
/// clock takes notice.
const CHANGES: &[Change] = &[
    ("the date set by +30 s", "guest-clock step 30", Some("clock-set"), Some(30.0)),
    ("the date set by -30 s", "guest-clock step -30", Some("clock-set"), Some(30.0)),
    ("the date set by +0.4 s", "guest-clock step 0.4", Some("clock-set"), Some(0.4)),
    ("slewed by 50 ppm", "guest-clock frequency 50", Some("steered"), None),
    ("slewed by 0 ppm", "guest-clock frequency 0", Some("steered"), None),
    ("the clock source switched", SWITCH, Some("source-switched"), None),
    ("the clock source switched back", BACK, Some("source-switched"), None),
    ("the date set an hour ahead", "guest-clock step 3600", Some("clock-set"), Some(3600.0)),
    ("the RTC set to it", "hwclock -u -w", None, None),
    ("the date set an hour back", "guest-clock step -3600", Some("clock-set"), Some(3600.0)),
    ("the RTC set back", "hwclock -u -w", None, None),
    ("a CPU taken away", "echo 0 >/sys/devices/system/cpu/cpu1/online", None, None),
    ("a CPU brought back", "echo 1 >/sys/devices/system/cpu/cpu1/online", None, None),
];

/// `hwclock` writes a second when it has begun already.
const WRITTEN_LATE_S: f64 = 1.0;

const SWITCH: &str = "cat $CLOCKSOURCE >/tmp/source; echo acpi_pm >$CLOCKSOURCE";
const BACK: &str = "cat /tmp/source >$CLOCKSOURCE";

pub(super) fn run(machine: &mut Machine, checks: &mut Vec<Check>) -> Result<(), String> {
    for (what, line, kind, size_s) in CHANGES {
        let (_, seen) = watching::during(machine, |machine| machine.execute(line))?;
        let kinds: Vec<&str> = kind.iter().copied().collect();
        let size_s = size_s.map(|size_s| (size_s, 0.0));
        checks.push(watching::judge(&Caused { what, kinds: &kinds, besides: &[], size_s }, &seen));
    }
    rtc_alone(machine, checks)
}

/// An RTC that somebody sets to another time than the time of day's cannot be told
/// from a machine that stood (docs/guide/watch.md): both are told.
fn rtc_alone(machine: &mut Machine, checks: &mut Vec<Check>) -> Result<(), String> {
    let line = "guest-clock step 100; hwclock -u -w; guest-clock step -100";
    let (_, seen) = watching::during(machine, |machine| machine.execute(line))?;
    let caused = Caused {
        what: "the RTC alone set 100 s ahead",
        kinds: &["pause|snapshot-restored|migrated|rtc-set"],
        besides: &["clock-set"],
        size_s: Some((100.0, WRITTEN_LATE_S)),
    };
    checks.push(watching::judge(&caused, &seen));
    machine.execute("hwclock -u -w").map(drop)
}
