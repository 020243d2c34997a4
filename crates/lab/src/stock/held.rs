//! A guest whose time of day is kept, from outside: whether it becomes right, stays so, and
//! whose work that is.

use host::RestorePolicy;
use linux::clock::LinuxClock;
use serde::{Deserialize, Serialize};

use super::host_line::{PlacedReading, signed};
use super::kept::KeepOutput;
use super::ticking::Tick;
use crate::results::{Check, MovedRow};

/// A time of day is right within this, beyond the readings' bound, ns: below it `keep` lets
/// it be.
const RIGHT_NS: f64 = 1e6;
/// How soon it is right.
const RIGHT_S: f64 = 0.3;
/// For how long it has to stay so, and by how many more readings that is seen.
const HELD_NS: f64 = 3e9;
const HELD_READINGS: usize = 5;
/// What `keep` has where its machine was restored, and where it was behind.
const RESTORED: &str = "disruption";
const STEPPED: &str = "corrected step";

/// What was seen of it since a restore.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct HeldClock {
    /// The time of day, from the first reading that was right.
    dates: Vec<PlacedReading>,
    output: KeepOutput,
}

impl HeldClock {
    /// Of lines since, once the time of day was right and then seen for long enough.
    pub(super) fn find(lines: &[(Vec<PlacedReading>, Tick)]) -> Option<Self> {
        let dates = lines.iter().filter_map(|(stamps, _)| stamps.iter().find(|one| is_date(one)));
        let dates: Vec<_> = dates.skip_while(|date| !is_right(date)).cloned().collect();
        let (first, last) = (dates.first()?, dates.last()?);
        if dates.len() <= HELD_READINGS || signed(last.boot_ns, first.boot_ns) < HELD_NS {
            return None;
        }
        let output = || lines.iter().filter_map(|(_, tick)| tick.keep.as_ref());
        let events = output().flat_map(|output| output.events.clone()).collect();
        let ended = output().find_map(|output| output.ended.clone());
        Some(Self { dates, output: KeepOutput { ended, events } })
    }

    /// When the time of day was right, s since the restore, whether it stayed so, and whether
    /// that is `keep`'s work.
    pub(super) fn judge(
        &self,
        title: &str,
        policy: RestorePolicy,
        since_boot_ns: u64,
        moved: &mut MovedRow,
    ) -> Vec<Check> {
        let Some((first, later)) = self.dates.split_first() else { return Vec::new() };
        let right_s = signed(first.boot_ns, since_boot_ns) / 1e9;
        let ahead = later.iter().map(|date| date.ahead_ns);
        let worst_ns = ahead.max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(f64::NAN);
        moved.right_s = Some(right_s);
        (moved.ahead_ns, moved.worst_ahead_ns) = (Some(first.ahead_ns), Some(worst_ns));
        let is_behind = policy == RestorePolicy::Freeze || policy == RestorePolicy::Sleep;
        let has = |event: &str| self.output.events.iter().any(|one| one == event);
        let events =
            if self.output.events.is_empty() { "nothing" } else { &self.output.events.join(", ") };
        let ended = self.output.ended.as_deref().unwrap_or("runs");
        let must = if is_behind { format!("{RESTORED}, {STEPPED}") } else { RESTORED.to_owned() };
        let checks = [
            Check::new(
                "time of day",
                format!("right within {RIGHT_S} s, without a network"),
                format!("{:+.0} ns after {right_s:.3} s", first.ahead_ns),
                right_s <= RIGHT_S,
            ),
            Check::new(
                "time of day afterwards",
                format!("stays right for {:.0} s", HELD_NS / 1e9),
                format!("{worst_ns:+.0} ns, the worst of {} readings", later.len()),
                later.iter().all(is_right),
            ),
            Check::new(
                "keep",
                format!("runs, and reports {must}"),
                format!("{ended}, reported {events}"),
                self.output.ended.is_none() && has(RESTORED) && (!is_behind || has(STEPPED)),
            ),
        ];
        checks.map(|check| check.prefix(title)).into()
    }
}

fn is_date(stamp: &PlacedReading) -> bool {
    stamp.clock == LinuxClock::Realtime.name()
}

fn is_right(date: &PlacedReading) -> bool {
    date.ahead_ns.abs() <= RIGHT_NS + date.bound_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Verdict;

    const S: u64 = 1_000_000_000;

    fn line(at_ns: u64, ahead_ns: f64, output: KeepOutput) -> (Vec<PlacedReading>, Tick) {
        let clock = LinuxClock::Realtime.name().to_owned();
        let date = PlacedReading { clock, ns: 0, tsc: 0, boot_ns: at_ns, bound_ns: 1e3, ahead_ns };
        (vec![date], Tick { stamps: Vec::new(), fired: Vec::new(), keep: Some(output) })
    }

    fn output(events: &[&str]) -> KeepOutput {
        KeepOutput { ended: None, events: events.iter().map(|&one| one.to_owned()).collect() }
    }

    /// Restored at 10 s, behind at first, then right, and as `ahead` has from then on.
    fn lines(ahead: impl Fn(u64) -> f64) -> Vec<(Vec<PlacedReading>, Tick)> {
        let begins = [
            line(10 * S, -4e9, output(&[])),
            line(10 * S + S / 5, 16e3, output(&["disruption", "corrected step"])),
        ];
        let continued = (2..20).map(|n| line(10 * S + n * S / 5, ahead(n), output(&[])));
        begins.into_iter().chain(continued).collect()
    }

    fn verdicts(lines: &[(Vec<PlacedReading>, Tick)], policy: RestorePolicy) -> [bool; 3] {
        let held = HeldClock::find(lines).unwrap();
        let checks = held.judge("kvm: file", policy, 10 * S, &mut MovedRow::default());
        let passed: Vec<_> = checks.iter().map(|one| one.verdict == Verdict::Passed).collect();
        passed.try_into().unwrap()
    }

    #[test]
    fn a_time_of_day_has_to_be_right_and_stay_so() {
        let right = lines(|_| 20e3);
        assert_eq!(verdicts(&right, RestorePolicy::Freeze), [true; 3]);
        assert_eq!(HeldClock::find(&right[..8]), None, "not seen for long enough");
        assert_eq!(HeldClock::find(&right[..1]), None, "never right");
        let once = lines(|n| if n == 9 { -4e9 } else { 20e3 });
        assert_eq!(verdicts(&once, RestorePolicy::Freeze), [true, false, true]);
        assert_eq!(verdicts(&right[1..], RestorePolicy::Advance), [true; 3]);
        let late: Vec<_> = (0..30).map(|n| line(11 * S + n * S / 5, 0.0, output(&[]))).collect();
        assert_eq!(verdicts(&late, RestorePolicy::Advance), [false, true, false]);
    }

    #[test]
    fn it_is_keeps_work_and_keep_lives() {
        let mut lines = lines(|_| 0.0);
        lines[1].1.keep = Some(output(&["disruption"]));
        assert_eq!(verdicts(&lines, RestorePolicy::Advance), [true; 3]);
        assert_eq!(verdicts(&lines, RestorePolicy::Sleep), [true, true, false], "no step");
        lines[9].1.keep =
            Some(KeepOutput { ended: Some("exit status: 1".to_owned()), events: vec![] });
        assert_eq!(verdicts(&lines, RestorePolicy::Advance), [true, true, false]);
    }
}
