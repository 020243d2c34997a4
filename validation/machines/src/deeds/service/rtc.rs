//! The RTC as QEMU shows it, which the kernel sets while the clock counts as
//! synchronised (kernel/time/ntp.c, `sync_hw_clock`; CONFIG_RTC_SYSTOHC): some seconds
//! after a correction.

use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::checks::Check;
use crate::machine::Machine;

use super::right::after_a_stop;
use super::setup::PAUSES;

/// Sets it five hours back.
const WRONG: &str = "TZ=EST5 hwclock -w -l; sleep 2";

/// It shows whole seconds, and is read by a system that is busy.
const RIGHT_S: i64 = 2;

/// After a correction the kernel looks again each two seconds until it hits the middle
/// of one (`sched_sync_hw_clock`).
const SOON: Duration = Duration::from_secs(20);

/// Set wrong, it is right soon after a pause was corrected.
pub(super) fn after_a_correction(machine: &mut Machine) -> Result<[Check; 2], String> {
    machine.execute(WRONG)?;
    let wrong_s = ahead_s(machine)?;
    let when = "stop, cont with an RTC 5 hours behind";
    let corrected = after_a_stop(when, machine, PAUSES[0])?;
    Ok([corrected, written(wrong_s, machine)?])
}

fn written(wrong_s: i64, machine: &mut Machine) -> Result<Check, String> {
    let start = Instant::now();
    let mut now_s = wrong_s;
    while now_s.abs() > RIGHT_S && start.elapsed() < SOON {
        sleep(Duration::from_millis(500));
        now_s = ahead_s(machine)?;
    }
    Ok(Check::new(
        "service: the kernel sets the RTC to the time of day after a correction",
        format!("{wrong_s} s ahead, then {now_s} s after {:.1} s", start.elapsed().as_secs_f64()),
        wrong_s.abs() > RIGHT_S && now_s.abs() <= RIGHT_S,
    ))
}

/// What it shows, minus this system's UTC, s.
fn ahead_s(machine: &mut Machine) -> Result<i64, String> {
    let qmp = machine.qmp.as_mut().ok_or("an RTC needs QMP")?;
    let shown = qmp.execute("qom-get", json!({ "path": "/machine", "property": "rtc-time" }))?;
    let shown_s = unix_s(&shown).ok_or_else(|| format!("an RTC that shows {shown}"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|why| why.to_string())?;
    Ok(shown_s - now.as_secs().cast_signed())
}

/// C's `struct tm`, of a time from March 2000 to February 2100.
fn unix_s(shown: &Value) -> Option<i64> {
    let part = |name: &str| shown[name].as_i64();
    // Of years that begin in March: months of 153 days in five.
    let month = part("tm_mon")? + 10;
    let year = part("tm_year")? - 101 + month / 12;
    let days = year * 365 + year / 4 + (month % 12 * 153 + 2) / 5 + part("tm_mday")? - 1;
    // 2000-03-01 is day 11017.
    Some(
        (11_017 + days) * 86_400 + part("tm_hour")? * 3600 + part("tm_min")? * 60 + part("tm_sec")?,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_seconds() {
        let at = |year: i64, mon: i64, mday: i64| {
            unix_s(&json!({ "tm_year": year - 1900, "tm_mon": mon - 1, "tm_mday": mday,
                "tm_hour": 1, "tm_min": 2, "tm_sec": 3 }))
        };
        // By date(1).
        assert_eq!(at(2000, 3, 1), Some(951_872_400 + 123));
        assert_eq!(at(2024, 2, 29), Some(1_709_168_400 + 123));
        assert_eq!(at(2026, 12, 31), Some(1_798_678_800 + 123));
        assert_eq!(at(2027, 1, 1), Some(1_798_765_200 + 123));
        assert_eq!(unix_s(&json!({ "tm_year": 1 })), None);
    }
}
