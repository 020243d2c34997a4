//! Missed ticks: what a guest that counts its timer's interrupts gains and loses, by
//! policy, where its vCPU is kept from running.
//!
//! The guest's TSC is the witness: it shows how long the guest counted, and the spans
//! without a tick.

use std::time::{Duration, Instant};

use guest::request::GuestRequest;
use host::ClockProvider;
use host::ticks::{Backlog, TickPolicy};
use pvclock::Nanos;
use serde::Serialize;

use crate::bench::{LabBench, Provider};
use crate::results::{Check, ColumnForm, ExperimentResult, ResultTable, Verdict};
use crate::sample::{VCPU, not_run};
use crate::settings::{LabError, LabProgress};

/// Limits of catching up: at twice the rate, and up to so many ticks.
const CATCH_UP: TickPolicy = TickPolicy::CatchUp { rate: 2, most: 1_000 };

const POLICIES: [(&str, TickPolicy); 4] = [
    ("delay", TickPolicy::Delay),
    ("catch up", CATCH_UP),
    ("merge", TickPolicy::Merge),
    ("discard", TickPolicy::Discard),
];

/// A vCPU that is kept from running.
#[derive(Debug, Clone, Copy)]
struct Hold {
    span: Duration,
    period: Duration,
    /// Before; catching up takes as long as the hold, and that much again.
    before: Duration,
    /// Too long to wait for: the timer alone, by numbers.
    simulated: bool,
}

const fn hold(span_ms: u64, period_ms: u64, simulated: bool) -> Hold {
    let ms = Duration::from_millis;
    Hold { span: ms(span_ms), period: ms(period_ms), before: ms(10 * period_ms), simulated }
}

const HOLDS: [Hold; 3] = [hold(10, 1, false), hold(1_000, 10, false), hold(60_000, 10, true)];

/// Ticks at both ends of the hold, and of the count.
const ENDS: i64 = 2;

impl Hold {
    /// How long the guest counts.
    fn counted(&self) -> Duration {
        2 * (self.before + self.span)
    }

    /// Ticks that a guest loses for good by a hold of `held_ns`.
    ///
    /// 1 s at 100 Hz: 100 are missed; delayed or discarded all are lost, merged all but
    /// one, caught up none.
    fn lost(&self, policy: TickPolicy, held_ns: u128) -> i64 {
        let missed = (held_ns / self.period.as_nanos()) as i64;
        match policy {
            TickPolicy::Merge => missed - 1,
            TickPolicy::CatchUp { most, .. } => (missed - 1 - most.cast_signed()).max(0),
            _ => missed,
        }
    }
}

pub(crate) fn run(
    bench: &LabBench<'_>,
    progress: &mut dyn LabProgress,
) -> Result<ExperimentResult, LabError> {
    progress.step("holding vCPUs", 0.0);
    // All at once: a vCPU sleeps between its ticks.
    let found = std::thread::scope(|scope| {
        let threads = POLICIES.map(|(name, policy)| {
            scope
                .spawn(move || HOLDS.map(|hold| (name, policy, hold, observe(bench, policy, hold))))
        });
        threads.map(|thread| thread.join().expect("a vCPU's thread holds what panics"))
    });
    let (mut rows, mut checks) = (Vec::new(), Vec::new());
    for (name, policy, hold, seen) in found.into_iter().flatten() {
        let title = format!("{name}, vCPU held for {} s", hold.span.as_secs_f64());
        match seen {
            Ok(seen) => {
                rows.push(seen.row(name, hold));
                checks.push(seen.check(title, policy, hold));
            }
            Err(error) => checks.push(not_run(title, "ticks are counted".to_owned(), &error)),
        }
    }
    Ok((table(&rows), checks))
}

/// What the guest counted; times are ns.
#[derive(Debug, Clone, Copy)]
struct TickEvidence {
    counted_ns: u64,
    ticks: u64,
    /// How long it counted before it was held.
    before_ns: u64,
    held_ns: u128,
    longest_ns: u64,
    /// How long the vCPU's thread waited for a CPU when it was not held, where Linux says so.
    waited_ns: u64,
}

/// Ticks of a periodic timer whose vCPU was held.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct TicksRow {
    policy: String,
    by: &'static str,
    period_ms: u64,
    held_s: f64,
    /// Ticks that came due.
    owed: u64,
    given: u64,
    longest_ns: u64,
    behind_ns: i64,
}

fn table(rows: &[TicksRow]) -> ResultTable {
    use ColumnForm::{Count, Digits, Name, Nanos};
    let columns = [
        ("policy", "missed ticks", "", Name),
        ("by", "by", "", Name),
        ("period_ms", "period", "ms", Count),
        ("held_s", "held", "s", Digits(3)),
        ("owed", "owed", "", Count),
        ("given", "given", "", Count),
        ("longest_ns", "longest\nwithout", "", Nanos),
        ("behind_ns", "behind", "", Nanos),
    ];
    ResultTable::new("Ticks: a periodic timer whose vCPU was held", &columns, rows)
        .worst("behind_ns")
        .note(
            "by: a guest counted, or the timer alone was simulated, as the hold is long. owed: \
             ticks that came due by the guest's TSC. behind: the time that a guest which \
             counts ticks has lost. `catch up` runs at up to twice the rate, for up to 1 000 ticks.",
        )
}

fn observe(bench: &LabBench<'_>, policy: TickPolicy, hold: Hold) -> Result<TickEvidence, LabError> {
    if hold.simulated {
        return Ok(simulated(policy, hold));
    }
    let mut settings = bench.machine(Provider::Own(ClockProvider::None), 1);
    settings.ticks = policy;
    let machine = vmm::Machine::start(&settings)?;
    machine.discover(VCPU)?;
    let cycles = |span: Duration| (span.as_secs_f64() * bench.host_tsc.0 as f64) as u64;
    let (period_ns, counted) = (hold.period.as_nanos() as u64, cycles(hold.counted()));
    let request = GuestRequest::Ticks { period_ns, cycles: counted };
    let waited_ns = || machine.run_delay(VCPU).map(|delay| delay.map_or(0, |delay| delay.0));
    let waited_before_ns = waited_ns()?;
    let begun = Instant::now();
    machine.send_request(VCPU, request)?;
    std::thread::sleep(hold.before);
    let counted_before = begun.elapsed();
    let (held, waited_held) = machine.hold_vcpu(VCPU, hold.span)?;
    let [before, last, ticks, longest, ..] = machine.wait_for_reply(VCPU, request)?;
    let ns = |cycles: u64| (cycles as f64 * 1e9 / bench.host_tsc.0 as f64) as u64;
    Ok(TickEvidence {
        counted_ns: ns(last.wrapping_sub(before)),
        ticks,
        before_ns: counted_before.as_nanos() as u64,
        held_ns: held.as_nanos(),
        longest_ns: ns(longest),
        waited_ns: waited_ns()?.saturating_sub(waited_before_ns + waited_held.0),
    })
}

/// The same by numbers: a timer whose every tick is given at once, but for the hold.
fn simulated(policy: TickPolicy, hold: Hold) -> TickEvidence {
    let [span, period, before, end] =
        [hold.span, hold.period, hold.before, hold.counted()].map(|time| time.as_nanos() as u64);
    // Held from just after a tick.
    let held = before + 1..before + 1 + span;
    let mut timer = Backlog::new(Nanos(period), policy, Nanos(0)).expect("a period");
    let (mut last, mut longest_ns) = (0, 0);
    while last < end {
        let next = timer.next_at().0;
        let now = if held.contains(&next) { held.end } else { next };
        if timer.take(Nanos(now)) {
            longest_ns = longest_ns.max(now - last);
            last = now;
        }
    }
    let (ticks, held_ns) = (timer.delivered(), span.into());
    TickEvidence { counted_ns: last, ticks, before_ns: before, held_ns, longest_ns, waited_ns: 0 }
}

impl TickEvidence {
    fn owed(&self, hold: Hold) -> u64 {
        self.counted_ns / hold.period.as_nanos() as u64
    }

    fn behind(&self, hold: Hold) -> i64 {
        self.owed(hold).wrapping_sub(self.ticks).cast_signed()
    }

    fn row(&self, policy: &str, hold: Hold) -> TicksRow {
        TicksRow {
            policy: policy.to_owned(),
            by: if hold.simulated { "numbers" } else { "guest" },
            period_ms: hold.period.as_millis() as u64,
            held_s: self.held_ns as f64 / 1e9,
            owed: self.owed(hold),
            given: self.ticks,
            longest_ns: self.longest_ns,
            behind_ns: self.behind(hold) * hold.period.as_nanos() as i64,
        }
    }

    fn check(&self, name: String, policy: TickPolicy, hold: Hold) -> Check {
        let (lost, behind) = (hold.lost(policy, self.held_ns), self.behind(hold));
        let beyond = (behind - lost).unsigned_abs().saturating_sub(ENDS.unsigned_abs());
        let period_ns = hold.period.as_nanos() as u64;
        // The host's scheduler says how long others kept the vCPU from its CPU. It excuses the
        // ticks of that time, and those that there was no time left to catch up, but no others: a
        // gap without ticks is what is judged, and nothing excuses ticks too many.
        let (held_ns, waited_ns) = (self.held_ns as u64, self.waited_ns);
        let uncaught_ns = match policy {
            TickPolicy::CatchUp { rate, .. } => {
                let ran_ns = self.counted_ns.saturating_sub(self.before_ns + held_ns + waited_ns);
                (held_ns + waited_ns).saturating_sub(u64::from(rate - 1) * ran_ns)
            }
            _ => 0,
        };
        let excused = waited_ns.max(uncaught_ns).div_ceil(period_ns);
        let verdict = if behind > lost && (1..=excused).contains(&beyond) {
            let [held_us, waited_us] = [held_ns, waited_ns].map(|ns| ns / 1000);
            Verdict::NotMeasured(format!("held for {held_us} µs, waited {waited_us} µs for a CPU"))
        } else {
            Verdict::judge(beyond == 0)
        };
        Check {
            name,
            expected: format!("{lost} ± {ENDS} ticks lost"),
            found: format!(
                "{} of {} ticks delivered, {behind} lost; the longest gap was {} µs",
                self.ticks,
                self.owed(hold),
                self.longest_ns / 1000
            ),
            verdict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_s_hold_costs_what_the_policy_says() {
        let [.., minute] = HOLDS;
        // 6000 missed at 100 Hz.
        for ((name, policy), lost) in POLICIES.into_iter().zip([6_000, 4_999, 5_999, 6_000]) {
            let seen = simulated(policy, minute);
            let check = seen.check(name.to_owned(), policy, minute);
            assert_eq!(check.verdict, Verdict::Passed, "{name}: {}", check.found);
            assert!((seen.behind(minute) - lost).abs() <= ENDS, "{name}: {seen:?}");
        }
    }

    #[test]
    fn a_lost_tick_too_many_fails_unless_the_host_was_busy() {
        let [_, second, _] = HOLDS;
        let prompt = simulated(TickPolicy::Merge, second);
        let verdict =
            |seen: TickEvidence| seen.check(String::new(), TickPolicy::Merge, second).verdict;
        assert_eq!(verdict(prompt), Verdict::Passed);
        let lost = TickEvidence { ticks: prompt.ticks - 5, ..prompt };
        assert_eq!(verdict(lost), Verdict::Failed);
        // Five ticks of 10 ms, of which two are within the limit.
        let waited = |waited_ns| verdict(TickEvidence { waited_ns, ..lost });
        assert!(matches!(waited(30_000_000), Verdict::NotMeasured(_)));
        assert_eq!(waited(20_000_000), Verdict::Failed, "it waited for fewer than were lost");
    }

    /// 10 ms at 1000 Hz, and 20 ms to catch up. A vCPU that waited for 15 of these lost 15, and had
    /// 5 for the 10 of the hold.
    #[test]
    fn a_vcpu_that_waited_cannot_catch_up() {
        let [short, ..] = HOLDS;
        let prompt = simulated(CATCH_UP, short);
        let verdict = |waited_ms: u64, lost| {
            let waited_ns = waited_ms * 1_000_000;
            let seen = TickEvidence { ticks: prompt.ticks - lost, waited_ns, ..prompt };
            seen.check(String::new(), CATCH_UP, short).verdict
        };
        assert!(matches!(verdict(15, 20), Verdict::NotMeasured(_)));
        assert_eq!(verdict(15, 24), Verdict::Failed);
        assert!(matches!(verdict(10, 10), Verdict::NotMeasured(_)));
        assert_eq!(verdict(10, 14), Verdict::Failed);
        assert_eq!(verdict(0, 5), Verdict::Failed);
        let more = TickEvidence { ticks: prompt.ticks + 6, waited_ns: 10_000_000, ..prompt };
        assert_eq!(more.check(String::new(), CATCH_UP, short).verdict, Verdict::Failed);
        // Woken 15 ms late from the hold: 5 ms are left for 25.
        let late = TickEvidence { held_ns: 25_000_000, ..prompt };
        let verdict = |lost| {
            let seen = TickEvidence { ticks: prompt.ticks - lost, ..late };
            seen.check(String::new(), CATCH_UP, short).verdict
        };
        assert!(matches!(verdict(20), Verdict::NotMeasured(_)));
        assert_eq!(verdict(24), Verdict::Failed);
    }

    /// Every 8th tick is swallowed: a longer gap is no excuse for itself.
    #[test]
    fn a_lost_tick_is_not_excused_by_the_gap_that_it_leaves() {
        let [.., minute] = HOLDS;
        for (name, policy) in POLICIES {
            let prompt = simulated(policy, minute);
            let swallowed = TickEvidence { ticks: prompt.ticks - prompt.ticks / 8, ..prompt };
            let check = swallowed.check(name.to_owned(), policy, minute);
            assert_eq!(check.verdict, Verdict::Failed, "{name}");
        }
    }
}
